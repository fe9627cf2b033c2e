import pytest

from observations import flipped, make_observation, make_observations
from proctor.analysis import compare, decide, parse_rule
from proctor.analysis.gate import MEASURES
from proctor.analysis.paired import Comparison
from proctor.core.errors import UsageError

BETTER = compare(*flipped(9, 0, 40), names=("old", "new"))
WORSE = compare(*flipped(0, 9, 40), names=("old", "new"))
ALIKE = compare(*flipped(3, 3, 40), names=("old", "new"))
CLOSE = compare(*flipped(2, 2, 1996), names=("old", "new"), resamples=199)
EXPENSIVE = compare(
    make_observations(a="+", b="-"),
    [make_observation("a", "+", cost=1.5, seconds=30), make_observation("b", "-", cost=1.5, seconds=30)],
    names=("old", "new"),
)
FREE = compare([make_observation("a", cost=None)], [make_observation("a", cost=None)], names=("old", "new"))


@pytest.mark.parametrize(
    ("rule", "comparison", "holds"),
    [
        ("better", BETTER, True),
        ("better", ALIKE, False),
        ("better", WORSE, False),
        ("not worse", BETTER, True),
        ("not worse", ALIKE, True),
        ("not worse", WORSE, False),
        ("not worse by 2%", CLOSE, True),
        ("not worse by 2%", ALIKE, False),  # 46 tasks cannot rule so small a loss out
        ("better by 5%", BETTER, True),
        ("better by 15%", BETTER, False),
        ("p < 0.01", BETTER, True),
        ("p<0.001", BETTER, False),
        ("rate >= 50%, gain > 0", BETTER, True),
        ("rate >= 0.5 , gain > 10 %,lost = 0", BETTER, True),
        ("common >= 50", BETTER, False),
        ("cost ratio <= 1.5", EXPENSIVE, True),
        ("cost <= $1.49", EXPENSIVE, False),
        ("TIME  RATIO < 0.6, Seconds = 30", EXPENSIVE, True),
        ("cost ratio < 2", FREE, False),
        ("errors = 0, findings = 0", ALIKE, True),
    ],
)
def test_a_rule_holds_or_does_not(rule: str, comparison: Comparison, holds: bool) -> None:
    assert decide(parse_rule(rule), comparison).passed is holds


def test_a_decision_names_each_condition_that_does_not_hold() -> None:
    decision = decide(parse_rule("not worse, rate >= 90%, cost ratio <= 1.1"), EXPENSIVE)
    assert decision.sentence == (
        "new against old: 'rate >= 90%' does not hold, rate is 50%; "
        "'cost ratio <= 1.1' does not hold, cost ratio is 1.5."
    )
    assert [outcome.holds for outcome in decision.clause_results] == [True, False, False]
    assert decide(parse_rule("better"), WORSE).sentence == (
        "new against old: 'better' does not hold, shown to be worse."
    )


def test_an_unknown_measure_meets_no_bound() -> None:
    decision = decide(parse_rule("cost < 9"), FREE)
    assert decision.sentence == "new against old: 'cost < 9' does not hold, since cost is unknown."
    nothing_common = decide(parse_rule("not worse"), compare([], [], names=("old", "new")))
    assert nothing_common.passed is False
    assert nothing_common.sentence == "new against old: 'not worse' does not hold, since no graded task is in common."


def test_a_rule_that_holds_says_so() -> None:
    assert decide(parse_rule("not  worse"), ALIKE).sentence == "new against old: the rule holds (not worse)."


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_can_be_used(name: str) -> None:
    (outcome,) = decide(parse_rule(f"{name} >= -1"), EXPENSIVE).clause_results
    assert outcome.value is not None
    assert outcome.holds


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "a rule has an empty condition"),
        ("better,", "a rule has an empty condition"),
        ("best", "'best' is not a condition"),
        ("verdict >= 1", "'verdict >= 1' is not a condition"),
        ("conclusion >= 1", "'conclusion >= 1' is not a condition"),
        ("cost <= much", "'much' in 'cost <= much' is not a number"),
        ("better by", "'better by' is not a condition"),
        ("better by far", "'far' in 'better by far' is not a number"),
        ("rate >= 3 % 4", "'3 % 4' in 'rate >= 3 % 4' is not a number"),
        ("not worse by 2", "'2' in 'not worse by 2' is more than the whole"),  # would always hold
        ("better by 2", "'2' in 'better by 2' is more than the whole"),  # never
        ("better by -2%", "'-2%' in 'better by -2%' has a sign"),
        ("rate >= 50", "'50' in 'rate >= 50' is more than the whole"),
        ("p < 5", "'5' in 'p < 5' is more than the whole"),
        ("errors <= 5%", "'5%' in 'errors <= 5%': errors takes no percentage"),
    ],
)
def test_an_invalid_rule_is_refused_with_advice(rule: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_rule(rule)
    assert error.value.what == message
    assert error.value.fix
