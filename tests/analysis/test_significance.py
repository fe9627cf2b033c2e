import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from large_libraries import scipy_stats, statsmodels_multitest, statsmodels_tables
from proctor.analysis.significance import (
    PairedSpread,
    exact_mcnemar,
    fisher_exact,
    format_p_value,
    holm,
    minimum_detectable_difference,
    tasks_needed,
)


def spread_of_flips(gained: float, lost: float) -> PairedSpread:
    """One trial of each task, if these shares of the tasks flip."""
    return PairedSpread(mean=gained - lost, mean_square=gained + lost, differing=gained + lost)


@given(gained=st.integers(0, 60), lost=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_the_p_value_is_that_of_two_libraries(gained: int, lost: int) -> None:
    expected = scipy_stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert exact_mcnemar(gained, lost) == pytest.approx(expected)
    if gained + lost:
        assert exact_mcnemar(gained, lost) == pytest.approx(
            statsmodels_tables.mcnemar([[5, gained], [lost, 7]], exact=True).pvalue
        )


def test_thousands_of_flips_do_not_overflow() -> None:
    assert exact_mcnemar(2000, 2000) == 1.0
    assert exact_mcnemar(1000, 2000) == pytest.approx(scipy_stats.binomtest(1000, 3000).pvalue)


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_fishers_test_is_that_of_scipy(group: tuple[int, int], other: int) -> None:
    tasks, resolved = group
    expected = scipy_stats.fisher_exact([[resolved, tasks - resolved], [other, 30 - other]]).pvalue
    assert fisher_exact(resolved, tasks, other, 30) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_holms_correction_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(statsmodels_multitest.multipletests(p_values, method="holm")[1])


def test_among_five_runs_of_the_same_agent_one_is_called_different_at_most_one_time_in_twenty() -> None:
    """2,000 simulated benchmarks; without the correction, one time in ten."""
    draw = np.random.default_rng(11)
    wrong = plain = 0
    for _ in range(2000):
        marks = draw.random((5, 80)) < draw.beta(0.6, 0.9, 80)
        gained, lost = (marks[1:] & ~marks[0]).sum(1).tolist(), (marks[0] & ~marks[1:]).sum(1).tolist()
        p_values = [exact_mcnemar(*flips) for flips in zip(gained, lost, strict=True)]
        plain += min(p_values) < 0.05
        wrong += min(holm(p_values)) < 0.05
    assert wrong <= 100 < plain


def test_of_no_p_values_there_is_nothing_to_correct() -> None:
    assert holm([]) == ()


@pytest.mark.parametrize(("gained", "lost"), [(0.15, 0.05), (0.30, 0.20), (0.08, 0.01), (0.40, 0.10)])
def test_so_many_tasks_show_the_difference_four_times_in_five(gained: float, lost: float) -> None:
    """The power of the exact test at that many tasks, summed over every number of flips and every split of them."""
    tasks = tasks_needed(spread_of_flips(gained, lost))
    assert tasks is not None
    assert tasks_needed(spread_of_flips(lost, gained)) == tasks
    share = gained / (gained + lost)
    flips = np.arange(1, tasks + 1)
    chance = scipy_stats.binom.pmf(flips, tasks, gained + lost)
    power = 0.0
    for number, weight in zip(flips, chance, strict=True):
        if weight > 1e-9:
            splits = np.arange(number + 1)
            shown = [exact_mcnemar(int(one), int(number - one)) < 0.05 and one * 2 > number for one in splits]
            power += weight * scipy_stats.binom.pmf(splits, number, share)[shown].sum()
    # The formula is for the test without the exactness, which costs a little.
    assert 0.70 < power < 0.83


def test_connors_formula_worked_by_hand() -> None:
    """(1.959964 · √0.375 + 1.281552 · √(0.375 - 0.125²))² / 0.125² = 3.874961 / 0.015625 = 247.9975."""
    assert tasks_needed(spread_of_flips(0.25, 0.125), power=0.9) == 248


def test_too_few_flips_show_nothing_however_one_sided() -> None:
    assert exact_mcnemar(5, 0) > 0.05 > exact_mcnemar(6, 0)
    assert tasks_needed(spread_of_flips(1.0, 0.0)) == 6
    assert tasks_needed(spread_of_flips(0.5, 0.0)) == 14


def test_no_difference_takes_no_number_of_tasks() -> None:
    assert tasks_needed(spread_of_flips(0.1, 0.1)) is None


@given(st.floats(0.05, 0.6), st.integers(50, 3000))
def test_the_minimum_detectable_difference_needs_just_these_tasks(flips: float, tasks: int) -> None:
    spread = spread_of_flips(flips, 0.0)
    smallest = minimum_detectable_difference(spread, tasks)
    if smallest is None:
        assert (tasks_needed(spread) or 0) > tasks
        return
    needed = tasks_needed(replace(spread, mean=smallest))
    assert needed is not None
    assert needed <= tasks
    assert (tasks_needed(replace(spread, mean=smallest * 0.97)) or 0) > tasks * 0.99


def test_without_flips_nothing_is_detectable() -> None:
    assert minimum_detectable_difference(spread_of_flips(0.0, 0.0), 100) is None


@pytest.mark.parametrize(
    ("p_value", "words"),
    [
        (1.0, "p = 1.000"),
        (0.0127, "p = 0.013"),
        (0.0496, "p = 0.0496"),  # three digits would say 0.050 of what is shown
        (0.0504, "p = 0.050"),
        (0.04999996, "p = 0.04999996"),
        (0.05, "p = 0.050"),
        (0.0004, "p < 0.001"),
        (0.0, "p < 0.001"),
    ],
)
def test_a_p_value_is_never_zero_and_never_rounded_across_5_percent(p_value: float, words: str) -> None:
    assert format_p_value(p_value) == words
