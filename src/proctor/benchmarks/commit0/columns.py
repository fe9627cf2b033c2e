"""What the results of test runs say of a submission: pure rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from proctor.benchmarks.commit0.library import Library
from proctor.benchmarks.commit0.official import Official
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.record import Record
from proctor.core.verdict import Finding, TestOutcome, TestStatus, Verdict
from proctor.workspaces import Applied, UnfitSubmission

GRADER: Final = "commit0/1"


class Column(Record):
    """How each listed test ends on one tree.

    Attributes:
        trouble: why nothing is known, where that is so.
        tampered: parts of the test machinery that changed while it was running.
    """

    statuses: dict[str, TestStatus]
    trouble: str = ""
    seconds: float = 0.0
    tampered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Columns:
    """All that is known of one submission, and what it is held against."""

    after: Column
    stub: Column
    gold: Column | None
    official: Official
    static: Mapping[str, float]


def points(column: Column, gold: Column | None) -> int:
    """How many of the listed tests count as passed.

    One that fails as expected counts where the reference's does so too: any library can raise what pytest takes for
    an expected failure.
    """
    expected = gold.statuses if gold else {}
    return sum(
        status is TestStatus.PASSED or (status is TestStatus.XFAILED and expected.get(test) is TestStatus.XFAILED)
        for test, status in column.statuses.items()
    )


def is_resolved(column: Column, gold: Column | None) -> bool:
    """Whether every listed test passes that the reference passes; without a reference, every one."""
    if gold is None:
        return all(status is TestStatus.PASSED for status in column.statuses.values())
    within = (TestStatus.PASSED, TestStatus.XFAILED)
    reached = [column.statuses[test] is status for test, status in gold.statuses.items() if status in within]
    return bool(reached) and all(reached)


def verdict_of(library: Library, known: Columns, found: tuple[Finding, ...], applied: Applied) -> Verdict:
    """What a submission is worth, with all that it is held against."""
    column, stub, gold, official = known.after, known.stub, known.gold, known.official
    count = len(library.ids)
    passed, before = points(column, gold), points(stub, gold)
    solved = is_resolved(column, gold)
    scores = {
        "strict": passed / count,
        "official": official.score,
        "stub": before / count,
        "gain": (passed - before) / count,
        "tests": float(count),
        **{f"{tool}_findings": number for tool, number in known.static.items()},
    }
    if gold is not None:
        scores["gold"] = points(gold, gold) / count
    if official.coverage is not None:
        scores["coverage"] = official.coverage
    cause = Cause.SOLVED if solved else _why(column, stub)
    return Verdict(
        task_id=library.row.instance_id,
        status=Status.RESOLVED if solved else Status.UNRESOLVED,
        cause=cause,
        reason=_reason(column, passed, before, count, gold),
        score=passed / count,
        scores={name: round(value, 6) for name, value in sorted(scores.items())},
        official=Status.RESOLVED if official.resolved else Status.UNRESOLVED,
        tests=tuple(
            TestOutcome(id=test, before=stub.statuses[test], after=status) for test, status in column.statuses.items()
        ),
        findings=found,
        applied_with=applied.applied_with,
        grader=GRADER,
        seconds=column.seconds,
    )


def unfit_verdict(library: Library, unfit: UnfitSubmission, stub: Column, gold: Column | None) -> Verdict:
    """What cannot be applied is worth nothing; no change at all leaves what the stubs have."""
    count = len(library.ids)
    scores = {"stub": points(stub, gold) / count, "tests": float(count)}
    if gold is not None:
        scores["gold"] = points(gold, gold) / count
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


def _why(column: Column, stub: Column) -> Cause:
    if "still running" in column.trouble:
        return Cause.TEST_TIMEOUT
    lost = any(
        status is TestStatus.PASSED and column.statuses[test] is not TestStatus.PASSED
        for test, status in stub.statuses.items()
    )
    return Cause.REGRESSION if lost and not column.trouble else Cause.TESTS_FAILED


def _reason(column: Column, passed: int, before: int, count: int, gold: Column | None) -> str:
    if column.trouble:
        return f"no test counts: {column.trouble}"
    best = "" if gold is None else f"; the reference passes {points(gold, gold)}"
    return f"{passed} of {count} tests pass, the stubs pass {before}{best}"
