"""Lays out the trees that tests run on: the base, and a submission applied to it.

What is audited is the change of the tree: the files before and after our code applied the submission.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from proctor.core.causes import Cause
from proctor.core.evaluation import Prediction
from proctor.core.record import Record
from proctor.core.task import DirectorySource
from proctor.core.trees import FILE, FileEntry, read_entry, read_tree
from proctor.core.verdict import Finding
from proctor.grading.audit import audit_change
from proctor.grading.protected_patterns import protected_paths
from proctor.workspaces import ApplyResult, InvalidSubmission, TreeChange, apply_patch, base_of, read_change
from proctor.workspaces.changes import write_changes


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


def _apply(base: Path, prediction: Prediction, tree: Path, *, merge: bool) -> ApplyResult:
    try:
        return apply_patch(tree, prediction.content, prediction.patch_kind)
    except InvalidSubmission as invalid:
        if not merge or invalid.cause is not Cause.DOES_NOT_APPLY:
            raise
        # A three-way merge needs the base as git objects; they are made only for a patch that needs one.
        objects = base_of(DirectorySource(path=str(base)))
        return apply_patch(tree, prediction.content, prediction.patch_kind, base=objects)
