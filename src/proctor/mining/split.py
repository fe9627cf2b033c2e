"""Which side of a task each path of a change belongs to: what is asked for, what examines it, and what neither does.

The rules go by names alone, the same for all languages: a path is what its folders and its own name say. A user's
`proctor-mine.toml` overrides them.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from proctor.core.record import Record
from proctor.grading import is_protected
from proctor.mining.history import ChangedPath


class PathRole(StrEnum):
    """What a path is for."""

    SOURCE = "source"
    TEST = "test"  # tests, and what they read: fixtures, snapshots, golden files
    LOCK = "lock"  # written by a package manager
    GENERATED = "generated"  # made from other files
    DOCUMENT = "document"
    OTHER = "other"  # settings, continuous integration, data


LANGUAGE_OF_SUFFIX: Final = {
    ".py": "python",
    ".pyi": "python",
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), "javascript"),
    **dict.fromkeys((".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte"), "javascript"),
    ".go": "go",
    ".rs": "rust",
    **dict.fromkeys((".java", ".kt"), "java"),
}
# Test files in these languages are not run by any of ours, and their source is the oracle's all the same.
_OTHER_SOURCE: Final = frozenset(
    [
        ".c",
        ".cc",
        ".cpp",
        ".h",
        ".hpp",
        ".cs",
        ".rb",
        ".php",
        ".swift",
        ".scala",
        ".sh",
        ".pl",
        ".lua",
        ".ex",
        ".exs",
        ".clj",
        ".hs",
        ".jinja",
        ".j2",
        ".html",
        ".css",
        ".scss",
        ".sql",
        ".proto",
        ".g4",
        ".pyx",
        ".pxd",
    ]
)
_TEST_FOLDERS: Final = frozenset(
    [
        "test",
        "tests",
        "testing",
        "spec",
        "specs",
        "__tests__",
        "__test__",
        "__mocks__",
        "__snapshots__",
        "__fixtures__",
        "fixtures",
        "testdata",
        "test-data",
        "test_data",
        "testfixtures",
        "golden",
        "goldens",
        "snapshots",
        "e2e",
        "testutil",
        "testutils",
    ]
)
_TEST_NAMES: Final = re.compile(
    r"^(?:test_.*\.py|.*_test\.py|tests?\.py|conftest\.py|.*_test\.go|tests?\.rs|.*_tests?\.rs"
    r"|.*[.-](?:test|tests|spec|e2e)\.[cm]?[jt]sx?|test\.[cm]?[jt]sx?|.*\.snap|.*\.(?:test|spec)-d\.ts"
    r"|.*(?:Test|Tests|TestCase|IT|Spec)\.(?:java|kt)|Test[A-Z].*\.(?:java|kt))$"
)
_LOCKS: Final = frozenset(
    [
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lockb",
        "bun.lock",
        "poetry.lock",
        "uv.lock",
        "pdm.lock",
        "Pipfile.lock",
        "Cargo.lock",
        "go.sum",
        "gradle.lockfile",
        "composer.lock",
        "Gemfile.lock",
        "deno.lock",
    ]
)
_GENERATED: Final = re.compile(
    r"(?:^|/)(?:node_modules|vendor|third_party|dist|build|_build|generated|__generated__)/|\.min\.(?:js|css)$"
    r"|(?:_pb2(?:_grpc)?\.pyi?|\.pb\.go|_generated\.(?:go|rs|ts)|\.generated\.[a-z]+)$"
)
_DOCUMENTS: Final = frozenset(
    [".md", ".rst", ".txt", ".adoc", ".ipynb", ".png", ".svg", ".gif", ".jpg", ".jpeg", ".webp", ".pdf"]
)
_DOCUMENT_NAMES: Final = re.compile(
    r"^(?:AUTHORS|CHANGES|CHANGELOG|HISTORY|NEWS|LICEN[CS]E|NOTICE|README|CONTRIBUTORS)\b", re.IGNORECASE
)
_DOCUMENT_FOLDERS: Final = frozenset(
    ["doc", "docs", "changelog", "changelogs", "changes", "news", "newsfragments", ".changes", ".changeset"]
)


class SplitRules(Record):
    """A user's patterns, as in `.gitignore`; they come before ours."""

    tests: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()


