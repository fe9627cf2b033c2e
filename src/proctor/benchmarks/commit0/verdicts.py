"""What the results of test runs say of a submission: pure rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from proctor.benchmarks.commit0.library import Commit0Library
from proctor.benchmarks.commit0.official_score import Commit0OfficialScore
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.record import Record
from proctor.core.verdict import Finding, TestOutcome, TestStatus, Verdict
from proctor.grading import AppliedSubmission
from proctor.workspaces import InvalidSubmission

GRADER: Final = "commit0/1"


class TreeResults(Record):
    """How each listed test ends on one tree.

    Attributes:
        error: why nothing is known, where that is so.
        tampered: parts of the test machinery that changed while it was running.
    """

    statuses: dict[str, TestStatus]
    error: str = ""
    seconds: float = 0.0
    tampered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SubmissionResults:
    """All that is known of one submission, and what it is held against."""

    submission: TreeResults
    stub: TreeResults
    oracle: TreeResults | None
    official: Commit0OfficialScore
    static_findings: Mapping[str, float]


def passed_count(results: TreeResults, oracle: TreeResults | None) -> int:
    """How many of the listed tests count as passed.

    One that fails as expected counts where the oracle's does so too: any library can raise what pytest takes for
    an expected failure.
    """
    expected = oracle.statuses if oracle else {}
    return sum(
        status is TestStatus.PASSED or (status is TestStatus.XFAILED and expected.get(test) is TestStatus.XFAILED)
        for test, status in results.statuses.items()
    )


def is_resolved(results: TreeResults, oracle: TreeResults | None) -> bool:
    """Whether every listed test passes that the oracle passes; without an oracle, every one."""
    if oracle is None:
        return all(status is TestStatus.PASSED for status in results.statuses.values())
    within = (TestStatus.PASSED, TestStatus.XFAILED)
    reached = [results.statuses[test] is status for test, status in oracle.statuses.items() if status in within]
    return bool(reached) and all(reached)


def verdict_of(
    library: Commit0Library, results: SubmissionResults, findings: tuple[Finding, ...], applied: AppliedSubmission
) -> Verdict:
    """What a submission is worth, with all that it is held against."""
    column, stub, oracle, official = results.submission, results.stub, results.oracle, results.official
    count = len(library.test_ids)
    passed, before = passed_count(column, oracle), passed_count(stub, oracle)
    solved = is_resolved(column, oracle)
    scores = {
        "strict": passed / count,
        "official": official.score,
        "stub": before / count,
        "gain": (passed - before) / count,
        "tests": float(count),
        **{f"{tool}_findings": number for tool, number in results.static_findings.items()},
    }
    if oracle is not None:
        scores["oracle"] = passed_count(oracle, oracle) / count
    if official.coverage is not None:
        scores["coverage"] = official.coverage
    cause = Cause.SOLVED if solved else _failure_cause(column, stub)
    return Verdict(
        task_id=library.row.instance_id,
        status=Status.RESOLVED if solved else Status.UNRESOLVED,
        cause=cause,
        reason=_reason(column, passed, before, count, oracle),
        score=passed / count,
        scores={name: round(value, 6) for name, value in sorted(scores.items())},
        official=Status.RESOLVED if official.resolved else Status.UNRESOLVED,
        tests=tuple(
            TestOutcome(id=test, before=stub.statuses[test], after=status) for test, status in column.statuses.items()
        ),
        findings=findings,
        applied_with=applied.applied_with,
        grader=GRADER,
        seconds=column.seconds,
    )


def unapplied_verdict(
    library: Commit0Library, unfit: InvalidSubmission, stub: TreeResults, oracle: TreeResults | None
) -> Verdict:
    """What cannot be applied is worth nothing; no change at all leaves what the stubs have."""
    count = len(library.test_ids)
    scores = {"stub": passed_count(stub, oracle) / count, "tests": float(count)}
    if oracle is not None:
        scores["oracle"] = passed_count(oracle, oracle) / count
    scores["strict"] = scores["stub"] if unfit.cause is Cause.EMPTY else 0.0
    scores["gain"] = scores["strict"] - scores["stub"]
    return Verdict(
        task_id=library.row.instance_id,
        status=CONSEQUENCES[unfit.cause].status or Status.ERROR,
        cause=unfit.cause,
        reason=str(unfit),
        score=scores["strict"],
        scores={name: round(value, 6) for name, value in sorted(scores.items())},
        tests=tuple(TestOutcome(id=test, before=status, after=None) for test, status in stub.statuses.items()),
        grader=GRADER,
    )


def _failure_cause(results: TreeResults, stub: TreeResults) -> Cause:
    if "still running" in results.error:
        return Cause.TEST_TIMEOUT
    lost = any(
        status is TestStatus.PASSED and results.statuses[test] is not TestStatus.PASSED
        for test, status in stub.statuses.items()
    )
    return Cause.REGRESSION if lost and not results.error else Cause.TESTS_FAILED


def _reason(results: TreeResults, passed: int, before: int, count: int, oracle: TreeResults | None) -> str:
    if results.error:
        return f"no test counts: {results.error}"
    best = "" if oracle is None else f"; the oracle passes {passed_count(oracle, oracle)}"
    return f"{passed} of {count} tests pass, the stubs pass {before}{best}"
