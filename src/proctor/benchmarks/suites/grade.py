"""How one instance is graded, step by step: baseline must fail, apply, test, rerun, verdict.

Every test run has a room of its own, made from a tree that we laid out: the instance's repository, the patch on top,
then everything that is protected as it was, then the hidden files. The room never sees the instance's folder.
"""

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import proctor
from proctor.benchmarks.suites.format import TestsEval
from proctor.benchmarks.suites.load import Instance
from proctor.core.benchmark import Health, Place
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import EnvironmentSpec, Limits
from proctor.core.evaluation import Evaluated, Prediction, TestSummary
from proctor.core.files import write_atomic
from proctor.core.record import to_json
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource
from proctor.core.verdict import Finding, TestStatus, Verdict
from proctor.grading import (
    MACHINERY,
    Expectation,
    ProblemCode,
    Results,
    TestFormat,
    TestPlan,
    TestRun,
    Trouble,
    Unreadable,
    audit_trees,
    baseline_trouble,
    protected_paths,
    resolve,
    run_tests,
    tampering,
    validate,
)
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.workspaces import (
    Applied,
    UnfitSubmission,
    apply_diff,
    apply_patch_set,
    base_of,
    copy_tree,
    prove_no_leak,
    read_entry,
    read_tree,
    write_changes,
)

GRADER: Final = f"suites/{proctor.__version__}"
TEST_SECONDS: Final = 300.0
SETUP_SECONDS: Final = 600.0
ROOM: Final = Limits(memory_mb=4096, processes=512, disk_mb=4096)


@dataclass(frozen=True, slots=True)
class Bench:
    """One instance on the bench: what is graded, where, and the folder for its artifacts."""

    suite_id: str
    instance: Instance
    tests: TestsEval
    place: Place
    folder: Path

    @property
    def expectation(self) -> Expectation:
        """What the labels ask for."""
        return Expectation(fail_to_pass=self.tests.fail_to_pass, pass_to_pass=self.tests.pass_to_pass)

    @property
    def timeout(self) -> float:
        """The wall clock of one test run."""
        return self.place.options.timeout_seconds or self.tests.timeout_seconds or TEST_SECONDS

    @property
    def spec(self) -> EnvironmentSpec:
        """The room of a test run, but for its tree."""
        image = self.place.options.image or self.instance.file.image
        return EnvironmentSpec(image=image, limits=ROOM, labels={"task": self.instance.id, "suite": self.suite_id})


async def grade(bench: Bench, prediction: Prediction, *, runs: int) -> Evaluated:
    """Grade one submission, running its tests `runs` times."""
    before = await baseline(bench)
    trouble = baseline_trouble(before, bench.expectation)
    if trouble is not None:
        cause, reason = trouble
        return _evaluated(bench, prediction, _verdict(bench, cause, reason), before=before)
    with _scratch(bench, "after_patch") as tree:
        try:
            applied, findings = await asyncio.to_thread(_lay_out_patched, bench, prediction, tree)
        except UnfitSubmission as unfit:
            return _evaluated(bench, prediction, _verdict(bench, unfit.cause, str(unfit)), before=before)
        names = ["after_patch", *(f"after_patch.det{number}" for number in range(1, runs))]
        after, *reruns = [await _test(bench, tree, name) for name in names]
    resolution = resolve(before, after, bench.expectation, reruns=reruns)
    tampered = after.outcome.tampered if isinstance(after.outcome, Results) else ()
    verdict = Verdict(
        task_id=bench.instance.id,
        status=resolution.status,
        cause=resolution.cause,
        reason=resolution.reason,
        tests=resolution.tests,
        findings=(*findings, *tampering(tampered)),
        applied_with=applied.applied_with,
        flaky=resolution.flaky,
        grader=GRADER,
        seconds=round(sum(run.seconds for run in (after, *reruns)), 3),
    )
    return _evaluated(bench, prediction, verdict, before=before, after=after)


