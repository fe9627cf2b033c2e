"""Which paths are protected: restored before the tests run, and held fixed while they do.

Patterns are those of ``.gitignore``: ``conftest.py`` matches at any depth, ``/setup.py`` only at the top, ``tests/``
a directory and all below it, ``**`` any number of directories; a later ``!pattern`` excludes paths again.
"""

import os
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.core.trees import file_paths, read_entry
from proctor.workspaces.changes import write_changes

TEST_MACHINERY: Final = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "sitecustomize.py",
    "sitecustomize/",
    "usercustomize.py",
    "usercustomize/",
    "*.pth",
    "__pycache__/",
    "*.pyc",
    "/pytest.py",
    "/pytest/",
    "/_pytest/",
    "/unittest.py",
    "/unittest/",
)
"""What decides test outcomes in Python without being a test. `pyproject.toml`, `setup.cfg` and `tox.ini` are not
here, since honest work changes them too: our reporter does not read them (see `pytest_config`)."""
_MAX_FIXED: Final = 1000
_CODE_SUFFIXES: Final = frozenset(
    (
        "",
        ".bats",
        ".cjs",
        ".go",
        ".java",
        ".js",
        ".jsx",
        ".kt",
        ".mjs",
        ".pl",
        ".py",
        ".rb",
        ".rs",
        ".sh",
        ".ts",
        ".tsx",
    )
)


def is_protected(path: str, patterns: Sequence[str]) -> bool:
    """Whether the last pattern that matches this path, or a directory above it, protects it."""
    parts = [part for part in path.split("/") if part not in {"", "."}]
    for pattern in reversed(patterns):
        segments, only_directories = _parse_pattern(pattern)
        deepest = len(parts) - 1 if only_directories else len(parts)
        if segments and any(_matches(segments, parts[:depth]) for depth in range(1, deepest + 1)):
            return not pattern.startswith("!")
    return False


def exact_pattern(path: str) -> str:
    """A pattern for this one path."""
    return f"/{_SPECIAL.sub(_ESCAPE, path)}"


def protected_paths(paths: Iterable[str], patterns: Sequence[str]) -> tuple[str, ...]:
    """Those of the paths that are restored."""
    return tuple(path for path in paths if is_protected(path, patterns))


def restore_paths(base: Path, tree: Path, paths: Iterable[str]) -> None:
    """Make these paths of `tree` what they are in `base`; those that are not there are removed.

    Raises:
        InvalidSubmission: something in the tree is in the way.
    """
    write_changes(tree, {os.fsencode(path): read_entry(base, os.fsencode(path)) for path in paths})


def restore_protected(base: Path, tree: Path, *, protected: Sequence[str], overlay: Path | None = None) -> None:
    """Make every protected path of `tree`, and those that `overlay` has, what it is in `base`.

    For a tree in which programs have run: both trees are read in full.

    Raises:
        InvalidSubmission: something in the tree is in the way.
    """
    fixed = set() if overlay is None else set(file_paths(overlay))
    paths = {
        path
        for path in {*file_paths(base), *file_paths(tree)}
        if path in fixed or is_protected(os.fsdecode(path), protected)
    }
    entries = {path: read_entry(base, path) for path in paths}
    write_changes(tree, {path: entry for path, entry in entries.items() if entry != read_entry(tree, path)})


def fixed_files(tree: Path, protected: Sequence[str], overlay: Path | None = None) -> tuple[str, ...]:
    """The files of a tree that nothing may change while its tests run: protected ones, and those of the overlay.

    There may be more than an environment can hold fixed; then code comes before data.
    """
    added = set() if overlay is None else set(file_paths(overlay))
    found = [
        os.fsdecode(path) for path in file_paths(tree) if path in added or is_protected(os.fsdecode(path), protected)
    ]
    regular = [path for path in found if not (tree / path).is_symlink() and not path.endswith(".pyc")]
    return tuple(
        sorted(regular, key=lambda path: (PurePosixPath(path).suffix not in _CODE_SUFFIXES, path))[:_MAX_FIXED]
    )


@lru_cache(maxsize=1024)
def _parse_pattern(pattern: str) -> tuple[tuple[str, ...], bool]:
    """A pattern's segments, and whether only directories can match; no segments for a comment or an empty line."""
    text = pattern.strip().removeprefix("!")
    if text.startswith("#"):
        return (), False
    inner = text.rstrip("/")
    segments = [_ESCAPED.sub(r"[\1]", segment) for segment in inner.split("/") if segment]
    if segments and "/" not in inner:
        segments.insert(0, "**")
    return tuple(segments), text.endswith("/")


_SPECIAL: Final = re.compile(r"([*?\[\]\\])")
_ESCAPE: Final = r"\\\1"
_ESCAPED: Final = re.compile(r"\\(.)")


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if not pattern or not parts:
        return not pattern and not parts
    if pattern[0] != "**":
        return fnmatchcase(parts[0], pattern[0]) and _matches(pattern[1:], parts[1:])
    # Last, "**" stands for everything below; elsewhere for any number of directories, also none.
    return len(pattern) == 1 or any(_matches(pattern[1:], parts[skip:]) for skip in range(len(parts)))
