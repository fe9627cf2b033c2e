"""What the names and kinds of the changed files say, before a line of them is read."""

import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from proctor.core.trees import LINK, SUBMODULE
from proctor.grading.audit.changes import ChangedFile, ChangeKind
from proctor.grading.finding_codes import AuditCode
from proctor.grading.protected_patterns import is_protected

PathFinding = tuple[AuditCode, str]

_TEST_DIRECTORIES: Final = frozenset({"test", "tests", "testing", "__tests__", "spec", "specs", "testdata"})
_TEST_NAME: Final = re.compile(
    r"test_.*\.py|.*_tests?\.(?:py|go|rb|exs?|c|cc|cpp|rs)|tests?\.py"
    r"|.*\.(?:test|spec)\.[cm]?[jt]sx?|.*_spec\.rb|.*\.(?:bats|t)"
    r"|(?:Test.*|.*Tests?|.*TestCase|.*IT)\.(?:java|kt|cs|scala|php|swift)"
)
_TEST_DEFINITION: Final = re.compile(
    r"\s*(?:async\s+)?def test_?\w*\(|\s*(?:it|test|describe)(?:\.\w+)?\(|func Test\w+\(|\s*@Test\b|\s*#\[test\]|@test "
)
# These configure a test runner and nothing else.
_CONFIG_NAME: Final = re.compile(
    r"(?:jest|vitest|karma|playwright|cypress)\.conf(?:ig)?\..*|\.mocharc.*|\.rspec|phpunit\.xml.*|\.?nextest\.toml"
)
# These configure many things, or have settings of pytest that change no result.
_MIXED_CONFIG: Final = frozenset(
    {
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "pyproject.toml",
        "setup.cfg",
        "package.json",
    }
)
# What decides which tests are found, and with which options they run.
_CONFIG_KEY: Final = re.compile(
    r"\s*\"?(?:addopts|testpaths|python_(?:files|classes|functions)|norecursedirs|collect_ignore\w*|xfail_strict)\"?\s*[=:]"
)
_SCRIPT_KEY: Final = re.compile(r"\s*\"(?:jest|mocha|test)\"\s*:")
_MACHINERY_MODULES: Final = frozenset(
    "pytest _pytest pluggy iniconfig py nose hypothesis unittest contextlib traceback difflib inspect importlib ast "
    "linecache doctest warnings functools re os sys builtins".split()
)
_IMPORT_ROOTS: Final = frozenset({"", "src", "lib", "python", "test", "tests"})
_PROGRAMS: Final = frozenset(
    "bash cargo cat cp env gcc git go java make mvn node npm npx perl pip pip3 pnpm py.test pytest python python2 "
    "python3 rm ruby sh tox uv yarn".split()
)
_COMPILED: Final = frozenset(".pyc .pyo .so .pyd .dll .dylib .class .jar .node .o .a .exe .wasm".split())
_GIT_FILTER: Final = re.compile(r"\bfilter=(?!lfs\b)\w")
_STARTUP: Final = frozenset({"sitecustomize", "usercustomize"})


def is_test(path: str) -> bool:
    """Whether a path looks like a test, by the customs of the common languages."""
    pure = PurePosixPath(path)
    return _TEST_NAME.fullmatch(pure.name) is not None or any(part in _TEST_DIRECTORIES for part in pure.parts[:-1])


def is_test_support(path: str) -> bool:
    """Whether a path says that its code is for tests: helpers, fixtures, a plugin of a test runner."""
    return re.search(r"test|assert|mock|fixture", path, re.IGNORECASE) is not None


def path_findings(change: ChangedFile, protected: Sequence[str]) -> Iterator[PathFinding]:
    """Findings about one file that need no look at its code."""
    is_altered = change.kind is not ChangeKind.ADDED and bool(change.removed or change.kind is ChangeKind.DELETED)
    if is_protected(change.old_path or change.path, protected) and is_altered:
        yield AuditCode.PROTECTED_PATH, change.kind.value
    yield from _test_findings(change)
    yield from _config_findings(change)
    if change.kind is not ChangeKind.DELETED:
        yield from _presence_findings(change)


def _test_findings(change: ChangedFile) -> Iterator[PathFinding]:
    if not is_test(change.path) or change.kind in {ChangeKind.ADDED, ChangeKind.RENAMED}:
        return
    if change.kind is ChangeKind.DELETED:
        yield AuditCode.TEST_DELETED, "deleted"
        return
    added = {text.strip() for _, text in change.added}
    gone = [text.strip() for text in change.removed if _TEST_DEFINITION.match(text) and text.strip() not in added]
    if gone:
        yield AuditCode.TEST_REMOVED, "; ".join(gone[:3])


def _config_findings(change: ChangedFile) -> Iterator[PathFinding]:
    name = PurePosixPath(change.path).name
    if _CONFIG_NAME.fullmatch(name):
        yield AuditCode.TEST_CONFIG, change.kind.value
    elif name in _MIXED_CONFIG:
        key = _SCRIPT_KEY if name == "package.json" else _CONFIG_KEY
        lines = [f"removed: {text.strip()}" for text in change.removed if key.match(text)]
        lines += [f"line {number}: {text.strip()}" for number, text in change.added if key.match(text)]
        if lines:
            yield AuditCode.TEST_CONFIG, lines[0]
    for number, text in change.added:
        if "pytest11" in text:
            yield AuditCode.PLUGIN, f"line {number}: {text.strip()}"


def _presence_findings(change: ChangedFile) -> Iterator[PathFinding]:
    pure = PurePosixPath(change.path)
    is_new = change.kind in {ChangeKind.ADDED, ChangeKind.RENAMED}
    if pure.suffix == ".pth" or _STARTUP & {pure.stem, *pure.parts[:-1]}:
        yield AuditCode.STARTUP_HOOK, change.kind.value
    if is_new and (module := _top_module(pure)) in _MACHINERY_MODULES:
        yield AuditCode.SHADOWED_MODULE, f"hides {module}"
    if is_new and pure.name in _PROGRAMS and change.mode is not None and change.mode & 0o111:
        yield AuditCode.FAKE_PROGRAM, change.kind.value
    if change.mode is not None and change.mode & 0o170000 == LINK:
        target = change.added[0][1] if change.added else ""
        if _leads_away(pure, target):
            yield AuditCode.SYMLINK, f"to {target}"
    if pure.suffix in _COMPILED:
        yield AuditCode.BINARY, change.kind.value
    if ".git" in pure.parts or (change.mode is not None and change.mode & 0o170000 == SUBMODULE):
        yield AuditCode.GIT_METADATA, change.kind.value
    if pure.name == ".gitattributes" and any(_GIT_FILTER.search(text) for _, text in change.added):
        yield AuditCode.GIT_METADATA, "a filter"


def _leads_away(link: PurePosixPath, target: str) -> bool:
    """Whether a link leads out of the tree, or to a test."""
    place = posixpath.normpath(posixpath.join(str(link.parent), target))
    return place.startswith(("/", "../")) or place == ".." or is_test(place)


def _top_module(pure: PurePosixPath) -> str | None:
    """The name under which a file is imported from a directory that is usually searched; None when there is none."""
    if pure.suffix != ".py":
        return None
    whole = pure.parent if pure.name == "__init__.py" else pure.with_suffix("")
    return whole.name if str(whole.parent) in {*_IMPORT_ROOTS, "."} else None
