"""Lays out the trees that tests run on: the base, a submission applied to it, protected files restored.

What is audited is the change of the tree: the files before and after our code applied the submission.
"""

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from proctor.core.causes import Cause
from proctor.core.evaluation import Prediction
from proctor.core.record import Record
from proctor.core.task import DirectorySource
from proctor.core.trees import FILE, FileEntry, file_paths, read_entry, read_tree
from proctor.core.verdict import Finding
from proctor.grading.audit import audit_change
from proctor.grading.protection import is_protected, protected_paths
from proctor.workspaces import ApplyResult, InvalidSubmission, TreeChange, apply_patch, base_of, read_change
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


class AppliedSubmission(Record):
    """A submission that was applied to a copy of the base.

    Attributes:
        applied_with: the fallback that was needed; None when it applied strictly.
        change: what it did to the tree.
        restore: the protected paths among those that it changed.
        findings: of the audit of the change.
    """

    applied_with: str | None
    change: TreeChange
    restore: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def touched(self) -> tuple[str, ...]:
        """The paths that it changed."""
        return self.change.paths


def lay_out(base: Path, tree: Path, *, overlay: Path | None = None) -> None:
    """Make `tree` a copy of `base`, with the files of `overlay` over it."""
    shutil.copytree(base, tree, symlinks=True)
    add_files(tree, overlay)


def add_files(tree: Path, overlay: Path | None) -> None:
    """Write every file of `overlay` into `tree`.

    Raises:
        InvalidSubmission: something in the tree is in the way.
    """
    if overlay is not None:
        write_changes(tree, read_tree(overlay))


def apply_submission(
    base: Path, prediction: Prediction, tree: Path, *, protected: Sequence[str], merge: bool = False
) -> AppliedSubmission:
    """Make `tree` a copy of `base` with the submission applied to it, protected paths included.

    Fallbacks for a diff that does not apply strictly: other white space in the context, then, with `merge`, a
    three-way merge with the base's files.

    Raises:
        InvalidSubmission: it is empty, malformed, unsafe or too large, or does not apply.
    """
    shutil.copytree(base, tree, symlinks=True)
    applied = _apply(base, prediction, tree, merge=merge)
    change = read_change(base, tree, applied.touched)
    return AppliedSubmission(
        applied_with=applied.applied_with,
        change=change,
        restore=protected_paths(change.paths, protected),
        findings=audit_change(change, protected=protected),
    )


def restore_paths(base: Path, tree: Path, paths: Iterable[str]) -> None:
    """Make these paths of `tree` what they are in `base`; those that are not there are removed.

    Raises:
        InvalidSubmission: something in the tree is in the way.
    """
    write_changes(tree, {os.fsencode(path): read_entry(base, os.fsencode(path)) for path in paths})


def replace_files(tree: Path, files: Mapping[str, bytes]) -> None:
    """Put these files in place of those of `tree`, with their modes.

    Raises:
        InvalidSubmission: something in the tree is in the way.
    """
    changes = {}
    for path, data in ((os.fsencode(name), data) for name, data in files.items()):
        entry = read_entry(tree, path)
        changes[path] = FileEntry(entry.mode if entry else FILE, data)
    write_changes(tree, changes)


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


def _apply(base: Path, prediction: Prediction, tree: Path, *, merge: bool) -> ApplyResult:
    try:
        return apply_patch(tree, prediction.content, prediction.patch_kind)
    except InvalidSubmission as invalid:
        if not merge or invalid.cause is not Cause.DOES_NOT_APPLY:
            raise
        # A three-way merge needs the base as git objects; they are made only for a patch that needs one.
        objects = base_of(DirectorySource(path=str(base)))
        return apply_patch(tree, prediction.content, prediction.patch_kind, base=objects)
