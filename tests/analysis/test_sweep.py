"""The outcome of a sweep, and the decision of its rule."""

import pytest

from observations import config, make_observations
from proctor.analysis.observation import Observation
from proctor.analysis.sweep import SweepOutcome, sweep_outcome
from proctor.core.sweep import Sweep, SweepRun
from proctor.report.sweep import sweep_text

TASKS = [f"t{number:02}" for number in range(20)]


def marks(good: int) -> list[Observation]:
    return make_observations(**{task: "+" if number < good else "-" for number, task in enumerate(TASKS)})


def sweep(*labels: str, rule: str | None = "better") -> Sweep:
    return Sweep(
        sweep_id="sweep-001",
        name="pods",
        benchmark="toy",
        file="",
        runs=tuple(
            SweepRun(label=label, config=config(run_id=f"run-{number:03}", tasks=tuple(TASKS), trials=1))
            for number, label in enumerate(labels, start=1)
        ),
        reference=labels[0],
        rule=rule,
        created_at="2026-01-01T00:00:00+00:00",
    )


def outcome(rule: str | None, **good: int) -> SweepOutcome:
    return sweep_outcome(sweep(*good, rule=rule), {label: marks(count) for label, count in good.items()})


def test_the_rule_is_applied_to_every_configuration_but_the_reference() -> None:
    found = outcome("better", one=2, other=14, third=3)
    decided = {one.label: one.decision and one.decision.passed for one in found.runs}
    assert decided == {"one": None, "other": True, "third": False}
    assert (found.chosen, found.sentence) == (("other",), "other meets the rule (better) against one.")
    assert outcome("better", one=2, other=14, third=15).sentence == (
        "other and third meet the rule (better) against one."
    )
    assert outcome("better", one=2, other=3).sentence == "No configuration meets the rule (better): stay with one."


def test_several_comparisons_are_corrected_for_their_number() -> None:
    """Six flips to none are significant once (p = 0.031), and not among four comparisons."""
    assert outcome("better", one=2, a=8).chosen == ("a",)
    found = outcome("better", one=2, a=8, b=2, c=2, d=2)
    assert found.chosen == ()
    comparison = found.runs[1].comparison
    assert comparison is not None
    assert comparison.adjusted_p == pytest.approx(4 * comparison.p_value)


def test_nothing_is_decided_while_trials_are_missing() -> None:
    found = sweep_outcome(sweep("one", "other"), {"one": marks(0), "other": marks(20)[:-1]})
    assert (found.missing, found.chosen) == (1, ())
    assert all(one.decision is None for one in found.runs)
    assert found.sentence == "Nothing is decided: 1 trials are missing."
    # The comparison so far is shown all the same.
    assert found.runs[1].comparison is not None


def test_without_a_rule_or_a_second_configuration_nothing_is_decided() -> None:
    assert outcome(None, one=2, other=20).sentence == "No rule was given beforehand, so nothing is decided."
    assert "nothing to compare it with" in outcome("better", one=2).sentence


def test_the_table_has_a_row_for_every_configuration() -> None:
    text = sweep_text(outcome("better, common >= 99", one=2, other=14))
    rows = text.splitlines()
    assert rows[0] == "pods: toy, 2 configurations"
    assert rows[4].split()[:5] == ["one", "claude_code", "claude-x", "run-001", "2/20"]
    assert rows[4].endswith("reference")
    assert rows[5].split()[:5] == ["other", "claude_code", "claude-x", "run-002", "14/20"]
    assert "+60.0 points" in rows[5]
    assert rows[5].endswith("not met")
    assert "other against one: 'common >= 99' does not hold, common is 20." in text
    assert rows[-1] == "No configuration meets the rule (better, common >= 99): stay with one."
