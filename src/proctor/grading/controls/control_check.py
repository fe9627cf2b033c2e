"""Checks a submission with the test variants of a control set, as far as is needed to decide."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from proctor.core.causes import Cause, Status
from proctor.core.formatting import truncate_line
from proctor.core.record import Record
from proctor.core.verdict import ControlSummary, Finding, TestStatus
from proctor.grading.controls.alteration import Alteration
from proctor.grading.controls.test_variants import (
    AlteredTestResults,
    ControlSet,
    RequestedRun,
    Requests,
    TestVariant,
    altered_test_results,
    merge_variants,
    variant_files,
)
from proctor.grading.finding_codes import AuditCode
from proctor.grading.outcome import TestRun
from proctor.grading.resolve import Expectation, Resolution, join_names, resolve

_MAX_TEXT: Final = 120
_MAX_CONFIRMED: Final = 3
_VARIANT_NAMES: Final = "ab"

MayContinue = Callable[[TestRun, frozenset[str]], bool]
"""Whether a run would be resolved, leaving aside these tests, of which nothing is known yet."""


class ControlCheck(Record):
    """What the variants showed.

    Attributes:
        runs: the tests as they are, one run for each repetition; the first one is of all variants that are left.
        altered: what became of the altered tests; empty when the check ended early.
        complete: whether all variants were given: a submission that fails an original is given no more of them.
        pairs: of variants that were given.
    """

    runs: tuple[TestRun, ...]
    altered: AlteredTestResults
    complete: bool
    pairs: int


def run_test_variants(
    controls: ControlSet,
    sources: Mapping[str, bytes],
    may_continue: MayContinue,
    *,
    repeats: int = 1,
    plain: Sequence[TestRun] = (),
    passing: Sequence[TestStatus] = (TestStatus.PASSED,),
) -> Requests[ControlCheck]:
    """Give the variants of a control set to a submission, each in a fresh environment.

    Args:
        controls: proved for this task.
        sources: the test files that it was proved with.
        may_continue: says after each variant whether the next one is worth its cost.
        repeats: how many independent results are wanted.
        plain: runs of all tests as they are, one for each repetition, where there were some already.
        passing: the statuses that count as a pass.
    """
    groups = [[(TestVariant(), run) for run in plain[number : number + 1]] for number in range(repeats)]
    pairs = controls.pairs if len(controls.pairs) >= repeats else (controls.pairs * repeats)[:repeats]
    fallen: set[int] = set()
    given = 0
    for number, pair in enumerate(pairs):
        group = number if number < repeats else 0
        if group in fallen:
            continue
        given += 1
        for name, variant in zip(_VARIANT_NAMES, pair, strict=True):
            run = yield RequestedRun(files=variant_files(controls, sources, variant), name=f"paper{number + 1}{name}")
            groups[group].append((variant, run))
            merged = merge_variants(controls, groups[group])
            if not may_continue(merged, _unseen(controls, groups[group])):
                fallen.add(group)
                break
    altered = AlteredTestResults()
    if not fallen:
        altered = altered_test_results(controls, [one for group in groups for one in group], passing)
        if not controls.proved:
            altered = AlteredTestResults(passed=(yield from _confirm(controls, sources, altered, passing)))
    return ControlCheck(
        runs=tuple(merge_variants(controls, group) for group in groups),
        altered=altered,
        complete=not fallen,
        pairs=given,
    )


def _confirm(
    controls: ControlSet, sources: Mapping[str, bytes], results: AlteredTestResults, passing: Sequence[TestStatus]
) -> Requests[tuple[Alteration, ...]]:
    """Those of the first alterations that passed which pass alone, too.

    No oracle has shown that altered tests leave their neighbours alone. Alone, nothing but its expectation differs
    between an alteration and its original.
    """
    confirmed: list[Alteration] = []
    for number, alteration in enumerate(results.passed[:_MAX_CONFIRMED]):
        variant = TestVariant(altered=(controls.alterations.index(alteration),))
        run = yield RequestedRun(files=variant_files(controls, sources, variant), name=f"confirmation{number + 1}")
        confirmed += altered_test_results(controls, [(variant, run)], passing).passed
    return tuple(confirmed)


def _unseen(controls: ControlSet, seen: Sequence[tuple[TestVariant, TestRun]]) -> frozenset[str]:
    """The tests that were altered in every variant so far."""
    altered = [controls.altered_ids(variant) for variant, _ in seen]
    return frozenset.intersection(*altered) if altered else frozenset()


def may_be_resolved(before: TestRun | None, run: TestRun, expectation: Expectation, unseen: frozenset[str]) -> bool:
    """Whether nothing is known that keeps a submission from being resolved."""
    rest = expectation.without(unseen)
    if expectation.labels and not rest.labels:
        return run.complete
    return resolve(before, run, rest).status is Status.RESOLVED


def resolve_control_check(
    before: TestRun | None, control_check: ControlCheck, controls: ControlSet, expectation: Expectation
) -> Resolution:
    """Judge a submission by its control check: every original must pass, and every altered test must fail."""
    unseen: frozenset[str] = frozenset()
    if not control_check.complete:
        known = control_check.runs[0].tests
        unseen = frozenset(
            test for alteration in controls.alterations for test in alteration.tests if test not in known
        )
    resolution = resolve(before, control_check.runs[0], expectation.without(unseen), reruns=control_check.runs[1:])
    resolution = msgspec.structs.replace(
        resolution,
        tests=tuple(
            msgspec.structs.replace(test, after=None) if test.id in unseen else test for test in resolution.tests
        ),
    )
    against = control_judgement(control_check) if resolution.status is Status.RESOLVED else None
    if against is None:
        return resolution
    status, cause, reason = against
    return msgspec.structs.replace(resolution, status=status, cause=cause, reason=reason)


def control_judgement(control_check: ControlCheck) -> tuple[Status, Cause, str] | None:
    """What the altered tests say of a submission that passes all originals; None: nothing against it."""
    if control_check.altered.passed:
        names = join_names(test for alteration in control_check.altered.passed for test in alteration.tests)
        reason = f"tests also pass with altered expectations, so the result is not trusted: {names}"
        return Status.UNRESOLVED, Cause.TAMPERED, reason
    if control_check.altered.lost:
        names = join_names(test for alteration in control_check.altered.lost for test in alteration.tests)
        return Status.UNRESOLVED, Cause.TESTS_VANISHED, f"altered tests without result: {names}"
    return None


def control_findings(control_check: ControlCheck) -> tuple[Finding, ...]:
    """The evidence: each test that passes with another expectation, and the change."""
    return tuple(
        Finding(code=AuditCode.CONTROL_PASSED, path=alteration.path, detail=_describe(alteration))
        for alteration in control_check.altered.passed
    )


def _describe(alteration: Alteration) -> str:
    """An alteration for people."""
    change = (
        f"`{truncate_line(alteration.original, _MAX_TEXT)}` changed to `{truncate_line(alteration.altered, _MAX_TEXT)}`"
    )
    return f"{join_names(alteration.tests)} passes with {change} in line {alteration.first_line}"


def control_summary(controls: ControlSet, control_check: ControlCheck | None) -> ControlSummary:
    """What the verdict says of its controls."""
    return ControlSummary(
        pairs=control_check.pairs if control_check else 0,
        controlled=len(controls.tests),
        uncontrolled=controls.uncontrolled,
        passed=tuple(
            test for alteration in (control_check.altered.passed if control_check else ()) for test in alteration.tests
        ),
        reason=controls.reason,
    )
