"""The variants that a verifier is given, with tests as they are and altered, and what their results say.

The rules are the same wherever the verifier runs: on copies of the agent's machine, or in environments of its own.
"""

import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from proctor.benchmarks.harbor.task import HarborStep
from proctor.benchmarks.harbor.verdict_rule import WHOLE_SCRIPT, HarborControlCheck, HarborEvidence
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.core.verdict import Finding, TestStatus
from proctor.grading.controls import (
    ControlCheck,
    ControlSet,
    TestVariant,
    control_findings,
    control_summary,
    make_runs,
    prove_controls,
)
from proctor.grading.controls.languages import has_finder
from proctor.grading.controls.test_variants import altered_test_results, merge_variants
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, TestRun
from proctor.grading.state import CopyFailed, GradingTarget
from proctor.results.cache import RecordCache, cache_key

VariantRuns = Sequence[tuple[TestVariant, TestRun]]
RunVariant = Callable[[Mapping[str, bytes], str], Awaitable[TestRun]]

# Whoever guesses has to guess right this often, beside the first run of the verifier.
_MIN_GUESSES: Final = 4
_MAX_PROVED: Final = 40
_CACHE: Final = "control_sets"
_VERSION: Final = "harbor_controls@1"


def test_sources(step: HarborStep) -> dict[str, bytes]:
    """The files of a verifier whose tests can be altered, by path below its folder."""
    read = {name: file.read_bytes() for name, file in step.test_files().items()}
    return {name: data for name, data in read.items() if has_finder(name, data)}


def choose_variants(controls: ControlSet, pairs: int) -> list[TestVariant]:
    """As many pairs as are wanted, and as it takes to make guessing hopeless."""
    if not controls.pairs:
        return [TestVariant()]
    wanted = max(pairs, math.ceil(_MIN_GUESSES / (2 * len(controls.alterations))))
    chosen = (controls.pairs * wanted)[:wanted]
    return [variant for pair in chosen for variant in pair]


def originals_pass(controls: ControlSet, seen: VariantRuns) -> bool:
    """Whether every test passes wherever it is not altered."""
    wanted = {*controls.tests, *controls.uncontrolled}
    for variant, run in seen:
        if not run.complete or (not variant.altered and run.exit_code != 0):
            return False
        left = wanted - controls.altered_ids(variant)
        if any(run.tests.get(test) is not TestStatus.PASSED for test in left):
            return False
    return True


def altered_pass(controls: ControlSet, seen: VariantRuns) -> bool:
    """Whether a test passes where it is altered."""
    return bool(altered_test_results(controls, seen, (TestStatus.PASSED,)).passed)


def judged(
    target: GradingTarget | None, controls: ControlSet, seen: VariantRuns, findings: tuple[Finding, ...] = ()
) -> HarborControlCheck:
    """What variants say whose original tests pass."""
    altered = altered_test_results(controls, seen, (TestStatus.PASSED,))
    control_check = ControlCheck(
        runs=(merge_variants(controls, seen),),
        altered=altered,
        complete=True,
        pairs=len(seen) // 2 if controls.pairs else 0,
    )
    made = HarborControlCheck(
        target=target,
        controls=control_summary(controls, control_check),
        findings=(*findings, *control_findings(control_check)),
    )
    if not altered.passed:
        return made
    change = f"`{altered.passed[0].original}` changed to `{altered.passed[0].altered}`"
    reason = f"{altered.passed[0].tests[0]} also passes with {change}, so the result is not trusted"
    return msgspec.structs.replace(made, cause=Cause.TAMPERED, reason=reason)


async def known_controls(key: str, prove: Callable[[], Awaitable[ControlSet]] | None, pairs: int) -> ControlSet:
    """The altered tests that a right state fails: from the cache, or proved with the task's own solution."""
    if not pairs:
        return ControlSet(reason="controls are off")
    if prove is None:
        return ControlSet(reason="the task has no solution to prove them with")
    cache, name = RecordCache(ControlSet, _CACHE), cache_key(_VERSION, key)
    known = cache.get(name)
    if known is not None:
        return known
    try:
        made = await prove()
    except (InfrastructureError, CopyFailed) as error:
        return ControlSet(reason=f"the solution could not be tried: {error}")
    if made.pairs:
        cache.put(name, made)
    return made


def with_uncontrolled(controls: ControlSet, live: Mapping[str, TestStatus]) -> ControlSet:
    """The same; where nothing was proved of any test, those that pass on the machine are the ones without control."""
    if controls.tests or controls.uncontrolled:
        return controls
    passing = tuple(test for test, status in live.items() if status is TestStatus.PASSED)
    return msgspec.structs.replace(controls, uncontrolled=passing or (WHOLE_SCRIPT,))


async def prove_with(plain: TestRun, sources: Mapping[str, bytes], run: RunVariant, pairs: int) -> ControlSet:
    """Run the control check on the solution; `plain` is how its tests end as they are."""
    passing = [test for test, status in plain.tests.items() if status is TestStatus.PASSED]
    if plain.exit_code != 0 or not passing:
        return ControlSet(uncontrolled=tuple(passing), reason="the solution does not pass a second time")
    some = random.SystemRandom().sample(passing, min(_MAX_PROVED, len(passing)))
    rest = tuple(test for test in passing if test not in set(some))
    requests = prove_controls(some, (), sources, pairs=pairs, others=rest)
    made = await make_runs(requests, run)
    return msgspec.structs.replace(made, uncontrolled=(*made.uncontrolled, *rest))


def as_test_run(evidence: HarborEvidence) -> TestRun:
    """What a verifier gave, as a run of tests: of those that its report names, or of its script as one test."""
    ran = evidence.verifier_run
    exit_code = 0 if evidence.reward >= 1 else 1
    log = f"{ran.stdout}\n{ran.stderr}".encode()
    if ran.timed_out or evidence.is_inconclusive:
        kind = InconclusiveKind.TIMED_OUT if ran.timed_out else InconclusiveKind.NO_REPORT
        outcome: TestResults | InconclusiveRun = InconclusiveRun(kind=kind, reason=evidence.problem)
    elif evidence.statuses:
        outcome = TestResults(tests=dict(evidence.statuses))
    else:
        status = TestStatus.PASSED if exit_code == 0 else TestStatus.FAILED
        outcome = TestResults(tests={WHOLE_SCRIPT: status})
    return TestRun(outcome=outcome, exit_code=exit_code, seconds=ran.seconds, log=log)
