from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.analysis.pass_at_k import estimate_pass_at_k, pass_at_k, pass_hat_k

SOME = st.lists(st.booleans(), min_size=1, max_size=8)


@given(SOME, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_both_are_the_share_of_all_ways_to_draw_k_answers(marks: list[bool], k: int) -> None:
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


def test_only_tasks_with_k_answers_count() -> None:
    found = estimate_pass_at_k([[True, False], [True], [True, True], []], 2)
    assert found is not None
    assert (found.tasks, found.pass_at_k.value, found.pass_hat_k.value) == (2, 1.0, 0.5)
    assert estimate_pass_at_k([[True]], 2) is None


def test_of_one_answer_both_are_the_rate() -> None:
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
