"""Examines a submission with the papers of a control set, as far as is needed to decide."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from proctor.core.causes import Cause, Status
from proctor.core.formatting import truncate_line
from proctor.core.record import Record
from proctor.core.verdict import ControlSummary, Finding, TestStatus
from proctor.grading.controls.alteration import Alteration
from proctor.grading.controls.papers import (
    ControlSet,
    Paper,
    RequestedRun,
    Requests,
    TwinResults,
    merge_papers,
    paper_files,
    twin_results,
)
from proctor.grading.finding_codes import AuditCode
from proctor.grading.outcome import TestRun
from proctor.grading.resolve import Expectation, Resolution, join_names, resolve

_MAX_TEXT: Final = 120
_MAX_CONFIRMED: Final = 3
_PAPER_NAMES: Final = "ab"

Stands = Callable[[TestRun, frozenset[str]], bool]
"""Whether a run would be resolved, leaving aside these tests, of which nothing is known yet."""


class Exam(Record):
    """What the papers showed.

    Attributes:
        runs: the tests as they are, one run for each repetition; the first one is of all papers that are left.
        twins: what became of the altered tests; empty when the exam ended early.
        complete: whether all papers were given: a submission that fails an original is given no more of them.
        pairs: of papers that were given.
    """

    runs: tuple[TestRun, ...]
    twins: TwinResults
    complete: bool
    pairs: int


def examine(
    controls: ControlSet,
    sources: Mapping[str, bytes],
    stands: Stands,
    *,
    repeats: int = 1,
    plain: Sequence[TestRun] = (),
    passing: Sequence[TestStatus] = (TestStatus.PASSED,),
) -> Requests[Exam]:
    """Give the papers of a control set to a submission, each in a fresh environment.

    Args:
        controls: proved for this task.
        sources: the test files that it was proved with.
        stands: says after each paper whether the next one is worth its cost.
        repeats: how many independent results are wanted.
        plain: runs of all tests as they are, one for each repetition, where there were some already.
        passing: the statuses that count as a pass.
    """
    groups = [[(Paper(), run) for run in plain[number : number + 1]] for number in range(repeats)]
    pairs = controls.pairs if len(controls.pairs) >= repeats else (controls.pairs * repeats)[:repeats]
    fallen: set[int] = set()
    given = 0
    for number, pair in enumerate(pairs):
        group = number if number < repeats else 0
        if group in fallen:
            continue
        given += 1
        for name, paper in zip(_PAPER_NAMES, pair, strict=True):
            run = yield RequestedRun(files=paper_files(controls, sources, paper), name=f"paper{number + 1}{name}")
            groups[group].append((paper, run))
            merged = merge_papers(controls, groups[group])
            if not stands(merged, _unseen(controls, groups[group])):
                fallen.add(group)
                break
    twins = TwinResults()
    if not fallen:
        twins = twin_results(controls, [one for group in groups for one in group], passing)
        if not controls.proved:
            twins = TwinResults(passed=(yield from _confirm(controls, sources, twins, passing)))
    return Exam(
        runs=tuple(merge_papers(controls, group) for group in groups), twins=twins, complete=not fallen, pairs=given
    )


def _confirm(
    controls: ControlSet, sources: Mapping[str, bytes], results: TwinResults, passing: Sequence[TestStatus]
) -> Requests[tuple[Alteration, ...]]:
    """Those of the first twins that passed which pass alone, too.

    No oracle has shown that altered tests leave their neighbours alone. Alone, nothing but its expectation differs
    between a twin and its original.
    """
    confirmed: list[Alteration] = []
    for number, twin in enumerate(results.passed[:_MAX_CONFIRMED]):
        paper = Paper(altered=(controls.twins.index(twin),))
        run = yield RequestedRun(files=paper_files(controls, sources, paper), name=f"confirmation{number + 1}")
        confirmed += twin_results(controls, [(paper, run)], passing).passed
    return tuple(confirmed)


def _unseen(controls: ControlSet, seen: Sequence[tuple[Paper, TestRun]]) -> frozenset[str]:
    """The tests that were altered in every paper so far."""
    altered = [controls.altered_tests(paper) for paper, _ in seen]
    return frozenset.intersection(*altered) if altered else frozenset()


def stands_so_far(before: TestRun | None, run: TestRun, expectation: Expectation, unseen: frozenset[str]) -> bool:
    """Whether nothing is known that keeps a submission from being resolved."""
    rest = expectation.without(unseen)
    if expectation.labels and not rest.labels:
        return run.complete
    return resolve(before, run, rest).status is Status.RESOLVED


def resolve_exam(before: TestRun | None, exam: Exam, controls: ControlSet, expectation: Expectation) -> Resolution:
    """Judge a submission by its exam: every original must pass, and every altered test must fail."""
    unseen: frozenset[str] = frozenset()
    if not exam.complete:
        known = exam.runs[0].tests
        unseen = frozenset(test for twin in controls.twins for test in twin.tests if test not in known)
    resolution = resolve(before, exam.runs[0], expectation.without(unseen), reruns=exam.runs[1:])
    resolution = msgspec.structs.replace(
        resolution,
        tests=tuple(
            msgspec.structs.replace(test, after=None) if test.id in unseen else test for test in resolution.tests
        ),
    )
    against = control_judgement(exam) if resolution.status is Status.RESOLVED else None
    if against is None:
        return resolution
    status, cause, reason = against
    return msgspec.structs.replace(resolution, status=status, cause=cause, reason=reason)


def control_judgement(exam: Exam) -> tuple[Status, Cause, str] | None:
    """What the altered tests say of a submission that passes all originals; None: nothing against it."""
    if exam.twins.passed:
        names = join_names(test for twin in exam.twins.passed for test in twin.tests)
        reason = f"tests also pass with altered expectations, so the result is not trusted: {names}"
        return Status.UNRESOLVED, Cause.TAMPERED, reason
    if exam.twins.lost:
        names = join_names(test for twin in exam.twins.lost for test in twin.tests)
        return Status.UNRESOLVED, Cause.TESTS_VANISHED, f"altered tests without result: {names}"
    return None


def control_findings(exam: Exam) -> tuple[Finding, ...]:
    """The evidence: each test that passes with another expectation, and the change."""
    return tuple(
        Finding(code=AuditCode.CONTROL_PASSED, path=twin.path, detail=_describe(twin)) for twin in exam.twins.passed
    )


def _describe(twin: Alteration) -> str:
    """An alteration for people."""
    change = f"`{truncate_line(twin.original, _MAX_TEXT)}` changed to `{truncate_line(twin.altered, _MAX_TEXT)}`"
    return f"{join_names(twin.tests)} passes with {change} in line {twin.first_line}"


def control_summary(controls: ControlSet, exam: Exam | None) -> ControlSummary:
    """What the verdict says of its controls."""
    return ControlSummary(
        pairs=exam.pairs if exam else 0,
        controlled=len(controls.tests),
        uncontrolled=controls.uncontrolled,
        passed=tuple(test for twin in (exam.twins.passed if exam else ()) for test in twin.tests),
        reason=controls.reason,
    )
