"""The best of k tries, against brute force and against a direct simulation."""

import itertools
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.analysis.best_of import best_of_k, mean_best_of_k

SCORES = st.lists(st.floats(-5, 5), min_size=1, max_size=8)


@given(SCORES, st.integers(1, 8))
def test_it_is_the_mean_over_all_sets_of_k_tries(scores: list[float], k: int) -> None:
    if k > len(scores):
        assert best_of_k(scores, k) is None
        return
    sets = list(itertools.combinations(scores, k))
    assert best_of_k(scores, k) == pytest.approx(statistics.fmean(max(one) for one in sets))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_it_is_unbiased_where_a_bootstrap_is_not(k: int) -> None:
    """Runs are drawn from a law that is known, and the best of k is simulated directly."""
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


def test_a_task_with_too_few_tries_leaves_no_mean() -> None:
    assert mean_best_of_k([[0.2, 0.4], [1.0, 0.0]], 2) == pytest.approx(0.7)
    assert mean_best_of_k([[0.2, 0.4], [1.0]], 2) is None
    assert mean_best_of_k([], 1) is None
    assert best_of_k([0.5], 0) is None
