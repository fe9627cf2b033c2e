import pytest

from observations import config, make_observation
from proctor.analysis import run_row
from proctor.analysis.failures import FAILURE_REASONS, failure_reason, finding_codes
from proctor.analysis.observation import ObservedFinding, ObservedVerdict
from proctor.core.causes import CONSEQUENCES, Cause, Status


@pytest.mark.parametrize("cause", list(Cause))
def test_every_failing_cause_has_a_reason_and_no_other_cause(cause: Cause) -> None:
    consequence = CONSEQUENCES[cause]
    failing = consequence.counted and cause is not Cause.SOLVED
    assert (cause in FAILURE_REASONS) is failing
    reason = failure_reason(make_observation("a", "-", cause=cause, status=consequence.status or Status.UNRESOLVED))
    assert reason == (FAILURE_REASONS[cause] if failing else None)


def test_reasons_and_causes_are_counted_most_frequent_first() -> None:
    observations = [
        *(make_observation(f"a{n}", "-", cause=Cause.EMPTY) for n in range(2)),
        *(make_observation(f"b{n}", "-") for n in range(3)),
        make_observation("late", "+", cause=Cause.AGENT_TIMEOUT),
        make_observation("c", "e"),
        make_observation("d", "e", cause=Cause.DISK_FULL),
        make_observation("e", "e"),
    ]
    row = run_row(config(), observations)
    assert list(row.failure_reasons.items()) == [("tests failed", 3), ("empty submission", 2)]
    assert list(row.error_causes.items()) == [("provider_error", 2), ("disk_full", 1)]


def test_a_finding_counts_once_per_trial_and_only_in_counted_trials() -> None:
    found = ObservedVerdict(
        status=Status.RESOLVED, cause=Cause.SOLVED, findings=tuple(ObservedFinding(code=code) for code in "xxy")
    )
    assert finding_codes(make_observation("a", verdict=found)) == {"x", "y"}
    row = run_row(
        config(),
        [make_observation("a", verdict=found), make_observation("b"), make_observation("c", "e", verdict=found)],
    )
    assert (row.findings, row.finding_codes) == (1, {"x": 1, "y": 1})
