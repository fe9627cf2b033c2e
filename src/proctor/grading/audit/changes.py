"""A submission as a list of changed files with the lines that it adds, from a diff or from two trees."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from proctor.core.record import Record

SYMLINK_MODE: Final = 0o120000
SUBMODULE_MODE: Final = 0o160000
EXECUTABLE: Final = 0o111


class ChangeKind(StrEnum):
    """What was done to a file."""

    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"
    RENAMED = "renamed"


class ChangedFile(Record):
    """One file of a submission.

    Attributes:
        old_path: where a renamed file was.
        added: the lines that are new, each with its number in the new file.
        removed: the lines that are gone.
        content: the whole new file, where it is known.
        before: the whole old file, where it is known.
        mode: git's mode of the new file, where it is known.
    """

    path: str
    kind: ChangeKind
    old_path: str | None = None
    added: tuple[tuple[int, str], ...] = ()
    removed: tuple[str, ...] = ()
    content: bytes | None = None
    before: bytes | None = None
    binary: bool = False
    mode: int | None = None


_HUNK: Final = re.compile(rb"@@ -\d{1,9}(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_HEADER: Final = re.compile(rb"diff --git (.+)")
_BOTH: Final = re.compile(rb"a/(.+) b/\1")
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED_LETTERS: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class _DraftChange:
    """A change while its part of the diff is being read."""

    def __init__(self) -> None:
        self.old: str | None = None
        self.new: str | None = None
        self.kind = ChangeKind.CHANGED
        self.mode: int | None = None
        self.binary = False
        self.added: list[tuple[int, str]] = []
        self.removed: list[str] = []

    def set_paths(self, old: bytes, new: bytes) -> None:
        self.old = _path(old.removeprefix(b"--- "), b"a/")
        self.new = _path(new.removeprefix(b"+++ "), b"b/")
        if self.old is None:
            self.kind = ChangeKind.ADDED
        elif self.new is None:
            self.kind = ChangeKind.DELETED

    def read_header(self, line: bytes) -> None:
        if line.startswith(b"new file mode "):
            self.kind, self.mode = ChangeKind.ADDED, _mode(line)
        elif line.startswith(b"deleted file mode "):
            self.kind = ChangeKind.DELETED
        elif line.startswith((b"new mode ", b"index ")):
            self.mode = _mode(line) or self.mode
        elif line.startswith((b"rename from ", b"copy from ")):
            self.old = _path(line.split(b" ", 2)[2], b"")
        elif line.startswith((b"rename to ", b"copy to ")):
            self.new = _path(line.split(b" ", 2)[2], b"")
            self.kind = ChangeKind.RENAMED if line.startswith(b"rename") else ChangeKind.ADDED
        elif line.startswith((b"GIT binary patch", b"Binary files ")):
            self.binary = True

    def finish(self, after: Mapping[str, bytes]) -> ChangedFile | None:
        path = self.new or self.old
        if path is None:
            return None
        content = after.get(path)
        if content is None and self.kind is ChangeKind.ADDED and not self.binary:
            content = "\n".join(text for _, text in self.added).encode("utf-8", "surrogateescape")
        return ChangedFile(
            path=path,
            kind=self.kind,
            old_path=self.old if self.kind is ChangeKind.RENAMED else None,
            added=tuple(self.added),
            removed=tuple(self.removed),
            content=content,
            binary=self.binary,
            mode=self.mode,
        )


def read_diff(patch: bytes, after: Mapping[str, bytes] | None = None) -> tuple[ChangedFile, ...]:
    """The changes of a unified diff, git's or plain; what is not a diff is passed over.

    `after` gives new files whole, where the caller has them.
    """
    return tuple(change for draft in _drafts(patch.split(b"\n")) if (change := draft.finish(after or {})) is not None)


def _drafts(lines: list[bytes]) -> Iterator[_DraftChange]:
    draft: _DraftChange | None = None
    in_hunks = False
    position = 0
    while position < len(lines):
        line = lines[position].rstrip(b"\r")
        position += 1
        if match := _HEADER.fullmatch(line):
            if draft is not None:
                yield draft
            draft, in_hunks = _DraftChange(), False
            draft.old = draft.new = _common_path(match.group(1))
        elif draft is not None and (hunk := _HUNK.match(line)):
            in_hunks = True
            position = _read_hunk(draft, hunk, lines, position)
        elif line.startswith(b"--- ") and position < len(lines) and lines[position].startswith(b"+++ "):
            if draft is None or in_hunks:
                if draft is not None:
                    yield draft
                draft, in_hunks = _DraftChange(), False
            draft.set_paths(line, lines[position])
            position += 1
        elif draft is not None and not in_hunks:
            draft.read_header(line)
    if draft is not None:
        yield draft


def _read_hunk(draft: _DraftChange, hunk: re.Match[bytes], lines: list[bytes], position: int) -> int:
    """Read as many lines as the hunk's head says, whatever they look like; gives where the next part starts."""
    old_left = int(hunk.group(1) or 1)
    number = int(hunk.group(2))
    new_left = int(hunk.group(3) or 1)
    while position < len(lines) and (old_left > 0 or new_left > 0):
        line = lines[position]
        sign, text = line[:1], line[1:].decode("utf-8", "surrogateescape")
        if sign == b"+":
            draft.added.append((number, text))
            number += 1
            new_left -= 1
        elif sign == b"-":
            draft.removed.append(text)
            old_left -= 1
        elif sign in {b" ", b"\r", b""}:
            number += 1
            old_left -= 1
            new_left -= 1
        elif sign != b"\\":
            break
        position += 1
    return position


