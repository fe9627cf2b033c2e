"""The grading kit: one task in grading, from a laid-out tree to the evaluation that is reported.

Suites, the SWE family and Commit0 grade with it. `layout` makes the trees, `resolve` judges the runs.
"""

import asyncio
import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from proctor.core.benchmark import GradingContext
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import Environment, EnvironmentSpec, Mount
from proctor.core.errors import LimitReached
from proctor.core.evaluation import Prediction, RepairSummary, TaskEvaluation, TestSummary
from proctor.core.record import to_json
from proctor.core.verdict import TestOutcome, TestStatus, Verdict
from proctor.grading.audit import run_time_findings
from proctor.grading.execution import run_tests_in_new_environment
from proctor.grading.layout import AppliedSubmission, add_files, apply_submission
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, TestRun
from proctor.grading.plan import TestPlan
from proctor.grading.protection import fixed_files, restore_paths
from proctor.workspaces import InvalidSubmission, patch_sha256

if TYPE_CHECKING:
    from proctor.grading.controls import ControlledRun

LOG_BYTES: Final = 4_000_000
INLINE_WRITE_BYTES: Final = 100_000  # writing this little takes less time than starting a thread
_KILLED_EXIT_CODE: Final = 137


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingJob:
    """One task in grading. A benchmark adds its own fields in a subclass.

    Attributes:
        grader: names the rule of the verdict.
        folder: for the evidence.
        spec: the environment of a test run, without its tree.
        timeout: the wall clock of one test run, in seconds.
        protected: patterns of the paths that a submission cannot change for good, before the tests or while they run.
        overlay: files that are added to every tree before the tests run, and are protected too.
        tags, notes: of the task, for the report.
    """

    task_id: str
    grader: str
    context: GradingContext
    folder: Path
    spec: EnvironmentSpec
    timeout: float
    protected: tuple[str, ...] = ()
    overlay: Path | None = None
    tags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def reset_folder(self) -> None:
        """Make the folder for the evidence, without what an earlier grading left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)

    @asynccontextmanager
    async def scratch(self) -> AsyncIterator[Path]:
        """A folder for trees, removed afterwards; with `--keep-artifacts` it is kept beside the evidence."""
        if self.context.options.keep_artifacts:
            yield self.folder / "repo"
            return
        folder = Path(tempfile.mkdtemp(prefix="proctor-grade-"))
        try:
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def start(self, tree: Path, *, mounts: Sequence[Mount] = ()) -> Environment:
        """An environment whose workspace is a copy of `tree`, with more of the host mounted."""
        spec = msgspec.structs.replace(self.spec, workspace=tree, mounts=(*self.spec.mounts, *mounts))
        return await self.context.provider.start(spec)

    async def run_tests(
        self,
        plan: TestPlan,
        tree: Path,
        *,
        pristine: bool = False,
        permit: AbstractAsyncContextManager[object] | None = None,
    ) -> TestRun:
        """Run the tests on a tree once, in an environment of their own, within `permit` or the context's.

        Reaching a limit of the environment is an inconclusive run: with the submission in place, it is the
        submission's doing.

        Raises:
            LimitReached: the tree is pristine and exceeds a limit.
            InfrastructureError: the environment failed.
        """
        spec = msgspec.structs.replace(self.spec, workspace=tree)
        fixed = await asyncio.to_thread(fixed_files, tree, self.protected, self.overlay)
        try:
            return await run_tests_in_new_environment(
                self.context.provider,
                spec,
                plan,
                timeout=self.timeout,
                permit=permit or self.context.permit,
                fixed=fixed,
            )
        except LimitReached as limit:
            if pristine:
                raise
            return over_limit(limit)

    async def save_run(self, name: str, run: TestRun) -> TestSummary:
        """Write results and output apart, one for programs, the other for people; gives the run in numbers."""
        if len(run.log) < INLINE_WRITE_BYTES:
            self._save_run(name, run)
        else:
            await asyncio.to_thread(self._save_run, name, run)
        return summarise(run, report=f"{name}.tests.json")

    def _save_run(self, name: str, run: TestRun) -> None:
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        (self.folder / "logs" / f"{name}.txt").write_bytes(truncate_log(run.log))
        (self.folder / f"{name}.tests.json").write_bytes(to_json(msgspec.structs.replace(run, log=b"")))

    def lay_out_submission(self, base: Path, prediction: Prediction, tree: Path) -> AppliedSubmission:
        """Make `tree` what the tests run on after a submission: applied, protected files restored, the overlay added.

        Raises:
            InvalidSubmission: the patch cannot be applied, or what it leaves is in the way of protected files.
        """
        applied = apply_submission(base, prediction, tree, protected=self.protected, merge=True)
        restore_paths(base, tree, applied.restore)
        add_files(tree, self.overlay)
        return applied

    def verdict(self, before: TestRun, ended: "ControlledRun", applied: AppliedSubmission) -> Verdict:
        """The verdict on a submission whose tests ran under control; `before` are the tests on the pristine tree."""
        resolution, runs = ended.resolution, ended.runs
        return Verdict(
            task_id=self.task_id,
            status=resolution.status,
            cause=resolution.cause,
            reason=resolution.reason,
            tests=resolution.tests,
            findings=(*ended.findings, *applied.findings, *run_time_findings(before, runs)),
            applied_with=applied.applied_with,
            flaky=resolution.flaky,
            controls=ended.controls,
            grader=self.grader,
            seconds=round(sum(run.seconds for run in runs), 3),
        )

    def ungraded_verdict(self, cause: Cause, reason: str, *, tests: tuple[TestOutcome, ...] = ()) -> Verdict:
        """The verdict on a submission whose tests did not run."""
        status = CONSEQUENCES[cause].status or Status.ERROR
        return Verdict(task_id=self.task_id, status=status, cause=cause, reason=reason, tests=tests, grader=self.grader)

    def evaluation(
        self,
        prediction: Prediction,
        verdict: Verdict,
        *,
        pre_patch: TestSummary | None = None,
        post_patch: TestSummary | None = None,
        repair: RepairSummary | None = None,
        notes: tuple[str, ...] = (),
    ) -> TaskEvaluation:
        """What is reported of a graded submission."""
        return TaskEvaluation(
            task_id=self.task_id,
            verdict=verdict,
            tags=self.tags,
            notes=(*self.notes, *notes),
            model=prediction.model,
            patch_kind=prediction.patch_kind,
            patch_sha256=submission_digest(prediction),
            pre_patch=pre_patch,
            post_patch=post_patch,
            repair=repair,
            artifacts=str(self.folder),
        )


def over_limit(limit: LimitReached) -> TestRun:
    """The run of a submission that reached a limit of its environment."""
    outcome = InconclusiveRun(kind=InconclusiveKind.CUT_SHORT, reason=str(limit))
    return TestRun(outcome=outcome, exit_code=_KILLED_EXIT_CODE)


def summarise(run: TestRun, *, report: str | None = None) -> TestSummary:
    """A test run in numbers."""
    counts = Counter(run.tests.values())
    broken = len(run.outcome.broken) if isinstance(run.outcome, TestResults) else 0
    return TestSummary(
        ok=run.complete and run.exit_code == 0,
        exit_code=run.exit_code,
        passed=counts[TestStatus.PASSED] + counts[TestStatus.XFAILED],
        failed=counts[TestStatus.FAILED] + counts[TestStatus.XPASSED],
        skipped=counts[TestStatus.SKIPPED],
        errors=counts[TestStatus.ERROR] + broken,
        seconds=round(run.seconds, 3),
        report=report,
    )


def truncate_log(log: bytes, limit: int = LOG_BYTES) -> bytes:
    """The two ends of a log: many tasks may print without end."""
    if len(log) <= limit:
        return log
    half = limit // 2
    return log[:half] + b"\n[%d bytes left out]\n" % (len(log) - 2 * half) + log[-half:]


def submission_digest(prediction: Prediction) -> str:
    """What identifies a submission, also one that cannot be read."""
    try:
        return patch_sha256(prediction.content, prediction.patch_kind)
    except InvalidSubmission:
        return hashlib.sha256(prediction.content).hexdigest()
