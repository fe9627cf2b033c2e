"""A patch as files, lines and tokens, for a template to colour. Nothing here makes markup."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from proctor.workspaces import InvalidSubmission
from proctor.workspaces.diff_parser import DiffLine, DiffLineKind, parse_diff

# Of longer patches some lines are not shown, and longer lines are not coloured; the whole file can be opened.
MAX_LINES: Final = 4000
MAX_LINE_LENGTH: Final = 1000

DiffToken = tuple[str, str]

_HASH_COMMENT_SUFFIXES: Final = frozenset(
    {".py", ".sh", ".rb", ".yaml", ".yml", ".toml", ".pl", ".r", ".mk", ".cfg", ""}
)
_KEYWORD_TEXT: Final = """
    and as assert async await break case catch class const continue def default del do elif else enum except export
    extends final finally fn for from func function global go if impl implements import in interface is lambda let
    match mod mut new nil none nonlocal not null or package pass private protected pub public raise return self static
    struct super switch this throw trait true false try type union use var void where while with yield None True False
"""
_KEYWORDS: Final = frozenset(_KEYWORD_TEXT.split())
# Every alternative matches wherever it begins, so that the time is linear in the line's length: an unterminated string
# reaches to the end of the line.
_TOKEN: Final = re.compile(
    r"""(?P<string>"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?)|(?P<sharp>\#.*)|(?P<slashes>//.*)"""
    r"""|(?P<number>\b\d\w*)|(?P<word>[^\W\d]\w*)"""
)


@dataclass(slots=True)
class PatchLineView:
    """One line of a patch, with its line number before and after, and its tokens with their classes."""

    kind: DiffLineKind
    tokens: list[DiffToken]
    before: int | None = None
    after: int | None = None


@dataclass(slots=True)
class FilePatchView:
    """The changes of a patch to one file; `omitted_lines` is how many of its lines are not shown."""

    path: str
    lines: list[PatchLineView] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    omitted_lines: int = 0


@dataclass(slots=True)
class PatchView:
    """A patch as the viewer shows it: every file of it, with its own numbers, and some lines of each."""

    files: list[FilePatchView]

    @property
    def added(self) -> int:
        """Lines that it adds."""
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        """Lines that it removes."""
        return sum(file.removed for file in self.files)


def read_patch(text: str) -> PatchView:
    """Read a unified diff, valid or not. All of it is counted; the lines that are shown are shared by its files."""
    content = text.removesuffix("\n").encode("utf-8", "surrogatepass")
    try:
        preamble, files = parse_diff(content)
    except InvalidSubmission:
        preamble, files = [DiffLine("meta", line) for line in content.split(b"\n")], []
    parts = [(preamble[0].text[:200], preamble)] if preamble else []
    parts += [(file.path, file.content) for file in files]
    shares = _shares([len(lines) for _, lines in parts])
    return PatchView([_file_view(path, lines, share) for (path, lines), share in zip(parts, shares, strict=True)])


def _shares(wanted: Sequence[int]) -> list[int]:
    """As many lines as there are, by file: small files are shown whole, and large ones share what is left."""
    shares, left = [0] * len(wanted), MAX_LINES
    for place, index in enumerate(sorted(range(len(wanted)), key=lambda one: wanted[one])):
        shares[index] = min(wanted[index], left // (len(wanted) - place))
        left -= shares[index]
    return shares


def _file_view(path: bytes, lines: list[DiffLine], shown: int) -> FilePatchView:
    kinds = Counter(line.kind for line in lines)
    view = FilePatchView(_text(path), added=kinds["add"], removed=kinds["del"], omitted_lines=len(lines) - shown)
    for line in lines[:shown]:
        is_code = line.kind not in {"hunk", "meta"}
        tokens = _highlight(_text(line.text), view.path) if is_code else [("", _text(line.text))]
        view.lines.append(PatchLineView(line.kind, tokens, line.before, line.after))
    return view


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _highlight(line: str, path: str) -> list[DiffToken]:
    if len(line) > MAX_LINE_LENGTH:
        return [("", line)]
    return list(_tokenize(line, hash_comments=PurePosixPath(path).suffix.lower() in _HASH_COMMENT_SUFFIXES))


def _tokenize(line: str, *, hash_comments: bool) -> Iterator[DiffToken]:
    """The line as tokens, each with its class."""
    plain_from = position = 0
    while token := _TOKEN.search(line, position):
        kind, text = _class(token, hash_comments=hash_comments), token[0]
        if kind == "s" and (len(text) == 1 or text[-1] != text[0]):
            break
        if not kind:
            # Not a comment in this language.
            position = token.start() + (1 if token.lastgroup in {"sharp", "slashes"} else len(text))
            continue
        if plain_from < token.start():
            yield "", line[plain_from : token.start()]
        yield kind, text
        plain_from = position = token.end()
    if plain_from < len(line):
        yield "", line[plain_from:]


def _class(token: re.Match[str], *, hash_comments: bool) -> str:
    match token.lastgroup:
        case "string":
            return "s"
        case "number":
            return "n"
        case "sharp":
            return "c" if hash_comments else ""
        case "slashes":
            return "" if hash_comments else "c"
        case _:
            return "k" if token[0] in _KEYWORDS else ""
