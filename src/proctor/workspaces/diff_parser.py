"""Reads unified diffs: which paths one names, and each of its lines. Whether it applies is for git to say.

Every check of a submission reads diffs with this module. It takes more for a path than git does, never less, so that
nothing that git would touch goes unchecked.
"""

import base64
import re
import zlib
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from proctor.core.causes import Cause
from proctor.workspaces.invalid_submission import CONTENT_PER_PATCH, LIMIT_BYTES, InvalidSubmission, check_size
from proctor.workspaces.paths import display_path, parents, unsafe_reason

MOST_FILES: Final = 20_000
_LONGEST_HEADER: Final = 10_000  # two paths of the longest kind, with quotes
_TWO_SIZES: Final = 20  # bytes: a delta begins with the sizes before and after, of at most ten each
_DEV_NULL: Final = b"/dev/null"
# Git reads a number however many zeros are in front of it.
_HUNK: Final = re.compile(rb"@@ -0*(\d{1,18})(?:,0*(\d{1,18}))? \+0*(\d{1,18})(?:,0*(\d{1,18}))? @@")
_BINARY_PIECE: Final = re.compile(rb"(literal|delta) (\d{1,18})")
_QUOTED: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_ESCAPED: Final = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_ODD_STEPS: Final = frozenset({b"", b"."})  # git refuses such paths
_FROM: Final = (b"rename from ", b"rename old ")
_TO: Final = (b"rename to ", b"rename new ", b"copy from ", b"copy to ")


DiffLineKind = Literal["add", "del", "same", "hunk", "meta"]


class DiffLine(NamedTuple):
    """One line of a diff.

    Attributes:
        text: the line; of added, removed and unchanged ones without the sign in front.
        before, after: its number in the file before and after.
    """

    kind: DiffLineKind
    text: bytes
    before: int | None = None
    after: int | None = None


@dataclass
class FileDiff:
    """What a diff says about one file.

    Attributes:
        written: paths that it may leave a file at.
        removed: paths that it takes the file away from.
        mentioned: all that stands for a path in the diff, with and without what may be a prefix.
        path: the path of the file afterwards; of a deleted file, the one that it had.
        old_path: the path that a renamed file had.
        content: its lines, in their order.
        lines: where it stands in the diff.
    """

    written: set[bytes] = field(default_factory=set)
    removed: set[bytes] = field(default_factory=set)
    mentioned: set[bytes] = field(default_factory=set)
    path: bytes = b""
    old_path: bytes | None = None
    content: list[DiffLine] = field(default_factory=list)
    lines: slice = field(default_factory=lambda: slice(0, 0))

    def lines_of(self, *kinds: DiffLineKind) -> list[bytes]:
        """The texts of the lines of these kinds, in their order."""
        return [line.text for line in self.content if line.kind in kinds]

    def finalize(self, *, deletes: bool) -> None:
        """All has been read: a file that is deleted, or renamed away, is written nowhere under that name."""
        if deletes:
            self.removed |= self.written
        self.written -= self.removed


class Diff(NamedTuple):
    """A diff, file by file; `preamble` are the lines before the first file."""

    preamble: list[DiffLine]
    files: list[FileDiff]


def parse_diff(patch: bytes, *, content_limit: int = CONTENT_PER_PATCH * LIMIT_BYTES) -> Diff:
    """Read a unified diff, git's or plain, or anything that claims to be one.

    Raises:
        InvalidSubmission: it unfolds to more than `content_limit`, has too many files, or a broken part.
    """
    reader = _DiffReader(patch, content_limit)
    reader.run()
    return Diff(reader.preamble, reader.files)


def read_diff(patch: bytes, *, content_limit: int = CONTENT_PER_PATCH * LIMIT_BYTES) -> list[FileDiff]:
    """The files of a diff.

    Raises:
        InvalidSubmission: there is no diff in it, or as `parse_diff`.
    """
    files = parse_diff(patch, content_limit=content_limit).files
    if not files:
        raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, "the patch holds no diff of any file")
    return files


def check_paths(files: list[FileDiff]) -> None:
    """Refuse a diff that names a path outside the workspace, or goes through something that it makes itself.

    Raises:
        InvalidSubmission: which path, and what is wrong with it.
    """
    written = {path for file in files for path in file.written}
    for file in files:
        for path in sorted(file.mentioned | file.written | file.removed):
            if (reason := unsafe_reason(path)) is not None:
                raise InvalidSubmission(Cause.UNSAFE_SUBMISSION, f"the path {reason}", where=display_path(path))
    directories: set[bytes] = set()
    for path in sorted(written):
        for above in parents(path):
            if above in written:
                # A link that the same patch makes, copies or renames could lead anywhere.
                what = f"the patch also makes {display_path(above)}, which would lead there"
                raise InvalidSubmission(Cause.UNSAFE_SUBMISSION, what, where=display_path(path))
            directories.add(above)
        if len(directories) > MOST_FILES:
            raise InvalidSubmission(Cause.TOO_LARGE, f"the patch writes in more than {MOST_FILES} directories")


