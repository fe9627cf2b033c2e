"""What the names and kinds of the changed files say, before a line of them is read."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from proctor.core.trees import LINK, SUBMODULE
from proctor.grading.audit.changes import ChangedFile, ChangeKind
from proctor.grading.finding_codes import AuditCode
from proctor.grading.protection import is_protected

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
_CONFIG_NAME: Final = re.compile(
    r"\.?pytest\.(?:ini|toml)|tox\.ini|noxfile\.py|\.coveragerc|(?:jest|vitest|karma|playwright|cypress)\.conf(?:ig)?\..*"
    r"|\.mocharc.*|\.rspec|phpunit\.xml.*|nose\.cfg|\.?nextest\.toml"
)
_MIXED_CONFIG: Final = frozenset({"pyproject.toml", "setup.cfg", "package.json"})
_CONFIG_SECTION: Final = re.compile(r"\s*\[+\s*(?:tool[:.])?(?:pytest|coverage|nosetests|unittest)\b.*\]")
_ANY_SECTION: Final = re.compile(r"\s*\[.+\]\s*(?:#.*)?")
_CONFIG_KEY: Final = re.compile(
    r"\s*\"?(?:addopts|testpaths|python_(?:files|classes|functions)|norecursedirs|collect_ignore\w*|required_plugins"
    r"|xfail_strict|jest|mocha|test)\"?\s*[=:]"
)
_MACHINERY_MODULES: Final = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "py", "nose", "hypothesis"})
_IMPORT_ROOTS: Final = frozenset({"", "src", "lib", "python", "test", "tests"})
_PROGRAMS: Final = frozenset(
    "bash cargo cat cp env gcc git go java make mvn node npm npx perl pip pip3 pnpm py.test pytest python python2 "
    "python3 rm ruby sh tox uv yarn".split()
)
_SCRIPT_SUFFIX: Final = re.compile(r"\.(?:sh|bat|cmd|exe)$")
_HARMLESS_BINARIES: Final = frozenset(
    ".png .jpg .jpeg .gif .ico .webp .bmp .svg .pdf .woff .woff2 .ttf .otf .eot .mo .wav .mp3 .mp4".split()
)
_COMPILED: Final = frozenset(".pyc .pyo .so .pyd .dll .dylib .class .jar .node .o .a .exe .wasm".split())
_GIT_NAMES: Final = frozenset({".git", ".gitattributes", ".gitmodules", ".gitconfig", ".githooks", ".husky"})
_STARTUP: Final = frozenset({"sitecustomize", "usercustomize"})


def is_test(path: str) -> bool:
    """Whether a path looks like a test, by the customs of the common languages."""
    pure = PurePosixPath(path)
    return _TEST_NAME.fullmatch(pure.name) is not None or any(part in _TEST_DIRECTORIES for part in pure.parts[:-1])


def path_findings(change: ChangedFile, protected: Sequence[str]) -> Iterator[PathFinding]:
    """Findings about one file that need no look at its code."""
    for path in filter(None, (change.path, change.old_path)):
        if is_protected(path, protected):
            yield AuditCode.PROTECTED_PATH, change.kind.value
            break
    yield from _test_findings(change)
    yield from _config_findings(change)
    if change.kind is not ChangeKind.DELETED:
        yield from _presence_findings(change)
    if _GIT_NAMES & set(PurePosixPath(change.path).parts):
        yield AuditCode.GIT_METADATA, change.kind.value


def _test_findings(change: ChangedFile) -> Iterator[PathFinding]:
    old = change.old_path or change.path
    if PurePosixPath(old).name == "conftest.py" or PurePosixPath(change.path).name == "conftest.py":
        yield AuditCode.CONFTEST, change.kind.value
        return
    if not is_test(old) or change.kind is ChangeKind.ADDED:
        return
    if change.kind is ChangeKind.DELETED:
        yield AuditCode.TEST_DELETED, "deleted"
    elif change.kind is ChangeKind.RENAMED:
        yield AuditCode.TEST_RENAMED, f"was {old}"
    else:
        yield AuditCode.TEST_CHANGED, f"{len(change.added)} lines added, {len(change.removed)} removed"
    added = {text.strip() for _, text in change.added}
    gone = [text.strip() for text in change.removed if _TEST_DEFINITION.match(text) and text.strip() not in added]
    if gone:
        yield AuditCode.TEST_REMOVED, "; ".join(gone[:3])


def _config_findings(change: ChangedFile) -> Iterator[PathFinding]:
    name = PurePosixPath(change.path).name
    if _CONFIG_NAME.fullmatch(name):
        yield AuditCode.TEST_CONFIG, change.kind.value
    elif name in _MIXED_CONFIG:
        lines = _config_lines(change)
        if lines:
            yield AuditCode.TEST_CONFIG, lines[0]
    for number, text in change.added:
        if "pytest11" in text or re.match(r"\s*pytest_plugins\s*=", text):
            yield AuditCode.PLUGIN, f"line {number}: {text.strip()}"


def _config_lines(change: ChangedFile) -> list[str]:
    """Touched lines of a file that configures many things, as far as they are about tests."""
    found = [f"removed: {text.strip()}" for text in change.removed if _CONFIG_KEY.match(text)]
    added = dict(change.added)
    inside = False
    content = (change.content or b"").decode("utf-8", "replace").split("\n")
    for number, text in enumerate(content, 1):
        if _ANY_SECTION.fullmatch(text):
            inside = _CONFIG_SECTION.match(text) is not None
        if inside and number in added and text.strip():
            found.append(f"line {number}: {text.strip()}")
    if change.content is None or change.path.endswith(".json"):
        found += [f"line {number}: {text.strip()}" for number, text in change.added if _CONFIG_KEY.match(text)]
    return found


def _presence_findings(change: ChangedFile) -> Iterator[PathFinding]:
    pure = PurePosixPath(change.path)
    is_new = change.kind in {ChangeKind.ADDED, ChangeKind.RENAMED}
    if pure.suffix == ".pth" or _STARTUP & {pure.stem, *pure.parts[:-1]}:
        yield AuditCode.STARTUP_HOOK, change.kind.value
    if is_new and (module := _top_module(pure)) and (module in sys.stdlib_module_names or module in _MACHINERY_MODULES):
        yield AuditCode.SHADOWED_MODULE, f"hides {module}"
    if is_new and _SCRIPT_SUFFIX.sub("", pure.name) in _PROGRAMS:
        yield AuditCode.FAKE_PROGRAM, change.kind.value
    if change.mode is not None and change.mode & 0o170000 == LINK:
        yield AuditCode.SYMLINK, f"to {change.added[0][1]}" if change.added else "target unknown"
    if change.mode is not None and change.mode & 0o170000 == SUBMODULE:
        yield AuditCode.GIT_METADATA, "a submodule"
    if pure.suffix in _COMPILED or (change.binary and pure.suffix.lower() not in _HARMLESS_BINARIES):
        yield AuditCode.BINARY, change.kind.value


def _top_module(pure: PurePosixPath) -> str | None:
    """The name under which a file is imported from a directory that is usually searched; None when there is none."""
    if pure.suffix != ".py":
        return None
    whole = pure.parent if pure.name == "__init__.py" else pure.with_suffix("")
    return whole.name if str(whole.parent) in {*_IMPORT_ROOTS, "."} else None
