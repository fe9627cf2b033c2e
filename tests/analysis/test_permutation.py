import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from large_libraries import scipy_stats
from proctor.analysis.permutation import SAMPLES, TaskCounts, paired_permutation
from proctor.analysis.significance import exact_mcnemar

counts = st.integers(1, 3).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))
same_number = st.integers(1, 6).flatmap(
    lambda trials: st.tuples(st.integers(0, trials), st.just(trials), st.integers(0, trials), st.just(trials))
)
any_number = st.builds(lambda first, second: (*first, *second), counts, counts)


def swapped(tasks: list[TaskCounts]) -> float:
    """The p-value of scipy, on whole numbers: of rates it would take sums that are equal for different ones."""
    scale = math.lcm(*range(1, 7))
    differences = np.array([now * (scale // second) - was * (scale // first) for was, first, now, second in tasks])
    return float(
        scipy_stats.permutation_test(
            (differences,),
            lambda one: abs(one.sum()),
            permutation_type="samples",
            alternative="greater",
            n_resamples=1e6,
        ).pvalue
    )


def dealt(tasks: list[TaskCounts]) -> float:
    """Every way to deal the trials of each task out to two runs, written out."""
    ways = []
    for was, first, now, second in tasks:
        trials = [1] * (was + now) + [0] * (first + second - was - now)
        firsts = [set(chosen) for chosen in itertools.combinations(range(len(trials)), first)]
        ways.append(
            [
                Fraction(sum(one for n, one in enumerate(trials) if n not in chosen), second)
                - Fraction(sum(trials[n] for n in chosen), first)
                for chosen in firsts
            ]
        )
    nothing = Fraction(0)
    observed = abs(sum((Fraction(now, second) - Fraction(was, first) for was, first, now, second in tasks), nothing))
    sums = [abs(sum(way, nothing)) >= observed for way in itertools.product(*ways)]
    return sum(sums) / len(sums)


@given(st.lists(same_number, min_size=2, max_size=10))
@settings(max_examples=60, deadline=None)
def test_the_p_value_is_that_of_scipy(tasks: list[TaskCounts]) -> None:
    assert paired_permutation(tasks) == pytest.approx(swapped(tasks))


@given(st.lists(any_number, min_size=2, max_size=3))
@settings(max_examples=60, deadline=None)
def test_where_the_numbers_of_trials_differ_the_larger_of_two_p_values_counts(tasks: list[TaskCounts]) -> None:
    expected = swapped(tasks)
    if any(first != second for _, first, _, second in tasks):
        expected = max(expected, dealt(tasks))
    assert paired_permutation(tasks) == pytest.approx(expected)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 5))
def test_with_one_trial_of_each_task_it_is_mcnemars_test(gained: int, lost: int, same: int) -> None:
    tasks = [(0, 1, 1, 1)] * gained + [(1, 1, 0, 1)] * lost + [(1, 1, 1, 1)] * same
    assert paired_permutation(tasks) == pytest.approx(exact_mcnemar(gained, lost))


def test_a_task_that_does_not_differ_changes_nothing() -> None:
    tasks = [(1, 4, 3, 4), (0, 4, 2, 4), (2, 4, 1, 4), (0, 4, 4, 4)]
    assert paired_permutation([*tasks, (2, 4, 2, 4), (1, 3, 1, 3)]) == paired_permutation(tasks)
    assert paired_permutation([(2, 4, 2, 4)] * 20) == 1.0


def test_nothing_to_compare_differs_in_nothing() -> None:
    assert paired_permutation([]) == 1.0


def test_sums_that_are_equal_are_equal_though_rates_are_not_exact_in_binary() -> None:
    """1/3 + 1/3 is as far as 2/3 + 0 is; floats that are summed in another order would not always say so."""
    tasks = [(0, 3, 1, 3)] * 4 + [(0, 3, 2, 3)] * 2 + [(2, 3, 1, 3)] * 2
    assert paired_permutation(tasks) == pytest.approx(swapped(tasks))


@pytest.mark.parametrize("tasks", [50, 400])
def test_large_permutation_tests_are_sampled_reproducibly(tasks: int) -> None:
    draw = np.random.default_rng(tasks)
    chances = draw.beta(0.6, 0.9, tasks)
    first, second = draw.binomial(4, chances), draw.binomial(4, np.clip(chances + 0.05, 0, 1))
    given = [(was, 4, now, 4) for was, now in zip(first.tolist(), second.tolist(), strict=True)]
    exact, sampled = paired_permutation(given), paired_permutation(given, exact_steps=10)
    assert sampled == paired_permutation(given, exact_steps=10)
    assert exact != sampled
    assert abs(exact - sampled) < 4 * math.sqrt(exact * (1 - exact) / SAMPLES) + 1 / SAMPLES


def test_thousands_of_tasks_do_not_overflow_and_no_p_value_is_zero() -> None:
    assert 0 < paired_permutation([(0, 2, 1, 2)] * 1500 + [(0, 2, 2, 2)] * 500, exact_steps=10) <= 1 / SAMPLES
    assert paired_permutation([(0, 2, 1, 2)] * 600 + [(1, 2, 0, 2)] * 600) == pytest.approx(exact_mcnemar(600, 600))
    # More than a count in whole steps can hold: seven to ten trials, of which no two tasks need have the same number.
    odd = [(n % 7, 7 + n % 4, n % 5, 7 + n % 3) for n in range(300)]
    assert 0 < paired_permutation(odd) <= 1


@pytest.mark.parametrize(("tasks", "first", "second"), [(8, 1, 16), (8, 16, 2), (30, 4, 5), (60, 1, 3), (60, 3, 3)])
@pytest.mark.parametrize("difficulty", [(0.6, 0.9), (20, 2)])
def test_two_runs_of_the_same_agent_are_called_different_at_most_one_time_in_twenty(
    tasks: int, first: int, second: int, difficulty: tuple[float, float]
) -> None:
    """Eight tasks that are resolved nine times out of ten, once in one run and 16 times in the other: swapping the
    rates alone would call the runs different one time in three."""
    draw = np.random.default_rng(tasks * first)
    wrong, rounds = 0, 200
    for _ in range(rounds):
        chances = draw.beta(*difficulty, tasks)
        one, other = draw.binomial(first, chances).tolist(), draw.binomial(second, chances).tolist()
        wrong += paired_permutation([(a, first, b, second) for a, b in zip(one, other, strict=True)]) < 0.05
    assert wrong <= rounds * 0.05 + 2 * math.sqrt(rounds * 0.05 * 0.95)
