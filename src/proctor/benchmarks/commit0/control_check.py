"""Control checks of Commit0: what a submission passes counts only where it fails the same tests once they are altered.

A submission is scored by degree, so every one that passes more than the stubs is examined, not only one that passes
everything. Against it counts what it passes both as it is and altered.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.commit0.grading_job import Commit0GradingJob, lay_out, strict_run
from proctor.benchmarks.commit0.verdicts import GRADER, TreeResults
from proctor.core.causes import Cause, Status
from proctor.core.verdict import TestStatus, Verdict
from proctor.grading import Expectation, TestRun, replace_files
from proctor.grading.controls import (
    Alteration,
    ControlCheck,
    ControlledTests,
    ControlSet,
    control_findings,
    control_judgement,
    control_summary,
    find_or_prove,
    make_runs,
    read_sources,
    run_test_variants,
)
from proctor.grading.controls.test_variants import AlteredTestResults
from proctor.results.cache import cache_key

PASSING: Final = (TestStatus.PASSED,)
# Besides their number, what identifies how control sets are made here.
_VERSION: Final = f"{GRADER} controls/1"


async def make_controls(
    job: Commit0GradingJob, stub: TreeResults, oracle: TreeResults | None, scratch: Path
) -> ControlSet:
    """The control set of a library, proved with its oracle where it is not known; `scratch` is an empty folder."""
    whole = scratch / "controls"

    async def run_oracle(files: Mapping[str, bytes], name: str) -> TestRun:
        del name
        if not whole.exists():
            tree = await asyncio.to_thread(job.library.oracle_tree)
            await asyncio.to_thread(lay_out, tree or job.tree, job.generated, whole)
        await asyncio.to_thread(replace_files, whole, files)
        return (await strict_run(job, whole))[1]

    return await find_or_prove(await _controlled_tests(job, stub, oracle), run_oracle, None)


async def check_submission(
    job: Commit0GradingJob, tree: Path, results: TreeResults, controls: ControlSet
) -> ControlCheck:
    """Give the variants to a submission; `tree` has it applied, and its tests are replaced by those of the variants."""

    async def run_variant(files: Mapping[str, bytes], name: str) -> TestRun:
        await asyncio.to_thread(replace_files, tree, files)
        _, run = await strict_run(job, tree)
        await job.save_run(name, run)
        return run

    sources = await asyncio.to_thread(read_sources, job.tree, None, job.protected)
    control_check = await make_runs(
        run_test_variants(controls, sources, lambda run, _: run.complete, passing=PASSING), run_variant
    )
    # A wrong program may pass an altered test by its mistake; nobody honest passes both.
    both = AlteredTestResults(
        passed=tuple(
            alteration for alteration in control_check.altered.passed if _was_passed(alteration, controls, results)
        ),
        lost=tuple(
            alteration for alteration in control_check.altered.lost if _was_passed(alteration, controls, results)
        ),
    )
    return msgspec.structs.replace(control_check, altered=both)


def with_control_check(verdict: Verdict, controls: ControlSet | None, control_check: ControlCheck | None) -> Verdict:
    """A verdict with what the control check showed, where there was one."""
    if controls is None:
        return verdict
    if control_check is None:
        return msgspec.structs.replace(verdict, controls=control_summary(controls, None))
    verdict = msgspec.structs.replace(
        verdict,
        controls=control_summary(controls, control_check),
        findings=(*control_findings(control_check), *verdict.findings),
    )
    against = control_judgement(control_check)
    if control_check.complete and against is None:
        return verdict
    no_results = "with altered tests among them, the tests gave no results"
    status, cause, reason = against or (Status.UNRESOLVED, Cause.TESTS_VANISHED, no_results)
    scores = {**verdict.scores, "strict": 0.0, "gain": -verdict.scores.get("stub", 0.0)}
    return msgspec.structs.replace(verdict, status=status, cause=cause, reason=reason, score=0.0, scores=scores)


def _was_passed(alteration: Alteration, controls: ControlSet, results: TreeResults) -> bool:
    deciding = [test for test in alteration.tests if test in controls.tests]
    return any(results.statuses.get(test) in PASSING for test in deciding)


async def _controlled_tests(job: Commit0GradingJob, stub: TreeResults, oracle: TreeResults | None) -> ControlledTests:
    reached = stub.statuses if oracle is None else oracle.statuses
    passed = tuple(test for test, status in reached.items() if oracle is None or status in PASSING)
    before = frozenset(test for test, status in stub.statuses.items() if status in PASSING)
    environment = await job.context.provider.digest(job.spec)
    pairs = job.context.options.controls
    return ControlledTests(
        key=cache_key(_VERSION, environment, job.library.digest(), str(job.timeout), str(pairs)),
        expectation=Expectation(
            fail_to_pass=tuple(test for test in passed if test not in before),
            pass_to_pass=tuple(test for test in passed if test in before),
            passing=PASSING,
        ),
        sources=lambda: read_sources(job.tree, None, job.protected),
        has_oracle=oracle is not None,
        pairs=pairs,
        use_cache=job.context.use_cache,
    )
