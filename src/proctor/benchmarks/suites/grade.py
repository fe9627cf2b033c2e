"""How one instance is graded, step by step: the pre-patch run must fail, apply, repair, post-patch runs, verdict.

Every test run has an environment of its own, made from a tree that we laid out. It never sees the instance's folder.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.benchmarks.suites.format import DEPS_DIR
from proctor.benchmarks.suites.instance import Instance, TestStepResult
from proctor.core import VERSION
from proctor.core.benchmark import TaskHealth
from proctor.core.causes import Cause, Status
from proctor.core.evaluation import Prediction, RepairSummary, TaskEvaluation, TestSummary
from proctor.core.files import HEALTH_CACHE
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource
from proctor.core.verdict import ControlSummary, TestOutcome, Verdict
from proctor.grading import (
    AppliedSubmission,
    Expectation,
    GradingJob,
    TaskProblemCode,
    TestRun,
    lay_out,
    pre_patch_problem,
    replace_files,
    validate,
)
from proctor.grading.controls import (
    ControlledRun,
    ControlledTests,
    RequestedRun,
    control_summary,
    controlled_check,
    controlled_tests,
    find_or_prove,
)
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.workspaces import InvalidSubmission, base_of, check_out, prove_no_leak

GRADER: Final = f"suites/{VERSION}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteGradingJob(GradingJob):
    """One instance in grading. `fingerprint` identifies all of it that a verdict depends on."""

    instance: Instance
    fingerprint: str

    @property
    def expectation(self) -> Expectation:
        """What the labels ask for."""
        tests = self.instance.file.eval
        return Expectation(
            fail_to_pass=tests.fail_to_pass, pass_to_pass=tests.pass_to_pass, exit_zero=self.instance.exit_zero
        )

    async def controlled_tests(self, oracle: Prediction | None) -> ControlledTests:
        """What controls the tests of this instance."""
        return await controlled_tests(self, self.instance.repo, self.expectation, oracle, fingerprint=self.fingerprint)

    def reset_folder(self) -> None:
        """Make the folder for the evidence, without what an earlier grading left; the instance's file is in it."""
        GradingJob.reset_folder(self)
        (self.folder / "patch").mkdir()
        (self.folder / "instance.json").write_bytes(self.instance.path.read_bytes())


async def grade(
    job: SuiteGradingJob, prediction: Prediction, oracle: Prediction | None, *, runs: int
) -> TaskEvaluation:
    """Grade one submission, with `runs` independent results of its tests."""
    await asyncio.to_thread(job.reset_folder)
    async with job.scratch() as scratch:
        # Laid out, with its environment made, during the pre-patch run, whose result its tests wait for.
        pre_patch: asyncio.Future[TestStepResult] = asyncio.get_running_loop().create_future()
        post_patch = asyncio.create_task(
            _run_post_patch(job, prediction, oracle, scratch, runs=runs, pre_patch=pre_patch)
        )
        try:
            before = await run_pre_patch(job, scratch)
            problem = pre_patch_problem(before.run, job.expectation)
            if problem is not None:
                return _ungraded(job, prediction, *problem, before=before)
            pre_patch.set_result(before)
            try:
                applied, after = await post_patch
            except InvalidSubmission as invalid:
                return _ungraded(job, prediction, invalid.cause, str(invalid), before=before)
        finally:
            if not post_patch.done():
                post_patch.cancel()
            await asyncio.wait({post_patch})
            if not post_patch.cancelled():
                post_patch.exception()  # raised where it is awaited; otherwise the pre-patch run's own error counts
    verdict = job.verdict(before.run, after.tests, applied)
    return _task_evaluation(job, prediction, verdict, before=before, after=after)


@dataclass(frozen=True, slots=True)
class _PostPatch:
    """The tests with the submission in place, in numbers, and what a linter repaired before them."""

    tests: ControlledRun
    summary: TestSummary
    repair: RepairSummary | None


