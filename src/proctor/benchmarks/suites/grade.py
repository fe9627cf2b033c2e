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
from proctor.benchmarks.suites.layout import lay_out_patched, lay_out_pristine
from proctor.benchmarks.suites.steps import Bench, Step, run_step
from proctor.core.benchmark import Health
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.evaluation import Evaluated, Prediction
from proctor.core.places import HEALTH_CACHE
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource
from proctor.core.verdict import Finding, TestOutcome, Verdict
from proctor.grading import (
    ProblemCode,
    TestRun,
    baseline_trouble,
    resolve,
    sightings,
    tampering,
    validate,
)
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.workspaces import Applied, UnfitSubmission, base_of, check_out, patch_sha256, prove_no_leak

GRADER: Final = f"suites/{proctor.__version__}"


async def grade(bench: Bench, prediction: Prediction, *, runs: int) -> Evaluated:
    """Grade one submission, running its tests `runs` times."""
    async with _scratch(bench) as scratch, _ahead(bench, prediction, scratch, runs) as (go, patched):
        before = await baseline(bench, scratch)
        trouble = baseline_trouble(before.run, bench.expectation)
        if trouble is not None:
            return _unfit(bench, prediction, *trouble, before=before)
        go.set()
        try:
            applied, findings, (after, *again) = await patched
        except UnfitSubmission as unfit:
            return _unfit(bench, prediction, unfit.cause, str(unfit), before=before)
    reruns = [step.run for step in again]
    expectation = bench.expectation
    if reruns and await _proven_stable(bench):
        expectation = msgspec.structs.replace(expectation, proven_stable=True)
    resolution = resolve(before.run, after.run, expectation, reruns=reruns)
    findings += _seen_at_run_time(before.run, [after.run, *reruns], applied.touched)
    verdict = Verdict(
        task_id=bench.instance.id,
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
    return _evaluated(bench, prediction, verdict, before=before, after=after)


Patched = tuple[Applied, tuple[Finding, ...], list[Step]]


@asynccontextmanager
async def _ahead(
    bench: Bench, prediction: Prediction, scratch: Path, runs: int
) -> AsyncIterator[tuple[asyncio.Event, "asyncio.Task[Patched]"]]:
    """Lay the submission out and make its room while the baseline runs; its tests wait for the word to go."""
    go = asyncio.Event()
    patched = asyncio.create_task(_test_patched(bench, prediction, scratch / "after_patch", runs, go))
    try:
        yield go, patched
    finally:
        if not patched.done():
            patched.cancel()
        await asyncio.wait({patched})
        if not patched.cancelled():
            patched.exception()  # whoever waited for it has it; otherwise the baseline's own trouble weighs more


async def _test_patched(bench: Bench, prediction: Prediction, tree: Path, runs: int, go: asyncio.Event) -> Patched:
    applied, findings = await asyncio.to_thread(lay_out_patched, bench.instance, prediction, tree)
    names = ["after_patch", *(f"after_patch.det{number}" for number in range(1, runs))]
    steps = [await run_step(bench, tree, name, touched=applied.touched, turn=_turn(bench, go)) for name in names]
    return applied, findings, steps


@asynccontextmanager
async def _turn(bench: Bench, go: asyncio.Event) -> AsyncIterator[None]:
    """A turn that is taken once the word to go has been given."""
    await go.wait()
    async with bench.place.turn:
        yield


def _seen_at_run_time(before: TestRun, runs: Sequence[TestRun], touched: Sequence[str]) -> tuple[Finding, ...]:
    """What the reporter saw and the pristine tree does not do; what was seen counts where the submission did it."""
    tampered = dict.fromkeys(name for run in runs for name in run.outcome.tampered)
    seen = dict.fromkeys(sight for run in runs for sight in run.outcome.seen)
    places = {*touched, "a thread"}
    return (
        *tampering(name for name in tampered if name not in before.outcome.tampered),
        *sightings(sight for sight in seen if sight not in before.outcome.seen and sight.place in places),
    )


async def baseline(bench: Bench, scratch: Path) -> Step:
    """The tests on the pristine tree. What is known for these programs and this instance is not tried again."""
    known = RecordCache(Step, "baselines") if bench.place.use_cache else None
    key = cache_key(GRADER, await bench.place.provider.digest(bench.spec), bench.fingerprint, str(bench.timeout))
    step = known.get(key) if known else None
    if step is not None:
        return step
    tree = scratch / "baseline"
    await asyncio.to_thread(lay_out_pristine, bench.instance, tree)
    step = await run_step(bench, tree, "baseline")
    if known and step.run.complete:
        known.put(key, step)
    return step


async def _proven_stable(bench: Bench) -> bool:
    """Whether `validate` saw these tests repeat here: then a test that flips is the submission's doing."""
    key = cache_key(GRADER, await bench.place.provider.digest(bench.spec), bench.fingerprint)
    health = RecordCache(Health, HEALTH_CACHE).get(key)
    return health is not None and health.determinism_ok


async def check_health(bench: Bench, gold: Prediction | None, *, runs: int) -> Health:
    """Prove an instance on this machine: fails as labelled, is solved by its oracle, repeats, and leaks nothing."""
    async with _scratch(bench) as scratch:
        pristine, solved = scratch / "baseline", scratch / "oracle"
        await asyncio.to_thread(lay_out_pristine, bench.instance, pristine)
        before = [(await run_step(bench, pristine, f"baseline.det{number}")).run for number in range(runs)]
        if gold is None:
            return await _health(bench, problems=["there is no oracle to try"])
        try:
            applied, _ = await asyncio.to_thread(lay_out_patched, bench.instance, gold, solved)
            steps = [
                await run_step(bench, solved, f"oracle.det{number}", touched=applied.touched) for number in range(runs)
            ]
        except UnfitSubmission as unfit:
            return await _health(bench, problems=[f"the oracle cannot be applied: {unfit}"])
        leaks = await asyncio.to_thread(_leaks, bench, gold, scratch / "workspace")
    found = validate(before, [step.run for step in steps], bench.expectation)
    return await _health(
        bench,
        problems=[problem.detail for problem in found.problems],
        codes={problem.code for problem in found.problems},
        flaky=found.flaky,
        leaks=leaks,
    )


def _leaks(bench: Bench, gold: Prediction, workspace: Path) -> tuple[str, ...]:
    """Where an agent that is given this instance could find the answer."""
    base = base_of(DirectorySource(path=str(bench.instance.repo)))
    check_out(base, workspace)
    proof = prove_no_leak(gold.content, workspace, commit=base.commit, kind=gold.patch_kind)
    return tuple(f"{leak.place}: {leak.lines[0] if leak.lines else leak.kind}" for leak in proof.leaks)


async def _health(
    bench: Bench,
    *,
    problems: Sequence[str],
    codes: set[ProblemCode] | None = None,
    flaky: tuple[str, ...] = (),
    leaks: tuple[str, ...] = (),
) -> Health:
    unsolved = {ProblemCode.ORACLE, ProblemCode.LABEL_MISSING, ProblemCode.UNLABELLED_CHANGE}
    return Health(
        task_id=bench.instance.id,
        environment=await bench.place.provider.digest(bench.spec),
        healthy=not problems and not leaks,
        baseline_ok=codes is not None and ProblemCode.BASELINE not in codes,
        oracle_ok=codes is not None and not codes & unsolved,
        determinism_ok=codes is not None and ProblemCode.NOT_REPEATABLE not in codes,
        problems=tuple(problems),
        flaky=flaky,
        leaks=leaks,
        artifacts=str(bench.folder),
    )


@asynccontextmanager
async def _scratch(bench: Bench) -> AsyncIterator[Path]:
    """A folder for trees; kept among the artifacts if that was asked for. What an earlier run left goes first."""
    await asyncio.to_thread(_clear, bench)
    if bench.place.options.keep_artifacts:
        yield bench.folder / "repo"
        return
    folder = Path(tempfile.mkdtemp(prefix="proctor-grade-"))
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _clear(bench: Bench) -> None:
    shutil.rmtree(bench.folder, ignore_errors=True)
    (bench.folder / "patch").mkdir(parents=True)
    (bench.folder / "instance.json").write_bytes(bench.instance.path.read_bytes())


def _unfit(bench: Bench, prediction: Prediction, cause: Cause, reason: str, *, before: Step) -> Evaluated:
    verdict = Verdict(
        task_id=bench.instance.id,
        status=CONSEQUENCES[cause].status or Status.ERROR,
        cause=cause,
        reason=reason,
        tests=tuple(TestOutcome(id=test, before=status, after=None) for test, status in before.run.tests.items()),
        grader=GRADER,
    )
    return _evaluated(bench, prediction, verdict, before=before)


def _evaluated(
    bench: Bench, prediction: Prediction, verdict: Verdict, *, before: Step, after: Step | None = None
) -> Evaluated:
    form = "submission.diff" if prediction.patch_kind is PatchKind.UNIFIED_DIFF else "submission.patchset.json"
    (bench.folder / "patch" / form).write_bytes(prediction.content)
    return Evaluated(
        task_id=bench.instance.id,
        verdict=verdict,
        tags=bench.instance.file.tags,
        notes=bench.instance.notes,
        model=prediction.model,
        patch_kind=prediction.patch_kind,
        patch_sha256=_identity(prediction),
        baseline=before.summary,
        after_patch=after.summary if after else None,
        repair=after.repair if after else None,
        artifacts=str(bench.folder),
    )


def _identity(prediction: Prediction) -> str:
    try:
        return patch_sha256(prediction.content, prediction.patch_kind)
    except UnfitSubmission:
        return hashlib.sha256(prediction.content).hexdigest()
