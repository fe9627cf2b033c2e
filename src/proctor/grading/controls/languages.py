"""Which module proposes the alterations of a test file, by the file's language."""

from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import Final

from proctor.grading.controls import (
    go_tests,
    java_tests,
    javascript_tests,
    python_tests,
    rust_tests,
    shell_tests,
)
from proctor.grading.controls.alteration import Alteration
from proctor.grading.controls.syntax_tree import HOW_TO_INSTALL, Grammar, load_parser

Finder = Callable[[str, bytes, Sequence[str]], dict[str, tuple[Alteration, ...]]]

FINDERS: Final[dict[str, Finder]] = {
    ".py": python_tests.find_alterations,
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), javascript_tests.find_alterations),
    **dict.fromkeys((".ts", ".mts", ".cts", ".tsx"), javascript_tests.find_alterations),
    **dict.fromkeys((".sh", ".bash", ".bats", ".ksh"), shell_tests.find_alterations),
    ".go": go_tests.find_alterations,
    ".java": java_tests.find_alterations,
    ".rs": rust_tests.find_alterations,
}
# The grammar that a finder needs, where it is a package of its own.
GRAMMARS: Final[dict[str, Grammar]] = {
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), javascript_tests.JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), javascript_tests.TYPESCRIPT),
    ".tsx": javascript_tests.TSX,
    **dict.fromkeys((".sh", ".bash", ".bats", ".ksh"), shell_tests.SHELL),
    ".go": go_tests.GO,
    ".java": java_tests.JAVA,
    ".rs": rust_tests.RUST,
}
_SUFFIX_OF_PROGRAM: Final = {
    **dict.fromkeys((b"sh", b"bash", b"dash", b"ash", b"ksh", b"zsh"), ".sh"),
    b"bats": ".bats",
    b"node": ".js",
}


def find_alterations(path: str, source: bytes, tests: Sequence[str]) -> dict[str, tuple[Alteration, ...]]:
    """Alterations of those of the tests that this file defines, by test id, the least conspicuous first.

    A file that cannot be parsed, or is in no known language, has none.
    """
    finder = FINDERS.get(_language_suffix(path, source))
    return finder(path, source, tests) if finder is not None else {}


def has_finder(path: str, source: bytes) -> bool:
    """Whether a file is in a language whose tests can be altered."""
    return _language_suffix(path, source) in FINDERS


def missing_grammar(path: str, source: bytes) -> str | None:
    """Why the tests of a file in a known language have no alterations here: its grammar is not installed."""
    grammar = GRAMMARS.get(_language_suffix(path, source))
    if grammar is None or load_parser(grammar.package, grammar.function) is not None:
        return None
    return f"there is no grammar of {grammar.language} here: {HOW_TO_INSTALL}"


def installed_grammars() -> tuple[str, ...]:
    """The languages whose grammars are installed: what is known of a task's tests depends on them."""
    grammars = {grammar.language: grammar for grammar in GRAMMARS.values()}
    return tuple(sorted(name for name, one in grammars.items() if load_parser(one.package, one.function) is not None))


def _language_suffix(path: str, source: bytes) -> str:
    """The suffix that stands for the file's language: its own, or that of the program in its first line."""
    suffix = PurePosixPath(path).suffix
    if suffix in FINDERS:
        return suffix
    words = source[2:200].partition(b"\n")[0].split() if source.startswith(b"#!") else []
    programs = [word.rpartition(b"/")[2] for word in words if not word.startswith(b"-") and b"=" not in word]
    if programs[:1] == [b"env"]:
        del programs[0]
    return _SUFFIX_OF_PROGRAM.get(programs[0], "") if programs else ""
