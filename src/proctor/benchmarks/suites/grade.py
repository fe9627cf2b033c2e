"""How one instance is graded, step by step: baseline must fail, apply, repair, test, rerun, verdict.

Every test run has a room of its own, made from a tree that we laid out. The room never sees the instance's folder.
"""

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

import proctor
from proctor.benchmarks.suites.grading_job import SuiteGradingJob, TestStepResult, run_step
from proctor.benchmarks.suites.layout import lay_out_submission
from proctor.core.benchmark import TaskHealth
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.paths import HEALTH_CACHE
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource
from proctor.core.verdict import Finding, TestOutcome, Verdict
from proctor.grading import (
    AppliedSubmission,
    TaskProblemCode,
    TestRun,
    lay_out,
    pre_patch_problem,
    resolve,
    tamper_event_findings,
    tampering_findings,
    validate,
)
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.workspaces import InvalidSubmission, base_of, check_out, patch_sha256, prove_no_leak

GRADER: Final = f"suites/{proctor.__version__}"


async def grade(job: SuiteGradingJob, prediction: Prediction, *, runs: int) -> TaskEvaluation:
    """Grade one submission, running its tests `runs` times."""
    async with _scratch(job) as scratch, _start_post_patch(job, prediction, scratch, runs) as (go, patched):
        before = await run_pre_patch(job, scratch)
        trouble = pre_patch_problem(before.run, job.expectation)
        if trouble is not None:
            return _ungraded(job, prediction, *trouble, before=before)
        go.set()
        try:
            applied, (after, *again) = await patched
        except InvalidSubmission as unfit:
            return _ungraded(job, prediction, unfit.cause, str(unfit), before=before)
    reruns = [step.run for step in again]
    expectation = job.expectation
    if reruns and await _proven_stable(job):
        expectation = msgspec.structs.replace(expectation, proven_stable=True)
    resolution = resolve(before.run, after.run, expectation, reruns=reruns)
    findings = (*applied.findings, *_run_time_findings(before.run, [after.run, *reruns], applied.touched))
    verdict = Verdict(
        task_id=job.instance.id,
        status=resolution.status,
        cause=resolution.cause,
        reason=resolution.reason,
        tests=resolution.tests,
        findings=findings,
        applied_with=applied.applied_with,
        flaky=resolution.flaky,
        grader=GRADER,
        seconds=round(sum(step.summary.seconds for step in (after, *again)), 3),
    )
    return _task_evaluation(job, prediction, verdict, before=before, after=after)


PostPatchRuns = tuple[AppliedSubmission, list[TestStepResult]]


@asynccontextmanager
async def _start_post_patch(
    job: SuiteGradingJob, prediction: Prediction, scratch: Path, runs: int
) -> AsyncIterator[tuple[asyncio.Event, "asyncio.Task[PostPatchRuns]"]]:
    """Lay the submission out and make its room while the baseline runs; its tests wait for the word to go."""
    go = asyncio.Event()
    patched = asyncio.create_task(_run_post_patch(job, prediction, scratch / "after_patch", runs, go))
    try:
        yield go, patched
    finally:
        if not patched.done():
            patched.cancel()
        await asyncio.wait({patched})
        if not patched.cancelled():
            patched.exception()  # whoever waited for it has it; otherwise the baseline's own trouble weighs more


async def _run_post_patch(
    job: SuiteGradingJob, prediction: Prediction, tree: Path, runs: int, may_run: asyncio.Event
) -> PostPatchRuns:
    applied = await asyncio.to_thread(lay_out_submission, job.instance, prediction, tree)
    names = ["after_patch", *(f"after_patch.det{number}" for number in range(1, runs))]
    steps = [
        await run_step(job, tree, name, touched=applied.touched, permit=_permit_after(job, may_run)) for name in names
    ]
    return applied, steps


@asynccontextmanager
async def _permit_after(job: SuiteGradingJob, may_run: asyncio.Event) -> AsyncIterator[None]:
    """A turn that is taken once the word to go has been given."""
    await may_run.wait()
    async with job.context.permit:
        yield


def _run_time_findings(before: TestRun, runs: Sequence[TestRun], touched: Sequence[str]) -> tuple[Finding, ...]:
    """What the reporter saw and the pristine tree does not do; what was seen counts where the submission did it."""
    tampered = dict.fromkeys(name for run in runs for name in run.outcome.tampered)
    seen = dict.fromkeys(sight for run in runs for sight in run.outcome.tamper_events)
    places = {*touched, "a thread"}
    return (
        *tampering_findings(name for name in tampered if name not in before.outcome.tampered),
        *tamper_event_findings(
            sight for sight in seen if sight not in before.outcome.tamper_events and sight.path in places
        ),
    )


