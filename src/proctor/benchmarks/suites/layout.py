"""The trees that are tested: the repository, a patch on top, what is protected as it was, then the hidden files."""

import os
import shutil
from pathlib import Path

from proctor.benchmarks.suites.format import TestsEval
from proctor.benchmarks.suites.load import Instance
from proctor.benchmarks.x07.audit import x07_findings, x07_protected
from proctor.core.causes import Cause
from proctor.core.evaluation import Prediction
from proctor.core.task import DirectorySource
from proctor.core.verdict import Finding
from proctor.grading import TEST_MACHINERY, audit_trees, is_protected, protected_paths
from proctor.workspaces import ApplyResult, InvalidSubmission, apply_patch, base_of
from proctor.workspaces.changes import write_changes
from proctor.workspaces.trees import FileEntry, file_paths, read_entry, read_tree


def lay_out_pristine(instance: Instance, tree: Path) -> None:
    """Make `tree` what the tests run on before any submission."""
    shutil.copytree(instance.repo, tree, symlinks=True)
    _overlay_hidden(instance, tree)


def lay_out_patched(instance: Instance, prediction: Prediction, tree: Path) -> tuple[ApplyResult, tuple[Finding, ...]]:
    """Make `tree` what the tests run on after a submission; also what the audit says of the change.

    Raises:
        UnfitSubmission: the patch cannot be applied, or leaves no room for the protected files.
    """
    shutil.copytree(instance.repo, tree, symlinks=True)
    applied = _apply(instance.repo, prediction, tree)
    patterns = protected_patterns(instance)
    old, new = _entries(instance.repo, applied), _entries(tree, applied)
    before = {path: entry.data for path, entry in old.items()}
    after = {path: entry.data for path, entry in new.items()}
    modes = {path: entry.mode for path, entry in new.items()}
    findings = (*audit_trees(before, after, modes=modes, protected=patterns), *x07_findings(before, after))
    restored = protected_paths(applied.touched, patterns)
    write_changes(tree, {os.fsencode(path): read_entry(instance.repo, os.fsencode(path)) for path in restored})
    _overlay_hidden(instance, tree)
    return applied, findings


def restore_protected(instance: Instance, laid_out: Path, tree: Path) -> None:
    """Make what is protected, or hidden, in `tree` what it is in the tree that we laid out.

    Raises:
        UnfitSubmission: there is no room left for these files.
    """
    patterns = protected_patterns(instance)
    hidden = set() if instance.hidden is None else set(file_paths(instance.hidden))
    paths = {
        path
        for path in {*file_paths(laid_out), *file_paths(tree)}
        if path in hidden or is_protected(os.fsdecode(path), patterns)
    }
    entries = {path: read_entry(laid_out, path) for path in paths}
    write_changes(tree, {path: entry for path, entry in entries.items() if entry != read_entry(tree, path)})


def protected_patterns(instance: Instance) -> tuple[str, ...]:
    """Which paths a submission cannot change for good: test machinery, and what the instance names."""
    tests = instance.file.eval
    if isinstance(tests, TestsEval):
        return (*TEST_MACHINERY, *tests.protected)
    return tuple(f"/{path}" for path in x07_protected(tests))


def _apply(repo: Path, prediction: Prediction, tree: Path) -> ApplyResult:
    try:
        return apply_patch(tree, prediction.content, prediction.patch_kind)
    except InvalidSubmission as unfit:
        if unfit.cause is not Cause.DOES_NOT_APPLY:
            raise
        # A three-way merge needs the repository as git objects; only a patch that needs one is worth making them.
        base = base_of(DirectorySource(path=str(repo)))
        return apply_patch(tree, prediction.content, prediction.patch_kind, base=base)


def _overlay_hidden(instance: Instance, tree: Path) -> None:
    if instance.hidden is not None:
        write_changes(tree, read_tree(instance.hidden))


def _entries(tree: Path, applied: ApplyResult) -> dict[str, FileEntry]:
    entries = {path: read_entry(tree, os.fsencode(path)) for path in applied.touched}
    return {path: entry for path, entry in entries.items() if entry is not None}
