"""The reverse of a diff."""

import os
import re
from collections.abc import Iterator
from typing import Final

from proctor.workspaces.diff_parser import DiffLine, FileDiff, parse_diff

_HUNK: Final = re.compile(r"^@@ -(\S+) \+(\S+) @@(.*)$")
_SWAPPED: Final = (
    ("new file mode ", "deleted file mode "),
    ("old mode ", "new mode "),
    ("rename from ", "rename to "),
    ("copy from ", "copy to "),
)
_INDEX: Final = re.compile(r"^index ([0-9a-f]+)\.\.([0-9a-f]+)(.*)$")
_HEADER: Final = re.compile(r"^diff --git (\S+) (\S+)$")


def reversed_diff(patch: str, *, excluding: frozenset[str] = frozenset()) -> str:
    """The reverse of a unified diff of git's, without some of its files and without binary ones."""
    files = parse_diff(patch.encode("utf-8", "surrogateescape")).files
    return "".join(_reversed_file(file) for file in files if _is_wanted(file, excluding))


def _is_wanted(file: FileDiff, excluding: frozenset[str]) -> bool:
    if any(line.startswith((b"GIT binary patch", b"Binary files ")) for line in file.lines_of("meta")):
        return False
    return not {os.fsdecode(path) for path in file.written | file.removed} & excluding


def _reversed_file(file: FileDiff) -> str:
    body = next((number for number, line in enumerate(file.content) if line.kind == "hunk"), len(file.content))
    header = [_text(line) for line in file.content[:body]]
    return "".join(f"{line}\n" for line in (*_header(header), *_hunks(file.content[body:])))


def _text(line: DiffLine) -> str:
    return line.text.decode("utf-8", "surrogateescape")


def _header(lines: list[str]) -> Iterator[str]:
    """Modes, names and blob ids change places."""
    named = {line[:4]: line[4:] for line in lines if line.startswith(("--- ", "+++ "))}
    moved = {word: line[len(word) :] for line in lines for pair in _SWAPPED for word in pair if line.startswith(word)}
    swaps = dict(_SWAPPED) | {second: first for first, second in _SWAPPED}
    for line in lines:
        word = next((word for word in moved if line.startswith(word)), None)
        if word is not None and word in {"new file mode ", "deleted file mode "}:
            yield swaps[word] + moved[word]
        elif word is not None:
            yield word + moved.get(swaps[word], moved[word])
        elif line.startswith("--- ") and "+++ " in named:
            yield "--- " + _side(named["+++ "], "a/")
        elif line.startswith("+++ ") and "--- " in named:
            yield "+++ " + _side(named["--- "], "b/")
        elif found := _INDEX.match(line):
            yield f"index {found[2]}..{found[1]}{found[3]}"
        elif (found := _HEADER.match(line)) and found[1][2:] != found[2][2:]:
            yield f"diff --git a/{found[2][2:]} b/{found[1][2:]}"
        else:
            yield line


def _side(name: str, prefix: str) -> str:
    return name if name == "/dev/null" else prefix + name[2:]


def _hunks(lines: list[DiffLine]) -> Iterator[str]:
    """Ranges change places, and so do removed and added lines; the removed ones come first."""
    removed: list[str] = []
    added: list[str] = []
    last = removed
    for line in lines:
        text = _text(line)
        if line.kind == "add":
            removed.append(f"-{text}")
            last = removed
        elif line.kind == "del":
            added.append(f"+{text}")
            last = added
        elif text.startswith("\\") and line.kind == "meta" and (removed or added):
            last.append(text)
        else:
            yield from (*removed, *added)
            removed, added = [], []
            if line.kind == "hunk" and (found := _HUNK.match(text)):
                yield f"@@ -{found[2]} +{found[1]} @@{found[3]}"
            else:
                yield f" {text}" if line.kind == "same" else text
    yield from (*removed, *added)
