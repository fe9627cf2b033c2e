import random
import statistics
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.analysis.pass_at_k import best_of_k, estimate_pass_at_k, mean_best_of_k, pass_at_k, pass_hat_k

SOME = st.lists(st.booleans(), min_size=1, max_size=8)
SCORES = st.lists(st.floats(-5, 5), min_size=1, max_size=8)


@given(SOME, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_both_are_the_share_of_all_ways_to_draw_k_trials(marks: list[bool], k: int) -> None:
    if k > len(marks):
        with pytest.raises(ValueError):
            pass_at_k(len(marks), sum(marks), k)
        return
    drawn = list(combinations(marks, k))
    assert pass_at_k(len(marks), sum(marks), k) == pytest.approx(sum(map(any, drawn)) / comb(len(marks), k))
    assert pass_hat_k(len(marks), sum(marks), k) == pytest.approx(sum(map(all, drawn)) / comb(len(marks), k))


@pytest.mark.parametrize(("chance", "k"), [(0.2, 3), (0.7, 2), (0.5, 5)])
def test_both_are_unbiased(chance: float, k: int) -> None:
    draw = np.random.default_rng(1)
    right = draw.binomial(6, chance, 20_000).tolist()
    assert np.mean([pass_at_k(6, count, k) for count in right]) == pytest.approx(1 - (1 - chance) ** k, abs=0.01)
    assert np.mean([pass_hat_k(6, count, k) for count in right]) == pytest.approx(chance**k, abs=0.01)


def test_only_tasks_with_k_trials_count() -> None:
    found = estimate_pass_at_k([[True, False], [True], [True, True], []], 2)
    assert found is not None
    assert (found.tasks, found.pass_at_k.value, found.pass_hat_k.value) == (2, 1.0, 0.5)
    assert estimate_pass_at_k([[True]], 2) is None


def test_with_one_trial_both_are_the_rate() -> None:
    found = estimate_pass_at_k([[True], [False], [True], [False]], 1)
    assert found is not None
    assert found.pass_at_k == found.pass_hat_k
    assert found.pass_at_k.value == 0.5


@pytest.mark.parametrize("k", [1, 3])
def test_95_of_100_intervals_hold_the_truth(k: int) -> None:
    draw = np.random.default_rng(k)
    a, b = 0.7, 1.1
    chances = draw.beta(a, b, 400_000)
    any_of, all_of = (1 - (1 - chances) ** k).mean(), (chances**k).mean()
    held, rounds = np.zeros(2), 2000
    for _ in range(rounds):
        right = draw.binomial(5, draw.beta(a, b, 80)).tolist()
        found = estimate_pass_at_k([[True] * count + [False] * (5 - count) for count in right], k)
        assert found is not None
        held += [
            (found.pass_at_k.low or 0) <= any_of <= (found.pass_at_k.high or 0),
            (found.pass_hat_k.low or 0) <= all_of <= (found.pass_hat_k.high or 0),
        ]
    assert ((held / rounds >= 0.94) & (held / rounds <= 0.96)).all(), held / rounds


@given(SCORES, st.integers(1, 8))
def test_the_best_of_k_is_the_mean_over_all_sets_of_k_trials(scores: list[float], k: int) -> None:
    if k > len(scores):
        assert best_of_k(scores, k) is None
        return
    sets = list(combinations(scores, k))
    assert best_of_k(scores, k) == pytest.approx(statistics.fmean(max(one) for one in sets))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_the_best_of_k_is_unbiased_where_a_bootstrap_is_not(k: int) -> None:
    """Runs are drawn from a known distribution, and the best of k is simulated directly."""
    chance = random.Random(7)

    def run() -> float:
        return chance.choice((0.0, 0.0, 0.0, 0.3, 0.5, 1.2))

    truth = statistics.fmean(max(run() for _ in range(k)) for _ in range(20_000))
    pools = [[run() for _ in range(6)] for _ in range(4_000)]
    estimates = [best_of_k(pool, k) or 0.0 for pool in pools]
    error = statistics.stdev(estimates) / len(estimates) ** 0.5
    assert abs(statistics.fmean(estimates) - truth) < 4 * error + 0.01
    bootstrapped = statistics.fmean(max(chance.choices(pool, k=k)) for pool in pools for _ in range(3))
    assert k == 1 or truth - bootstrapped > 0.02


def test_a_task_with_too_few_trials_leaves_no_mean() -> None:
    assert mean_best_of_k([[0.2, 0.4], [1.0, 0.0]], 2) == pytest.approx(0.7)
    assert mean_best_of_k([[0.2, 0.4], [1.0]], 2) is None
    assert mean_best_of_k([], 1) is None
    assert best_of_k([0.5], 0) is None
