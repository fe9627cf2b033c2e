"""The variants that a verifier is given, with tests as they are and altered, and what their results say.

The rules are the same wherever the verifier runs: on copies of the agent's machine, or in environments of its own.
"""

import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import field

from proctor.benchmarks.harbor.task import TEST_SCRIPT, HarborStep
from proctor.benchmarks.harbor.test_data import altered_data
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
from proctor.grading.controls.test_variants import FAILING, altered_test_results, merge_variants, variant_files
from proctor.grading.finding_codes import AuditCode
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, TestRun
from proctor.grading.state import CopyFailed, GradingTarget
from proctor.results.cache import RecordCache, cache_key

VariantRuns = Sequence[tuple[TestVariant, TestRun]]
RunFiles = Callable[[Mapping[str, bytes]], Awaitable[HarborEvidence]]
"""Runs the verifier with these files in place of its own."""

# Whoever guesses has to guess right this often, beside the first run of the verifier.
_MIN_GUESSES: Final = 4
_MAX_PROVED: Final = 40
_CACHE: Final = "control_sets"
_VERSION: Final = "harbor_controls@2"
_MAX_SINGLE_FILES: Final = 8
_SAME: Final = 1e-9


class HarborControls(ControlSet):
    """The altered tests of a verifier, the altered data beside them, and what the solution gets for failing them.

    Attributes:
        data: files beside the tests, with other values, by path.
        data_tests: the tests that the solution passes, and fails with those.
        altered_reward: the solution's reward with all tests altered.
    """

    data: dict[str, bytes] = field(default_factory=dict)
    data_tests: tuple[str, ...] = ()
    altered_reward: float = 1.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing can be told apart with it."""
        return not self.pairs and not self.data_tests


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
    target: GradingTarget | None,
    controls: HarborControls,
    seen: VariantRuns,
    findings: tuple[Finding, ...] = (),
    data_run: TestRun | None = None,
) -> HarborControlCheck:
    """What variants say whose original tests pass, and a run with altered data."""
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
    if altered.passed:
        change = f"`{altered.passed[0].original}` changed to `{altered.passed[0].altered}`"
        reason = f"{altered.passed[0].tests[0]} also passes with {change}, so the result is not trusted"
        return msgspec.structs.replace(made, cause=Cause.TAMPERED, reason=reason)
    follows = [] if data_run is None else [test for test in controls.data_tests if _passes(data_run, test)]
    if not follows:
        return made
    files = ", ".join(f"tests/{name}" for name in controls.data)
    return _tampered(made, f"{follows[0]} also passes with other values in {files}, so the result is not trusted")


def judged_part(controls: HarborControls, reward: float, altered: HarborEvidence) -> HarborControlCheck | None:
    """What is against a reward that is not full: it stays what it is when all tests are altered. None: nothing."""
    ceiling = controls.altered_reward + _SAME
    if reward <= ceiling or altered.reward <= ceiling or altered.reward < reward - _SAME:
        return None
    made = HarborControlCheck(target=GradingTarget.COPY, controls=control_summary(controls, None))
    also = f"the reward is {altered.reward:g} with every test altered too"
    return _tampered(made, f"{also}, where the solution gets {controls.altered_reward:g}, so it is not trusted")


def _tampered(made: HarborControlCheck, reason: str) -> HarborControlCheck:
    finding = Finding(code=AuditCode.CONTROL_PASSED, path=f"tests/{TEST_SCRIPT}", detail=reason)
    return msgspec.structs.replace(made, cause=Cause.TAMPERED, reason=reason, findings=(*made.findings, finding))


def _passes(run: TestRun, test: str) -> bool:
    return run.tests.get(test) is TestStatus.PASSED


def everything_altered(controls: HarborControls, step: HarborStep) -> dict[str, bytes]:
    """The test files with all alterations."""
    whole = TestVariant(altered=tuple(range(len(controls.alterations))))
    return variant_files(controls, test_sources(step), whole)


async def known_controls(key: str, prove: Callable[[], Awaitable[HarborControls]] | None, pairs: int) -> HarborControls:
    """The altered tests that a right state fails: from the cache, or proved with the task's own solution."""
    if not pairs:
        return HarborControls(reason="controls are off")
    if prove is None:
        return HarborControls(reason="the task has no solution to prove them with")
    cache, name = RecordCache(HarborControls, _CACHE), cache_key(_VERSION, key)
    async with cache.lock(name):
        known = cache.get(name)
        if known is not None:
            return known
        try:
            made = await prove()
        except (InfrastructureError, CopyFailed) as error:
            return HarborControls(reason=f"the solution could not be tried: {error}")
        if not made.is_empty:
            cache.put(name, made)
        return made


def with_uncontrolled(controls: HarborControls, live: Mapping[str, TestStatus]) -> HarborControls:
    """The same; where nothing was proved of any test, those that pass on the machine are the ones without control."""
    if controls.tests or controls.uncontrolled:
        return controls
    passing = tuple(test for test, status in live.items() if status is TestStatus.PASSED)
    return msgspec.structs.replace(controls, uncontrolled=passing or (WHOLE_SCRIPT,))


async def prove_with(plain: HarborEvidence, step: HarborStep, run: RunFiles, pairs: int) -> HarborControls:
    """Run the control check on the solution; `plain` is what its verifier gives with its tests as they are."""
    unaltered, sources = as_test_run(plain), test_sources(step)
    passing = [test for test, status in unaltered.tests.items() if status is TestStatus.PASSED]
    if unaltered.exit_code != 0 or not passing:
        return HarborControls(uncontrolled=tuple(passing), reason="the solution does not pass a second time")
    some = random.SystemRandom().sample(passing, min(_MAX_PROVED, len(passing)))
    rest = tuple(test for test in passing if test not in set(some))
    requests = prove_controls(some, (), sources, pairs=pairs, others=rest)

    async def give(files: Mapping[str, bytes], _name: str) -> TestRun:
        return as_test_run(await run(files))

    made = await make_runs(requests, give)
    found = {name: getattr(made, name) for name in made.__struct_fields__}
    controls = HarborControls(**found | {"uncontrolled": (*made.uncontrolled, *rest)})
    if controls.alterations:
        reward = (await run(everything_altered(controls, step))).reward
        controls = msgspec.structs.replace(controls, altered_reward=reward)
    data, failed = await _prove_data(altered_data(step), passing, run)
    return msgspec.structs.replace(controls, data=data, data_tests=failed)


async def _prove_data(
    data: dict[str, bytes], passing: Sequence[str], run: RunFiles
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The files with which the solution fails tests, and those tests; without files that keep tests from being run."""

    async def failed_with(files: dict[str, bytes]) -> tuple[str, ...] | None:
        seen = as_test_run(await run(files))
        if any(test not in seen.tests for test in passing):
            return None
        return tuple(test for test in passing if seen.tests[test] in FAILING)

    failed = await failed_with(data) if data else ()
    if failed is None and len(data) > 1:
        single = list(data.items())[:_MAX_SINGLE_FILES]
        data = {name: content for name, content in single if await failed_with({name: content})}
        failed = await failed_with(data) if data else ()
    return (data, failed) if failed else ({}, ())


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