async def _run_post_patch(
    job: SuiteGradingJob,
    prediction: Prediction,
    oracle: Prediction | None,
    scratch: Path,
    *,
    runs: int,
    pre_patch: asyncio.Future[TestStepResult],
) -> tuple[AppliedSubmission, _PostPatch]:
    tree = scratch / "post_patch"
    applied = await asyncio.to_thread(lay_out_submission, job, prediction, tree)
    steps: list[TestStepResult] = []
    solved: AppliedSubmission | None = None
    tests = await job.controlled_tests(oracle)
    if runs > 1 and await _proven_stable(job):
        stable = msgspec.structs.replace(tests.expectation, proven_stable=True)
        tests = dataclasses.replace(tests, expectation=stable)
    async with tests.lock():
        control_check = controlled_check(tests, lambda: pre_patch.result().run, repeats=runs)
        try:
            asked = next(control_check)
            while True:
                if asked.of_oracle and oracle is not None:
                    whole = scratch / "controls"
                    if solved is None:
                        solved = await asyncio.to_thread(lay_out_submission, job, oracle, whole)
                    step = await _run_on(job, whole, asked, touched=solved.touched, permit=job.context.permit)
                else:
                    permit = _permit_after(job, pre_patch)
                    step = await _run_on(job, tree, asked, touched=applied.touched, permit=permit)
                    steps.append(step)
                asked = control_check.send(step.run)
        except StopIteration as end:
            ended: ControlledRun = end.value
    summary = steps[0].summary if ended.plain else await job.save_run("post_patch", ended.runs[0])
    return applied, _PostPatch(ended, summary, steps[0].repair)


def _run_on(
    job: SuiteGradingJob,
    tree: Path,
    asked: RequestedRun,
    *,
    touched: tuple[str, ...],
    permit: AbstractAsyncContextManager[object],
) -> Coroutine[Any, Any, TestStepResult]:
    """The tests on a tree with the requested files in place."""
    replace_files(tree, asked.files)
    return job.instance.run_tests(job, tree, asked.name, touched=touched, permit=permit)


async def _prove_controls(
    job: SuiteGradingJob, oracle: Prediction, tree: Path, touched: tuple[str, ...], before: TestRun
) -> ControlSummary:
    """Make the control set of an instance; `tree` has its oracle applied."""

    async def run_oracle(files: Mapping[str, bytes], name: str) -> TestRun:
        asked = RequestedRun(files=dict(files), name=name, of_oracle=True)
        return (await _run_on(job, tree, asked, touched=touched, permit=job.context.permit)).run

    tests = await job.controlled_tests(oracle)
    return control_summary(await find_or_prove(tests, run_oracle, before), None)


@asynccontextmanager
async def _permit_after(job: SuiteGradingJob, pre_patch: asyncio.Future[TestStepResult]) -> AsyncIterator[None]:
    """A permit that is taken after the pre-patch run."""
    await asyncio.shield(pre_patch)
    async with job.context.permit:
        yield


def lay_out_submission(job: SuiteGradingJob, prediction: Prediction, tree: Path) -> AppliedSubmission:
    """Make `tree` what the tests run on after a submission: applied, protected files restored, hidden ones added.

    Raises:
        InvalidSubmission: the patch cannot be applied, or what it leaves is in the way of protected files.
    """
    instance = job.instance
    applied = job.lay_out_submission(instance.repo, prediction, tree)
    return msgspec.structs.replace(applied, findings=(*applied.findings, *instance.findings(applied.change)))


async def run_pre_patch(job: SuiteGradingJob, scratch: Path) -> TestStepResult:
    """The tests on the pristine tree; a result that is known for this environment and this instance is used again."""
    known = RecordCache(TestStepResult, "pre_patch_runs") if job.context.use_cache else None
    key = cache_key(GRADER, await job.context.provider.digest(job.spec), job.fingerprint, str(job.timeout))
    step = known.get(key) if known else None
    if step is not None:
        return step
    tree = scratch / "pre_patch"
    await asyncio.to_thread(lay_out, job.instance.repo, tree, overlay=job.instance.hidden)
    step = await job.instance.run_tests(job, tree, "pre_patch", touched=None, permit=job.context.permit)
    if known and step.run.complete:
        known.put(key, step)
    return step


async def _proven_stable(job: SuiteGradingJob) -> bool:
    """Whether `validate` saw these tests repeat here: then a test that flips is the submission's doing."""
    key = cache_key(GRADER, await job.context.provider.digest(job.spec), job.fingerprint)
    health = RecordCache(TaskHealth, HEALTH_CACHE).get(key)
    return health is not None and health.determinism_ok


