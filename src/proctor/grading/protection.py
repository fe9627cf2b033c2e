"""Protected paths: restored before the tests run, and held fixed while they do."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.core.trees import file_paths, read_entry
from proctor.grading.protected_patterns import is_protected
from proctor.workspaces.changes import write_changes

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