class _DiffReader:
    """Goes through the lines once; `current` is the file that the current line is about."""

    def __init__(self, patch: bytes, content_limit: int) -> None:
        self.lines = patch.split(b"\n")
        self.at = 0
        self.content = len(patch)
        self.content_limit = content_limit
        self.files: list[FileDiff] = []
        self.current = FileDiff()
        self.preamble = self.current.content
        self.is_git = False
        self.has_content = True  # nothing before the first header belongs to a file
        self.deletes = False

    def run(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at].removesuffix(b"\r")
            self.at += 1
            if self.files and (hunk := _HUNK.match(line)):
                self._read_hunk(line, *(1 if count is None else int(count) for count in hunk.groups()))
                continue
            if line.startswith(b"diff --git "):
                self._begin(is_git=True)
                self._read_git_header(line[11:])
            elif line.startswith((b"--- ", b"+++ ")):
                self._read_side(line)
            elif self.files:
                self._read_header(line)
            if line or self.at < len(self.lines):  # the end of the last line begins no other
                self.current.content.append(DiffLine("meta", line))
        self._end(len(self.lines))

    def _end(self, line: int) -> None:
        self.current.finalize(deletes=self.deletes)
        self.current.lines = slice(self.current.lines.start, line)

    def _begin(self, *, is_git: bool) -> None:
        self._end(self.at - 1)
        if len(self.files) == MOST_FILES:
            raise InvalidSubmission(Cause.TOO_LARGE, f"the patch changes more than {MOST_FILES} files")
        self.current = FileDiff(lines=slice(self.at - 1, None))
        self.files.append(self.current)
        self.is_git = is_git
        self.has_content = False
        self.deletes = False

    def _read_header(self, line: bytes) -> None:
        if line.startswith(_FROM):
            self.current.old_path = self._add_path(line.split(b" ", 2)[2], self.current.removed, stripped=False)
        elif line.startswith(_TO):
            path = self._add_path(line.split(b" ", 2)[2], self.current.written, stripped=False)
            if not line.startswith(b"copy from "):
                self.current.path = path
        elif line.startswith(b"deleted file mode "):
            self.deletes = True
        elif line == b"GIT binary patch":
            self.has_content = True
        elif self.has_content and (piece := _BINARY_PIECE.fullmatch(line)):
            self._check_binary_size(piece[1], int(piece[2]))

    def _read_side(self, line: bytes) -> None:
        if self.has_content or (line.startswith(b"--- ") and not self.is_git):
            self._begin(is_git=False)
        if line[4:] == _DEV_NULL or line[4:].startswith(_DEV_NULL + b"\t"):
            self.deletes = self.deletes or line.startswith(b"+++ ")
            return
        self.current.path = self._add_path(line[4:], self.current.written, stripped=True)

    def _read_git_header(self, rest: bytes) -> None:
        """``a/NAME b/NAME``, where NAME may hold spaces: wherever both halves can name the same file."""
        if len(rest) > _LONGEST_HEADER:
            raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, "the patch has a longer path than any file can have")
        if b'"' in rest:
            for match in _QUOTED.finditer(rest):
                self.current.path = self._add_path(match[0], self.current.written, stripped=True)
            return
        words = rest.split(b" ")
        for count in range(1, len(words)):
            halves = b" ".join(words[:count]), b" ".join(words[count:])
            if halves[0].partition(b"/")[2] == halves[1].partition(b"/")[2]:
                for half in halves:
                    self.current.path = self._add_path(half, self.current.written, stripped=True)

    def _add_path(self, text: bytes, into: set[bytes], *, stripped: bool) -> bytes:
        """Enter a path, also as it may be meant; gives the likeliest reading."""
        name = _name(text)
        inner = name.partition(b"/")[2]
        self.current.mentioned |= {name, inner or name}
        candidates = {inner} if stripped else {name}
        if not self.is_git:
            candidates.add(name)  # git takes a plain diff's names as they are when they have no prefix
        into |= {path for path in candidates if not _ODD_STEPS.intersection(path.split(b"/"))}
        is_prefixed = stripped and bool(inner) and (self.is_git or name[:2] in {b"a/", b"b/"})
        return inner if is_prefixed else name

    def _read_hunk(self, header: bytes, before: int, old: int, after: int, new: int) -> None:
        """Read as many lines as the hunk's header says, whatever they look like."""
        self.has_content = True
        add = self.current.content.append
        add(DiffLine("hunk", header))
        while (old > 0 or new > 0) and self.at < len(self.lines):
            line = self.lines[self.at]
            sign = line[:1]
            if sign == b"+":
                add(DiffLine("add", line[1:], after=after))
                after, new = after + 1, new - 1
            elif sign == b"-":
                add(DiffLine("del", line[1:], before))
                before, old = before + 1, old - 1
            elif sign == b"\\":
                add(DiffLine("meta", line))
            elif sign in {b" ", b"", b"\r"}:
                if not line and self.at == len(self.lines) - 1:
                    return  # the end of the last line, not an empty one
                add(DiffLine("same", line[1:], before, after))
                before, after, old, new = before + 1, after + 1, old - 1, new - 1
            else:
                return
            self.at += 1

    def _check_binary_size(self, kind: bytes, size: int) -> None:
        """A few compressed bytes can unfold to gigabytes; git would allocate them before it looks."""
        unfolded = size if kind == b"literal" else size + self._size_after_delta()
        self.content += unfolded
        check_size(self.content, self.content_limit, "the unfolded patch")

    def _size_after_delta(self) -> int:
        inflating = zlib.decompressobj()
        start = b""
        try:
            for line in self.lines[self.at : self.at + 40]:
                if len(start) >= _TWO_SIZES or not line.strip():
                    break
                start += inflating.decompress(base64.b85decode(line.strip()[1:]), _TWO_SIZES)
        except (ValueError, zlib.error) as error:
            raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, "the patch has a broken binary part") from error
        _, position = _number(start, 0)
        return _number(start, position)[0]


def _number(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if byte < 0x80:  # noqa: PLR2004 - the top bit says that another byte follows
            break
    return value, position


def _name(text: bytes) -> bytes:
    """A name as a header has it: quoted in C's way, or up to the tab before a time."""
    if match := _QUOTED.match(text):
        return _ESCAPE.sub(_unescape, match[1])
    return text.partition(b"\t")[0]


def _unescape(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8)]) if len(code) > 1 else _ESCAPED.get(code, code)