async def check_health(job: SuiteGradingJob, oracle: Prediction | None, *, runs: int) -> TaskHealth:
    """Prove an instance on this machine: fails as labelled, is solved by its oracle, repeats, and leaks nothing."""
    await asyncio.to_thread(job.reset_folder)
    async with job.scratch() as scratch:
        pristine, solved = scratch / "pre_patch", scratch / "oracle"
        await asyncio.to_thread(lay_out, job.instance.repo, pristine, overlay=job.instance.hidden)
        before = await _repeat(job, pristine, "pre_patch", runs, touched=None)
        # All that is known where the oracle cannot be tried.
        fails_as_labelled = pre_patch_problem(before[0], job.expectation) is None
        codes = {TaskProblemCode.ORACLE} if fails_as_labelled else {TaskProblemCode.ORACLE, TaskProblemCode.PRE_PATCH}
        if oracle is None:
            return await _task_health(job, problems=["there is no oracle to try"], codes=codes)
        try:
            applied = await asyncio.to_thread(lay_out_submission, job, oracle, solved)
            after = await _repeat(job, solved, "oracle", runs, touched=applied.touched)
        except InvalidSubmission as invalid:
            return await _task_health(job, problems=[f"the oracle cannot be applied: {invalid}"], codes=codes)
        leaks = await asyncio.to_thread(_leaks, job, oracle, scratch / "workspace")
        found = validate(before, after, job.expectation)
        controls = None
        if not found.problems and job.context.options.controls:
            controls = await _prove_controls(job, oracle, solved, applied.touched, before[0])
    return await _task_health(
        job,
        problems=[problem.detail for problem in found.problems],
        codes={problem.code for problem in found.problems},
        flaky=found.flaky,
        leaks=leaks,
        controls=controls,
        oracle_status=found.oracle_status,
        label_deviations=found.label_deviations,
    )


async def _repeat(
    job: SuiteGradingJob, tree: Path, name: str, runs: int, *, touched: tuple[str, ...] | None
) -> list[TestRun]:
    steps = [
        await job.instance.run_tests(job, tree, f"{name}.det{number}", touched=touched, permit=job.context.permit)
        for number in range(runs)
    ]
    return [step.run for step in steps]


def _leaks(job: SuiteGradingJob, oracle: Prediction, workspace: Path) -> tuple[str, ...]:
    """Where an agent that is given this instance could find the solution."""
    base = base_of(DirectorySource(path=str(job.instance.repo)))
    check_out(base, workspace)
    installed = [Path(mount.source) for mount in job.spec.mounts if mount.target == DEPS_DIR]
    proof = prove_no_leak(oracle.content, workspace, commit=base.commit, kind=oracle.patch_kind, extra=installed)
    return proof.descriptions


async def _task_health(
    job: SuiteGradingJob,
    *,
    problems: Sequence[str],
    codes: set[TaskProblemCode],
    flaky: tuple[str, ...] = (),
    leaks: tuple[str, ...] = (),
    controls: ControlSummary | None = None,
    oracle_status: Status = Status.ERROR,
    label_deviations: tuple[TestOutcome, ...] = (),
) -> TaskHealth:
    unsolved = {TaskProblemCode.ORACLE, TaskProblemCode.LABEL_MISSING, TaskProblemCode.UNLABELLED_CHANGE}
    return TaskHealth(
        task_id=job.task_id,
        environment=await job.context.provider.digest(job.spec),
        healthy=not problems and not leaks,
        pre_patch_ok=TaskProblemCode.PRE_PATCH not in codes,
        oracle_ok=not codes & unsolved,
        determinism_ok=TaskProblemCode.NOT_REPEATABLE not in codes,
        problems=tuple(problems),
        flaky=flaky,
        leaks=leaks,
        controls=controls,
        oracle_status=oracle_status,
        label_deviations=label_deviations,
        artifacts=str(job.folder),
    )


def _ungraded(
    job: SuiteGradingJob, prediction: Prediction, cause: Cause, reason: str, *, before: TestStepResult
) -> TaskEvaluation:
    tests = tuple(TestOutcome(id=test, before=status, after=None) for test, status in before.run.tests.items())
    return _task_evaluation(job, prediction, job.ungraded_verdict(cause, reason, tests=tests), before=before)


def _task_evaluation(
    job: SuiteGradingJob,
    prediction: Prediction,
    verdict: Verdict,
    *,
    before: TestStepResult,
    after: _PostPatch | None = None,
) -> TaskEvaluation:
    is_diff = prediction.patch_kind is PatchKind.UNIFIED_DIFF
    name = "submission.diff" if is_diff else "submission.patchset.json"
    (job.folder / "patch" / name).write_bytes(prediction.content)
    return job.evaluation(
        prediction,
        verdict,
        pre_patch=before.summary,
        post_patch=after.summary if after else None,
        repair=after.repair if after else None,
    )