def _common_path(header: bytes) -> str | None:
    if header.startswith(b'"'):
        return _path(header, b"a/")
    match = _BOTH.fullmatch(header)
    return match.group(1).decode("utf-8", "surrogateescape") if match else None


def _path(raw: bytes, prefix: bytes) -> str | None:
    """A path as it stands in a header line; None for /dev/null."""
    text = raw.rstrip(b"\r")
    quoted = _QUOTED.match(text)
    text = _ESCAPE.sub(_unescape, quoted.group(1)) if quoted else text.partition(b"\t")[0]
    if text == b"/dev/null":
        return None
    if prefix and text[:2] in {b"a/", b"b/"}:
        text = text[2:]
    return text.decode("utf-8", "surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match.group(1)
    return bytes([int(code, 8) & 0xFF]) if code.isdigit() else _ESCAPED_LETTERS.get(code, code)


def _mode(line: bytes) -> int | None:
    digits = line.rsplit(b" ", 1)[1].strip()
    return int(digits, 8) if re.fullmatch(rb"[0-7]{6}", digits) else None


def compare_trees(
    before: Mapping[str, bytes], after: Mapping[str, bytes], modes: Mapping[str, int] | None = None
) -> tuple[ChangedFile, ...]:
    """The changes between two sets of files, of which a link's content is its target.

    `modes` are git's modes of the files after, where the caller has them.
    """
    modes = modes or {}
    changes = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old == new and modes.get(path) != SYMLINK_MODE:
            continue
        kind = ChangeKind.ADDED if old is None else ChangeKind.DELETED if new is None else ChangeKind.CHANGED
        binary = b"\0" in (new or b"")
        old_lines, new_lines = _lines(old), _lines(new)
        changes.append(
            ChangedFile(
                path=path,
                kind=kind,
                added=() if binary else tuple(_new_lines(old_lines, new_lines)),
                removed=() if binary else tuple(text for _, text in _new_lines(new_lines, old_lines)),
                content=new,
                before=old,
                binary=binary,
                mode=modes.get(path),
            )
        )
    return tuple(changes)


def _lines(data: bytes | None) -> list[str]:
    return [] if data is None else data.decode("utf-8", "surrogateescape").split("\n")


def _new_lines(old: list[str], new: list[str]) -> Iterator[tuple[int, str]]:
    """Lines of `new` beyond those that `old` has too. A moved line is not new; that takes linear time to tell."""
    known = Counter(old)
    for number, text in enumerate(new, 1):
        if known[text] > 0:
            known[text] -= 1
        else:
            yield number, text
