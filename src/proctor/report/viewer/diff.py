"""A patch, cut into files, lines and words, for a template to colour. No line of it is ever markup here."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, Literal

# Colouring stops here: what is longer is shown plainly, and the whole file can be opened beside it.
LINES: Final = 4000
LINE_LENGTH: Final = 1000

Kind = Literal["add", "del", "same", "hunk", "meta"]
Piece = tuple[str, str]

_HUNK: Final = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_SHARP: Final = frozenset({".py", ".sh", ".rb", ".yaml", ".yml", ".toml", ".pl", ".r", ".mk", ".cfg", ""})
_WORDS_OF_MANY_LANGUAGES: Final = """
    and as assert async await break case catch class const continue def default del do elif else enum except export
    extends final finally fn for from func function global go if impl implements import in interface is lambda let
    match mod mut new nil none nonlocal not null or package pass private protected pub public raise return self static
    struct super switch this throw trait true false try type union use var void where while with yield None True False
"""
_WORDS: Final = frozenset(_WORDS_OF_MANY_LANGUAGES.split())
# Every alternative matches wherever it begins, so that no line takes longer than its length: a string without an end
# is one up to the end of the line, and then none.
_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?)|(?P<sharp>\#.*)|(?P<slashes>//.*)"""
    r"""|(?P<number>\b\d\w*)|(?P<word>[^\W\d]\w*)"""
)


@dataclass(slots=True)
class Line:
    """One line of a patch, with its number before and after, and its words with their classes."""

    kind: Kind
    pieces: list[Piece]
    before: int | None = None
    after: int | None = None


@dataclass(slots=True)
class FileChange:
    """All that a patch does to one file."""

    path: str
    lines: list[Line] = field(default_factory=list)
    added: int = 0
    removed: int = 0


@dataclass(slots=True)
class Patch:
    """A patch ready to be shown; `cut` is how many lines were left out."""

    files: list[FileChange]
    cut: int = 0

    @property
    def added(self) -> int:
        """Lines that it adds."""
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        """Lines that it takes away."""
        return sum(file.removed for file in self.files)


def read_patch(text: str) -> Patch:
    """Read a unified diff, or anything that claims to be one."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    files: list[FileChange] = []
    before = after = 0
    in_hunk = False
    for raw in lines[:LINES]:
        if raw.startswith("diff --git ") or (not files and not in_hunk):
            files.append(FileChange(_path(raw)))
            in_hunk = False
        file = files[-1]
        hunk = _HUNK.match(raw)
        if hunk:
            before, after, in_hunk = int(hunk[1]), int(hunk[2]), True
            file.lines.append(Line("hunk", [("", raw)]))
        elif not in_hunk:
            if raw.startswith("+++ ") and raw[4:] != "/dev/null":
                file.path = raw[4:].removeprefix("b/")
            file.lines.append(Line("meta", [("", raw)]))
        elif raw.startswith("+"):
            file.lines.append(Line("add", _coloured(raw[1:], file.path), after=after))
            after, file.added = after + 1, file.added + 1
        elif raw.startswith("-"):
            file.lines.append(Line("del", _coloured(raw[1:], file.path), before=before))
            before, file.removed = before + 1, file.removed + 1
        elif raw.startswith("\\"):
            file.lines.append(Line("meta", [("", raw)]))
        else:
            file.lines.append(Line("same", _coloured(raw[1:], file.path), before, after))
            before, after = before + 1, after + 1
    return Patch(files, max(0, len(lines) - LINES))


def _path(line: str) -> str:
    _, _, path = line.partition(" b/")
    return path or line[:200]


def _coloured(line: str, path: str) -> list[Piece]:
    if len(line) > LINE_LENGTH:
        return [("", line)]
    return list(_pieces(line, sharp=PurePosixPath(path).suffix.lower() in _SHARP))


def _pieces(line: str, *, sharp: bool) -> Iterator[Piece]:
    """The line in pieces, each with its class; together they are the line again."""
    plain_from = position = 0
    while token := _TOKEN.search(line, position):
        kind, text = _class(token, sharp=sharp), token[0]
        if kind == "s" and (len(text) == 1 or text[-1] != text[0]):
            break
        if not kind:
            # Not a comment in this language: what follows the mark may be anything.
            position = token.start() + (1 if token.lastgroup in {"sharp", "slashes"} else len(text))
            continue
        if plain_from < token.start():
            yield "", line[plain_from : token.start()]
        yield kind, text
        plain_from = position = token.end()
    if plain_from < len(line):
        yield "", line[plain_from:]


def _class(token: re.Match[str], *, sharp: bool) -> str:
    match token.lastgroup:
        case "string":
            return "s"
        case "number":
            return "n"
        case "sharp":
            return "c" if sharp else ""
        case "slashes":
            return "" if sharp else "c"
        case _:
            return "k" if token[0] in _WORDS else ""