class SplitChange(Record):
    """A change by the roles of its paths."""

    paths: dict[PathRole, tuple[ChangedPath, ...]]

    def of(self, *roles: PathRole) -> tuple[ChangedPath, ...]:
        """Those of some roles."""
        return tuple(path for role in roles for path in self.paths.get(role, ()))

    @property
    def tests(self) -> tuple[ChangedPath, ...]:
        """What is hidden from the agent."""
        return self.of(PathRole.TEST)

    @property
    def oracle(self) -> tuple[ChangedPath, ...]:
        """What the reference solution changes: all but the tests."""
        return tuple(
            sorted(self.of(*(role for role in PathRole if role is not PathRole.TEST)), key=lambda one: one.path)
        )

    @property
    def language(self) -> str | None:
        """That of most lines of source that it changes, of those that it has tests in; None when it is not known."""
        lines: dict[str, int] = {}
        for path in self.of(PathRole.SOURCE):
            language = language_of(path.path)
            if language is not None:
                lines[language] = lines.get(language, 0) + path.lines + 1
        tested = {language_of(path.path) for path in self.tests if path.status != "D"}
        return max(lines, key=lambda name: (name in tested, lines[name], name), default=None)

    @property
    def source_lines(self) -> int:
        """Lines of source that it adds and deletes."""
        return sum(path.lines for path in self.of(PathRole.SOURCE))

    @property
    def source_files(self) -> int:
        """Files of source that it touches."""
        return len(self.of(PathRole.SOURCE))


def language_of(path: str) -> str | None:
    """The language of a file, by its suffix."""
    return LANGUAGE_OF_SUFFIX.get(PurePosixPath(path).suffix)


def role_of(path: str, rules: SplitRules | None = None) -> PathRole:
    """What a path is for."""
    rules = rules or SplitRules()
    if is_protected(path, rules.tests):
        return PathRole.TEST
    if is_protected(path, rules.source):
        return PathRole.SOURCE
    if is_protected(path, rules.generated):
        return PathRole.GENERATED
    pure = PurePosixPath(path)
    folders = {part.lower() for part in pure.parts[:-1]}
    if pure.name in _LOCKS:
        return PathRole.LOCK
    if _is_test(pure, folders):
        return PathRole.TEST
    if _GENERATED.search(path):
        return PathRole.GENERATED
    if pure.suffix in LANGUAGE_OF_SUFFIX or pure.suffix in _OTHER_SOURCE:
        return PathRole.DOCUMENT if folders & _DOCUMENT_FOLDERS else PathRole.SOURCE
    if pure.suffix.lower() in _DOCUMENTS or _DOCUMENT_NAMES.match(pure.name) or folders & _DOCUMENT_FOLDERS:
        return PathRole.DOCUMENT
    return PathRole.OTHER


def _is_test(pure: PurePosixPath, folders: set[str]) -> bool:
    if _TEST_NAMES.match(pure.name):
        return True
    if not folders & _TEST_FOLDERS:
        return False
    # A package that is called testing and lies in the source is what others test with: `numpy/testing`, `src/testing`.
    shipped = {"testing", "testutil", "testutils", "fixtures", "golden", "snapshots"}
    return bool(folders & (_TEST_FOLDERS - shipped)) or pure.parts[0].lower() in _TEST_FOLDERS


def split_change(paths: Sequence[ChangedPath], rules: SplitRules | None = None) -> SplitChange:
    """Every path of a change with its role."""
    roles: dict[PathRole, list[ChangedPath]] = {}
    for path in paths:
        roles.setdefault(role_of(path.path, rules), []).append(path)
    return SplitChange(paths={role: tuple(found) for role, found in roles.items()})
