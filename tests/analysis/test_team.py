import numpy as np
import pytest

from observations import answers, seen
from proctor.analysis.passes import passes
from proctor.analysis.team import best_of, team_verdict


def test_with_enough_answers_the_best_of_n_is_pass_at_n() -> None:
    tasks = [[True, False, False], [False, False, False], [True, True, False]]
    two, found = passes(tasks, 2), best_of(tasks, 2.0)
    assert two is not None
    assert found is not None
    assert found.exact
    assert found.low == found.high == two.any_of


def test_between_whole_numbers_the_money_buys_a_mixture() -> None:
    tasks = [[True, False, False], [False, False, False], [True, True, False]]
    one, two, found = passes(tasks, 1), passes(tasks, 2), best_of(tasks, 1.25)
    assert one is not None
    assert two is not None
    assert found is not None
    assert found.low.value == pytest.approx(0.75 * one.any_of.value + 0.25 * two.any_of.value)


@pytest.mark.parametrize(("samples", "n"), [(1, 3.0), (2, 5.0), (2, 2.5), (4, 9.0)])
def test_with_too_few_answers_the_truth_is_between_the_bounds(samples: int, n: float) -> None:
    draw = np.random.default_rng(3)
    chances = draw.beta(0.5, 1.0, 20_000)
    marks = (draw.random((20_000, samples)) < chances[:, None]).tolist()
    found = best_of(marks, n)
    assert found is not None
    assert not found.exact
    assert found.low.value < (1 - (1 - chances) ** n).mean() < found.high.value


def test_there_is_no_best_of_less_than_one() -> None:
    with pytest.raises(ValueError):
        best_of([[True]], 0.5)
    assert best_of([], 2.0) is None


def test_a_team_that_beats_whatever_the_money_could_buy_is_worth_it() -> None:
    team = [seen(f"t{n}", "+" if n < 190 else "-", cost=2.0) for n in range(200)]
    single = [seen(f"t{n}", "+" if n < 60 else "-", cost=1.0) for n in range(200)]
    found = team_verdict(("pod", team), ("alone", single))
    assert found is not None
    assert found.verdict == 1
    assert found.sentence == (
        "The team is worth it: pod resolves 95% at $2.00 a task; the same money buys 2.0 answers of alone, of which "
        "the best resolves 30% to 51% (bounds from one answer to each task, a perfect judge choosing among 2.0)."
    )


def test_a_team_that_is_no_better_than_what_it_costs_is_not() -> None:
    team = [seen(f"t{n}", "+" if n < 60 else "-", cost=3.0) for n in range(200)]
    single = [seen(f"t{n}", "+-"[(n + s) % 2], cost=1.0, sample=s) for n in range(200) for s in (1, 2, 3, 4)]
    found = team_verdict(("pod", team), ("alone", single))
    assert found is not None
    assert (found.verdict, found.best_of.exact, found.best_of.low.value) == (-1, True, 1.0)
    assert found.sentence.startswith("The team is not worth it: pod resolves 30%")


def test_few_tasks_cannot_say() -> None:
    team = [seen("a", cost=0.02), seen("b", cost=0.02), seen("c", "-", cost=0.02)]
    single = [seen("a", cost=0.01), seen("b", "-", cost=0.01), seen("c", "-", cost=0.01)]
    found = team_verdict(("pod", team), ("alone", single))
    assert found is not None
    assert found.verdict == 0
    assert found.sentence.startswith(
        "These data cannot say if the team is worth it: pod resolves 67% at $0.0200 a task"
    )


def test_a_team_that_costs_no_more_than_one_answer_leaves_nothing_to_weigh() -> None:
    team = [seen(f"t{n}", "-", cost=0.05) for n in range(4)]
    single = [seen(f"t{n}", cost=2.0) for n in range(4)]
    found = team_verdict(("pod", team), ("alone", single))
    assert found is not None
    assert found.verdict == 0  # whether it is worse on four tasks is for the paired test to say
    assert found.sentence == (
        "pod costs no more than one answer of alone ($0.0500 and $2.00 a task): the money buys no second try."
    )


def test_without_prices_or_common_tasks_there_is_nothing_to_hold_against() -> None:
    assert team_verdict(("pod", [seen("a", cost=None)]), ("alone", answers(a="+"))) is None
    assert team_verdict(("pod", answers(a="+")), ("alone", [seen("a", cost=0.0)])) is None
    assert team_verdict(("pod", answers(a="+")), ("alone", answers(b="+"))) is None