async def run_pre_patch(job: SuiteGradingJob, scratch: Path) -> TestStepResult:
    """The tests on the pristine tree. What is known for these programs and this instance is not tried again."""
    known = RecordCache(TestStepResult, "baselines") if job.context.use_cache else None
    key = cache_key(GRADER, await job.context.provider.digest(job.spec), job.fingerprint, str(job.timeout))
    step = known.get(key) if known else None
    if step is not None:
        return step
    tree = scratch / "baseline"
    await asyncio.to_thread(lay_out, job.instance.repo, tree, overlay=job.instance.hidden)
    step = await run_step(job, tree, "baseline")
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
    async with _scratch(job) as scratch:
        pristine, solved = scratch / "baseline", scratch / "oracle"
        await asyncio.to_thread(lay_out, job.instance.repo, pristine, overlay=job.instance.hidden)
        before = [(await run_step(job, pristine, f"baseline.det{number}")).run for number in range(runs)]
        if oracle is None:
            return await _task_health(job, problems=["there is no oracle to try"])
        try:
            applied = await asyncio.to_thread(lay_out_submission, job.instance, oracle, solved)
            steps = [
                await run_step(job, solved, f"oracle.det{number}", touched=applied.touched) for number in range(runs)
            ]
        except InvalidSubmission as unfit:
            return await _task_health(job, problems=[f"the oracle cannot be applied: {unfit}"])
        leaks = await asyncio.to_thread(_leaks, job, oracle, scratch / "workspace")
    found = validate(before, [step.run for step in steps], job.expectation)
    return await _task_health(
        job,
        problems=[problem.detail for problem in found.problems],
        codes={problem.code for problem in found.problems},
        flaky=found.flaky,
        leaks=leaks,
    )


def _leaks(job: SuiteGradingJob, oracle: Prediction, workspace: Path) -> tuple[str, ...]:
    """Where an agent that is given this instance could find the answer."""
    base = base_of(DirectorySource(path=str(job.instance.repo)))
    check_out(base, workspace)
    proof = prove_no_leak(oracle.content, workspace, commit=base.commit, kind=oracle.patch_kind)
    return tuple(f"{leak.location}: {leak.lines[0] if leak.lines else leak.kind}" for leak in proof.leaks)


async def _task_health(
    job: SuiteGradingJob,
    *,
    problems: Sequence[str],
    codes: set[TaskProblemCode] | None = None,
    flaky: tuple[str, ...] = (),
    leaks: tuple[str, ...] = (),
) -> TaskHealth:
    unsolved = {TaskProblemCode.ORACLE, TaskProblemCode.LABEL_MISSING, TaskProblemCode.UNLABELLED_CHANGE}
    return TaskHealth(
        task_id=job.instance.id,
        environment=await job.context.provider.digest(job.spec),
        healthy=not problems and not leaks,
        pre_patch_ok=codes is not None and TaskProblemCode.PRE_PATCH not in codes,
        oracle_ok=codes is not None and not codes & unsolved,
        determinism_ok=codes is not None and TaskProblemCode.NOT_REPEATABLE not in codes,
        problems=tuple(problems),
        flaky=flaky,
        leaks=leaks,
        artifacts=str(job.folder),
    )


@asynccontextmanager
async def _scratch(job: SuiteGradingJob) -> AsyncIterator[Path]:
    """A folder for trees; kept among the artifacts if that was asked for. What an earlier run left goes first."""
    await asyncio.to_thread(_reset_artifacts, job)
    if job.context.options.keep_artifacts:
        yield job.folder / "repo"
        return
    folder = Path(tempfile.mkdtemp(prefix="proctor-grade-"))
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _reset_artifacts(job: SuiteGradingJob) -> None:
    shutil.rmtree(job.folder, ignore_errors=True)
    (job.folder / "patch").mkdir(parents=True)
    (job.folder / "instance.json").write_bytes(job.instance.path.read_bytes())


def _ungraded(
    job: SuiteGradingJob, prediction: Prediction, cause: Cause, reason: str, *, before: TestStepResult
) -> TaskEvaluation:
    verdict = Verdict(
        task_id=job.instance.id,
        status=CONSEQUENCES[cause].status or Status.ERROR,
        cause=cause,
        reason=reason,
        tests=tuple(TestOutcome(id=test, before=status, after=None) for test, status in before.run.tests.items()),
        grader=GRADER,
    )
    return _task_evaluation(job, prediction, verdict, before=before)


def _task_evaluation(
    job: SuiteGradingJob,
    prediction: Prediction,
    verdict: Verdict,
    *,
    before: TestStepResult,
    after: TestStepResult | None = None,
) -> TaskEvaluation:
    form = "submission.diff" if prediction.patch_kind is PatchKind.UNIFIED_DIFF else "submission.patchset.json"
    (job.folder / "patch" / form).write_bytes(prediction.content)
    return TaskEvaluation(
        task_id=job.instance.id,
        verdict=verdict,
        tags=job.instance.file.tags,
        notes=job.instance.notes,
        model=prediction.model,
        patch_kind=prediction.patch_kind,
        patch_sha256=_submission_digest(prediction),
        pre_patch=before.summary,
        post_patch=after.summary if after else None,
        repair=after.repair if after else None,
        artifacts=str(job.folder),
    )


def _submission_digest(prediction: Prediction) -> str:
    try:
        return patch_sha256(prediction.content, prediction.patch_kind)
    except InvalidSubmission:
        return hashlib.sha256(prediction.content).hexdigest()