async def check_health(bench: Bench, gold: Prediction | None, *, runs: int) -> Health:
    """Prove an instance on this machine: fails as labelled, is solved by its oracle, repeats, and leaks nothing."""
    with _scratch(bench, "baseline") as tree:
        await asyncio.to_thread(_lay_out_pristine, bench, tree)
        before = [await _test(bench, tree, f"baseline.det{number}") for number in range(runs)]
    if gold is None:
        return _health(bench, before, problems=["there is no oracle to try"])
    with _scratch(bench, "oracle") as tree:
        try:
            await asyncio.to_thread(_lay_out_patched, bench, gold, tree)
        except UnfitSubmission as unfit:
            return _health(bench, before, problems=[f"the oracle cannot be applied: {unfit}"])
        after = [await _test(bench, tree, f"oracle.det{number}") for number in range(runs)]
    found = validate(before, after, bench.expectation)
    codes = {problem.code for problem in found.problems}
    leaks = await asyncio.to_thread(_leaks, bench, gold)
    return Health(
        task_id=bench.instance.id,
        environment=await bench.place.provider.digest(bench.spec),
        healthy=found.valid and not leaks,
        baseline_ok=ProblemCode.BASELINE not in codes,
        oracle_ok=not codes & {ProblemCode.ORACLE, ProblemCode.LABEL_MISSING, ProblemCode.UNLABELLED_CHANGE},
        determinism_ok=ProblemCode.NOT_REPEATABLE not in codes,
        problems=tuple(problem.detail for problem in found.problems),
        flaky=found.flaky,
        leaks=leaks,
        artifacts=str(bench.folder),
    )


async def baseline(bench: Bench) -> TestRun:
    """The tests on the pristine tree; what is known of it for these programs and this instance is not tried again."""
    key = cache_key(
        GRADER, await bench.place.provider.digest(bench.spec), bench.instance.digest(), str(bench.timeout)
    )
    known = RecordCache(TestRun, "baselines")
    run = known.get(key) if bench.place.use_cache else None
    if run is None:
        with _scratch(bench, "baseline") as tree:
            await asyncio.to_thread(_lay_out_pristine, bench, tree)
            run = await _test(bench, tree, "baseline")
        if run.complete:
            known.put(key, run)
    return run


def _lay_out_pristine(bench: Bench, tree: Path) -> None:
    copy_tree(bench.instance.repo, tree)
    _lay_over_hidden(bench, tree)


def _lay_out_patched(bench: Bench, prediction: Prediction, tree: Path) -> tuple[Applied, tuple[Finding, ...]]:
    """The tree that is tested, and what the audit says of the change that made it.

    Raises:
        UnfitSubmission: the patch cannot be applied, or leaves no room for the protected files.
    """
    repo = bench.instance.repo
    copy_tree(repo, tree)
    applied = _apply(repo, tree, prediction)
    patterns = (*MACHINERY, *bench.tests.protected)
    findings = audit_trees(_contents(repo, applied), _contents(tree, applied), protected=patterns)
    restored = (os.fsencode(path) for path in protected_paths(applied.touched, patterns))
    write_changes(tree, {path: read_entry(repo, path) for path in restored})
    _lay_over_hidden(bench, tree)
    return applied, findings


def _apply(repo: Path, tree: Path, prediction: Prediction) -> Applied:
    if prediction.patch_kind is PatchKind.PATCH_SET:
        return apply_patch_set(tree, prediction.content)
    try:
        return apply_diff(tree, prediction.content)
    except UnfitSubmission as unfit:
        if unfit.cause is not Cause.DOES_NOT_APPLY:
            raise
        # A three-way merge needs the repository as git objects, which few submissions are worth.
        return apply_diff(tree, prediction.content, base=base_of(DirectorySource(path=str(repo))))


def _lay_over_hidden(bench: Bench, tree: Path) -> None:
    if bench.instance.hidden is not None:
        write_changes(tree, read_tree(bench.instance.hidden))


def _contents(tree: Path, applied: Applied) -> dict[str, bytes]:
    entries = {path: read_entry(tree, os.fsencode(path)) for path in applied.touched}
    return {path: entry.data for path, entry in entries.items() if entry is not None}


async def _test(bench: Bench, tree: Path, name: str) -> TestRun:
    """Run the tests once, in a room of their own, and keep what they gave."""
    room_spec = bench.spec
    run: TestRun | None = None
    async with await bench.place.provider.start(msgspec_replace(room_spec, workspace=tree)) as room:
        for command in bench.tests.setup:
            done = await room.exec(command, timeout=SETUP_SECONDS, variables=bench.tests.variables)
            if done.exit_code != 0:
                reason = f"setting up failed: `{' '.join(command)}` ended with exit code {done.exit_code}"
                outcome = Unreadable(trouble=Trouble.NOT_STARTED, reason=reason)
                run = TestRun(outcome=outcome, exit_code=done.exit_code, log=done.stdout + done.stderr)
                break
        else:
            run = await run_tests(room, _plan(bench.tests), timeout=bench.timeout)
    await asyncio.to_thread(_keep, bench, name, run)
    return run
