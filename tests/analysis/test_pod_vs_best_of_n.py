import numpy as np
import pytest

from observations import make_observation, make_observations
from proctor.analysis.pass_at_k import estimate_pass_at_k
from proctor.analysis.pod_vs_best_of_n import best_of_n, compare_team


def test_with_enough_trials_the_best_of_n_is_pass_at_n() -> None:
    tasks = [[True, False, False], [False, False, False], [True, True, False]]
    two, found = estimate_pass_at_k(tasks, 2), best_of_n(tasks, 2.0)
    assert two is not None
    assert found is not None
    assert found.exact
    assert found.low == found.high == two.pass_at_k


def test_a_fractional_n_mixes_the_neighbouring_whole_numbers() -> None:
    tasks = [[True, False, False], [False, False, False], [True, True, False]]
    one, two, found = estimate_pass_at_k(tasks, 1), estimate_pass_at_k(tasks, 2), best_of_n(tasks, 1.25)
    assert one is not None
    assert two is not None
    assert found is not None
    assert found.low.value == pytest.approx(0.75 * one.pass_at_k.value + 0.25 * two.pass_at_k.value)


@pytest.mark.parametrize(("trials", "n"), [(1, 3.0), (2, 5.0), (2, 2.5), (4, 9.0)])
def test_with_too_few_trials_the_truth_is_between_the_bounds(trials: int, n: float) -> None:
    draw = np.random.default_rng(3)
    chances = draw.beta(0.5, 1.0, 20_000)
    marks = (draw.random((20_000, trials)) < chances[:, None]).tolist()
    found = best_of_n(marks, n)
    assert found is not None
    assert not found.exact
    assert found.low.value < (1 - (1 - chances) ** n).mean() < found.high.value


@pytest.mark.parametrize(("trials", "n", "most"), [(5, 2.5, 0.96), (3, 2.0, 0.96), (2, 5.0, 1.0)])
def test_95_of_100_intervals_of_the_best_of_n_hold_the_truth(trials: int, n: float, most: float) -> None:
    """2,000 simulated benchmarks; of bounds, from the lower end of the lower one to the upper end of the upper one."""
    draw = np.random.default_rng(4)
    every = draw.beta(0.7, 1.1, 400_000)
    chances = [1 - (1 - every) ** k for k in (int(n), int(n) + 1)]
    truth = chances[0].mean() * (1 - n % 1) + chances[1].mean() * (n % 1)
    held = 0
    for _ in range(2000):
        right = draw.binomial(trials, draw.beta(0.7, 1.1, 80)).tolist()
        found = best_of_n([[True] * count + [False] * (trials - count) for count in right], n)
        assert found is not None
        held += (found.low.low or 0) <= truth <= (found.high.high or 0)
    assert 0.94 <= held / 2000 <= most


def test_there_is_no_best_of_less_than_one() -> None:
    with pytest.raises(ValueError):
        best_of_n([[True]], 0.5)
    assert best_of_n([], 2.0) is None


def test_a_team_that_is_better_than_the_best_of_n_is_worth_it() -> None:
    team = [make_observation(f"t{n}", "+" if n < 190 else "-", cost=2.0) for n in range(200)]
    single = [make_observation(f"t{n}", "+" if n < 60 else "-", cost=1.0) for n in range(200)]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert found.conclusion == 1
    assert found.sentence == (
        "The team is worth it: pod resolves 95.0% at $2.00 a task; the same money buys 2.0 trials of alone, of which "
        "the best resolves 30.0% to 51.0% (bounds from one trial of each task, selected by an oracle)."
    )


def test_a_team_that_is_worse_than_the_best_of_n_is_not_worth_it() -> None:
    team = [make_observation(f"t{n}", "+" if n < 60 else "-", cost=3.0) for n in range(200)]
    single = [make_observation(f"t{n}", "+-"[(n + s) % 2], cost=1.0, trial=s) for n in range(200) for s in (1, 2, 3, 4)]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert (found.conclusion, found.best_of.exact, found.best_of.low.value) == (-1, True, 1.0)
    assert found.sentence.startswith("The team is not worth it: pod resolves 30.0%")


def test_few_tasks_cannot_say() -> None:
    team = [make_observation("a", cost=0.02), make_observation("b", cost=0.02), make_observation("c", "-", cost=0.02)]
    single = [
        make_observation("a", cost=0.01),
        make_observation("b", "-", cost=0.01),
        make_observation("c", "-", cost=0.01),
    ]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert found.conclusion == 0
    assert found.sentence.startswith(
        "These data cannot say if the team is worth it: pod resolves 66.7% at $0.0200 a task"
    )


def test_a_team_that_costs_no_more_than_one_trial_is_not_compared_with_several() -> None:
    team = [make_observation(f"t{n}", "-", cost=0.05) for n in range(4)]
    single = [make_observation(f"t{n}", cost=2.0) for n in range(4)]
    found = compare_team(("pod", team), ("alone", single))
    assert found is not None
    assert found.conclusion == 0  # whether it is worse on four tasks is for the paired test to say
    assert found.sentence == (
        "pod costs no more than one trial of alone ($0.0500 and $2.00 a task): the money buys no second trial."
    )


def test_without_prices_or_common_tasks_there_is_no_comparison() -> None:
    assert compare_team(("pod", [make_observation("a", cost=None)]), ("alone", make_observations(a="+"))) is None
    assert compare_team(("pod", make_observations(a="+")), ("alone", [make_observation("a", cost=0.0)])) is None
    assert compare_team(("pod", make_observations(a="+")), ("alone", make_observations(b="+"))) is None
