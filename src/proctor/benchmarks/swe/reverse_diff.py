"""A diff turned round: what takes back what it does."""

import re
from collections.abc import Iterator
from typing import Final

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
    parts = re.split(r"(?m)^(?=diff --git )", patch)
    return "".join(_reversed_file(part) for part in parts if _is_wanted(part, excluding))


def _is_wanted(part: str, excluding: frozenset[str]) -> bool:
    if not part.startswith("diff --git ") or re.search(r"(?m)^(GIT binary patch|Binary files )", part):
        return False
    paths = {line[6:] for line in part.split("\n", 12) if line.startswith(("--- a/", "+++ b/"))}
    header = part.split("\n", 1)[0].rpartition(" b/")[2]
    return not (paths | {header}) & excluding


def _reversed_file(part: str) -> str:
    lines = part.split("\n")
    body = next((number for number, line in enumerate(lines) if line.startswith("@@ ")), len(lines))
    return "\n".join([*_header(lines[:body]), *_hunks(lines[body:])])


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


def _hunks(lines: list[str]) -> Iterator[str]:
    """Ranges change places, and so do what is taken out and what is put in; what is taken out comes first."""
    removed: list[str] = []
    added: list[str] = []
    last = removed
    for line in lines:
        if line.startswith("+"):
            removed.append("-" + line[1:])
            last = removed
        elif line.startswith("-"):
            added.append("+" + line[1:])
            last = added
        elif line.startswith("\\") and (removed or added):
            last.append(line)
        else:
            yield from (*removed, *added)
            removed, added = [], []
            found = _HUNK.match(line)
            yield f"@@ -{found[2]} +{found[1]} @@{found[3]}" if found else line
    yield from (*removed, *added)
