import numpy as np
import pytest

from observations import answers, seen
from proctor.analysis.pass_at_k import estimate_pass_at_k
from proctor.analysis.team import best_of_n, compare_team


def test_with_enough_answers_the_best_of_n_is_pass_at_n() -> None:
    tasks = [[True, False, False], [False, False, False], [True, True, False]]
    two, found = estimate_pass_at_k(tasks, 2), best_of_n(tasks, 2.0)
    assert two is not None
    assert found is not None
    assert found.exact
    assert found.low == found.high == two.pass_at_k


def test_between_whole_numbers_the_money_buys_a_mixture() -> None:
    tasks = [[True, False, False], [False, False, False], [True, True, False]]
    one, two, found = estimate_pass_at_k(tasks, 1), estimate_pass_at_k(tasks, 2), best_of_n(tasks, 1.25)
    assert one is not None
    assert two is not None
    assert found is not None
    assert found.low.value == pytest.approx(0.75 * one.pass_at_k.value + 0.25 * two.pass_at_k.value)


@pytest.mark.parametrize(("samples", "n"), [(1, 3.0), (2, 5.0), (2, 2.5), (4, 9.0)])
def test_with_too_few_answers_the_truth_is_between_the_bounds(samples: int, n: float) -> None:
    draw = np.random.default_rng(3)
    chances = draw.beta(0.5, 1.0, 20_000)
    marks = (draw.random((20_000, samples)) < chances[:, None]).tolist()
    found = best_of_n(marks, n)
    assert found is not None
    assert not found.exact
    assert found.low.value < (1 - (1 - chances) ** n).mean() < found.high.value


@pytest.mark.parametrize(("samples", "n", "most"), [(5, 2.5, 0.96), (3, 2.0, 0.96), (2, 5.0, 1.0)])
def test_95_of_100_intervals_of_the_best_of_n_hold_the_truth(samples: int, n: float, most: float) -> None:
    """2,000 simulated benchmarks; of bounds, from the lower end of the lower one to the upper end of the upper one."""
    draw = np.random.default_rng(4)
    every = draw.beta(0.7, 1.1, 400_000)
    chances = [1 - (1 - every) ** k for k in (int(n), int(n) + 1)]
    truth = chances[0].mean() * (1 - n % 1) + chances[1].mean() * (n % 1)
    held = 0
    for _ in range(2000):
        right = draw.binomial(samples, draw.beta(0.7, 1.1, 80)).tolist()
        found = best_of_n([[True] * count + [False] * (samples - count) for count in right], n)
        assert found is not None
        held += (found.low.low or 0) <= truth <= (found.high.high or 0)
    assert 0.94 <= held / 2000 <= most


def test_there_is_no_best_of_less_than_one() -> None:
    with pytest.raises(ValueError):
        best_of_n([[True]], 0.5)
    assert best_of_n([], 2.0) is None


def test_a_team_that_beats_whatever_the_money_could_buy_is_worth_it() -> None:
    team = [seen(f"t{n}", "+" if n < 190 else "-", cost=2.0) for n in range(200)]
    single = [seen(f"t{n}", "+" if n < 60 else "-", cost=1.0) for n in range(200)]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert found.conclusion == 1
    assert found.sentence == (
        "The team is worth it: pod resolves 95% at $2.00 a task; the same money buys 2.0 answers of alone, of which "
        "the best resolves 30% to 51% (bounds from one answer to each task, a perfect judge choosing among 2.0)."
    )


def test_a_team_that_is_no_better_than_what_it_costs_is_not() -> None:
    team = [seen(f"t{n}", "+" if n < 60 else "-", cost=3.0) for n in range(200)]
    single = [seen(f"t{n}", "+-"[(n + s) % 2], cost=1.0, sample=s) for n in range(200) for s in (1, 2, 3, 4)]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert (found.conclusion, found.best_of.exact, found.best_of.low.value) == (-1, True, 1.0)
    assert found.sentence.startswith("The team is not worth it: pod resolves 30%")


def test_few_tasks_cannot_say() -> None:
    team = [seen("a", cost=0.02), seen("b", cost=0.02), seen("c", "-", cost=0.02)]
    single = [seen("a", cost=0.01), seen("b", "-", cost=0.01), seen("c", "-", cost=0.01)]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert found.conclusion == 0
    assert found.sentence.startswith(
        "These data cannot say if the team is worth it: pod resolves 67% at $0.0200 a task"
    )


def test_a_team_that_costs_no_more_than_one_answer_leaves_nothing_to_weigh() -> None:
    team = [seen(f"t{n}", "-", cost=0.05) for n in range(4)]
    single = [seen(f"t{n}", cost=2.0) for n in range(4)]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert found.conclusion == 0  # whether it is worse on four tasks is for the paired test to say
    assert found.sentence == (
        "pod costs no more than one answer of alone ($0.0500 and $2.00 a task): the money buys no second try."
    )


def test_without_prices_or_common_tasks_there_is_nothing_to_hold_against() -> None:
    assert compare_team(("pod", [seen("a", cost=None)]), ("alone", answers(a="+"))) is None
    assert compare_team(("pod", answers(a="+")), ("alone", [seen("a", cost=0.0)])) is None
    assert compare_team(("pod", answers(a="+")), ("alone", answers(b="+"))) is None
