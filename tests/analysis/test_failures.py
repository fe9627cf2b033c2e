import pytest

from observations import config, seen
from proctor.analysis import run_row
from proctor.analysis.failures import FAILURE_REASONS, failure_reason, finding_codes
from proctor.analysis.observation import ObservedFinding, ObservedVerdict
from proctor.core.causes import CONSEQUENCES, Cause, Status


@pytest.mark.parametrize("cause", list(Cause))
def test_every_way_to_fail_has_a_name_and_nothing_else_has_one(cause: Cause) -> None:
    consequence = CONSEQUENCES[cause]
    failing = consequence.counted and cause is not Cause.SOLVED
    assert (cause in FAILURE_REASONS) is failing
    mode = failure_reason(seen("a", "-", cause=cause, status=consequence.status or Status.UNRESOLVED))
    assert mode == (FAILURE_REASONS[cause] if failing else None)


def test_modes_and_causes_are_counted_most_frequent_first() -> None:
    observations = [
        *(seen(f"a{n}", "-", cause=Cause.EMPTY) for n in range(2)),
        *(seen(f"b{n}", "-") for n in range(3)),
        seen("late", "+", cause=Cause.AGENT_TIMEOUT),
        seen("c", "e"),
        seen("d", "e", cause=Cause.DISK_FULL),
        seen("e", "e"),
    ]
    row = run_row(config(), observations)
    assert list(row.failure_reasons.items()) == [("tests still fail", 3), ("handed in nothing", 2)]
    assert list(row.error_causes.items()) == [("provider_error", 2), ("disk_full", 1)]


def test_a_finding_counts_once_for_an_answer_and_only_in_those_that_count() -> None:
    found = ObservedVerdict(
        status=Status.RESOLVED, cause=Cause.SOLVED, findings=tuple(ObservedFinding(code=code) for code in "xxy")
    )
    assert finding_codes(seen("a", verdict=found)) == {"x", "y"}
    row = run_row(config(), [seen("a", verdict=found), seen("b"), seen("c", "e", verdict=found)])
    assert (row.findings, row.finding_codes) == (1, {"x": 1, "y": 1})
