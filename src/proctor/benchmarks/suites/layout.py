"""The trees that an instance's tests run on: the repository, a patch on top, protected files restored, hidden ones."""

from pathlib import Path

import msgspec

from proctor.benchmarks.suites.format import TestsEval
from proctor.benchmarks.suites.load import Instance
from proctor.benchmarks.x07.audit import x07_findings, x07_protected
from proctor.core.evaluation import Prediction
from proctor.grading import TEST_MACHINERY, AppliedSubmission, add_files, apply_submission, restore_paths


def lay_out_submission(instance: Instance, prediction: Prediction, tree: Path) -> AppliedSubmission:
    """Make `tree` what the tests run on after a submission.

    Raises:
        InvalidSubmission: the patch cannot be applied, or what it leaves is in the way of protected files.
    """
    applied = apply_submission(instance.repo, prediction, tree, protected=protected_patterns(instance), merge=True)
    restore_paths(instance.repo, tree, applied.restore)
    add_files(tree, instance.hidden)
    before = {path: entry.data for path, entry in applied.change.before.items()}
    after = {path: entry.data for path, entry in applied.change.after.items()}
    return msgspec.structs.replace(applied, findings=(*applied.findings, *x07_findings(before, after)))


def protected_patterns(instance: Instance) -> tuple[str, ...]:
    """Which paths a submission cannot change for good: test machinery, and what the instance names."""
    tests = instance.file.eval
    if isinstance(tests, TestsEval):
        return (*TEST_MACHINERY, *tests.protected)
    return tuple(f"/{path}" for path in x07_protected(tests))
