import math
from collections.abc import Callable

import numpy as np
import pytest

from large_libraries import scipy_stats
from proctor.analysis.bootstrap import mean_interval, rate_interval, ratio_interval
from proctor.analysis.intervals import Estimate


def test_the_mean_interval_is_that_of_a_studentised_bootstrap_made_another_way() -> None:
    """Skewed to the right: the arm up is as long as the draws say, the arm down is halfway to the symmetric one."""
    draw = np.random.default_rng(1)
    values = draw.gamma(2.0, 1.0, 80)
    samples = draw.choice(values, (40_000, 80))
    t = (samples.mean(1) - values.mean()) / scipy_stats.sem(samples, axis=1)
    down, up = np.quantile(t, 0.975), -np.quantile(t, 0.025)
    symmetric = np.quantile(abs(t), 0.95)
    assert down < symmetric < up
    found = mean_interval(values.tolist(), resamples=9999)
    assert found is not None
    assert found.value == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - (down + symmetric) / 2 * scipy_stats.sem(values), abs=0.015)
    assert found.high == pytest.approx(values.mean() + up * scipy_stats.sem(values), abs=0.015)


def test_the_interval_turns_round_with_its_values() -> None:
    values = [float(number * number) for number in range(20)]
    found, turned = mean_interval(values), mean_interval([-value for value in values])
    assert found is not None
    assert turned is not None
    assert (turned.low, turned.high) == pytest.approx((-(found.high or 0), -(found.low or 0)))


def test_the_ratio_interval_is_that_of_a_studentised_bootstrap_made_another_way() -> None:
    draw = np.random.default_rng(2)
    hard = draw.gamma(3.0, 1.0, 80)
    first, second = hard * draw.gamma(4.0, 0.25, 80), 3 * hard * draw.gamma(4.0, 0.25, 80)
    ratio = second.mean() / first.mean()

    def error(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        ratios = second.mean(-1, keepdims=True) / first.mean(-1, keepdims=True)
        found: np.ndarray = (second - ratios * first).std(-1) / second.mean(-1) / np.sqrt(80)
        return found

    places = draw.integers(0, 80, (40_000, 80))
    ratios = second[places].mean(1) / first[places].mean(1)
    t = np.log(ratios / ratio) / error(first[places], second[places])
    down, up, symmetric = np.quantile(t, 0.975), -np.quantile(t, 0.025), np.quantile(abs(t), 0.95)
    arms = [max(arm, (arm + symmetric) / 2) * error(first, second) for arm in (down, up)]
    found = ratio_interval(list(zip(first.tolist(), second.tolist(), strict=True)), resamples=9999)
    assert found is not None
    assert found.value == pytest.approx(ratio)
    assert (found.low, found.high) == pytest.approx((ratio * np.exp(-arms[0]), ratio * np.exp(arms[1])), rel=0.01)


def test_a_ratio_is_as_sure_as_its_reciprocal() -> None:
    pairs = [(float(number + 1), float(number * number % 17 + 1)) for number in range(20)]
    found, turned = ratio_interval(pairs), ratio_interval([(second, first) for first, second in pairs])
    assert found is not None
    assert turned is not None
    assert (turned.low, turned.high) == pytest.approx((1 / (found.high or 0), 1 / (found.low or 0)))


def test_rounding_errors_do_not_widen_an_interval() -> None:
    found = ratio_interval([(number / 7, 0.3 * number / 7) for number in range(1, 30)])
    assert found is not None
    assert found.low == found.value == found.high == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ([], None),
        ([(0.0, 1.0)] * 12, None),
        ([(1.0, 0.0)] * 12, None),
        ([(1.0, 2.0)], Estimate(value=2.0)),
        ([(1.0, 2.0), (3.0, 1.0)] * 4, Estimate(value=0.75)),
        ([(1.0, 3.0), (2.0, 6.0)], Estimate(value=3.0, low=3.0, high=3.0)),
        ([(0.0, 1.0)] * 11 + [(1.0, 1.0)], Estimate(value=12.0)),  # in a third of all draws the first run is free
    ],
)
def test_a_ratio_without_a_positive_mean_is_none(pairs: list[tuple[float, float]], found: Estimate | None) -> None:
    assert ratio_interval(pairs) == found


def test_the_rate_interval_is_that_of_scipys_percentile_bootstrap_with_two_artificial_tasks() -> None:
    differences = [1.0] * 12 + [-1.0] * 5 + [0.0] * 63
    expected = scipy_stats.bootstrap(
        ([*differences, 1.0, -1.0],),
        np.mean,
        method="percentile",
        n_resamples=9999,
        rng=np.random.default_rng(2),
    ).confidence_interval
    found = rate_interval(differences, resamples=9999)
    assert found is not None
    assert found.value == pytest.approx(7 / 80)
    assert found.low == pytest.approx(expected.low, abs=0.013)
    assert found.high == pytest.approx(expected.high, abs=0.013)


def test_runs_that_agree_on_ten_tasks_may_still_differ() -> None:
    found = rate_interval([0.0] * 10)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < -0.1
    assert found.high > 0.1
    many = rate_interval([0.0] * 2000)
    assert many is not None
    assert many.low == pytest.approx(0, abs=0.002)


def test_the_same_data_give_the_same_interval() -> None:
    values = [float(number * number) for number in range(20)]
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval(values) != mean_interval(values, seed=1)
    assert rate_interval([1.0, 0.0, -1.0]) == rate_interval([1.0, 0.0, -1.0])


def test_too_few_values_have_no_interval() -> None:
    assert mean_interval([]) is None
    assert rate_interval([]) is None
    one = mean_interval([3.0])
    assert one is not None
    assert (one.value, one.low, one.high) == (3.0, None, None)
    nine = mean_interval([1.0, 2.0] * 4 + [1.5])
    assert nine is not None
    assert (nine.value, nine.low) == (1.5, None)
    lone = mean_interval([0.0] * 9 + [5.0])  # in a third of all draws there is no spread at all
    assert lone is not None
    assert (lone.value, lone.low) == (0.5, None)
    equal = mean_interval([2.0, 2.0, 2.0])
    assert equal is not None
    assert (equal.low, equal.high) == (2.0, 2.0)


def test_large_values_that_differ_little_keep_their_digits() -> None:
    values = [1e9 + step / 10 for step in range(50)]
    found, small = mean_interval(values), mean_interval([value - 1e9 for value in values])
    assert found is not None
    assert small is not None
    assert found.low == pytest.approx(1e9 + (small.low or 0), abs=1e-3)


def test_the_interval_of_a_difference_in_rate_holds_the_truth() -> None:
    tasks = 40
    draw = np.random.default_rng(tasks)
    held, rounds = 0, 2000
    for _ in range(rounds):
        gained, lost = draw.uniform(0.05, 0.3), draw.uniform(0.05, 0.3)
        flips = draw.choice([1.0, -1.0, 0.0], tasks, p=[gained, lost, 1 - gained - lost])
        found = rate_interval(flips.tolist(), resamples=199)
        assert found is not None
        held += (found.low or 0) <= gained - lost <= (found.high or 0)
    assert 0.94 <= held / rounds <= 0.96


def held(differences: Callable[[], list[float]], truth: float) -> float:
    """In how many of 2,000 simulated benchmarks the interval of a mean difference holds the truth."""
    found = [mean_interval(differences(), resamples=199) for _ in range(2000)]
    return float(np.mean([one is not None and (one.low or 0) <= truth <= (one.high or 0) for one in found]))


@pytest.mark.parametrize(("dearer", "tasks"), [(3.0, 30), pytest.param(1.2, 60, marks=pytest.mark.long)])
def test_the_interval_of_a_difference_in_cost_holds_the_truth(dearer: float, tasks: int) -> None:
    """Costs are skewed, those of one task are alike in both runs, and their differences have heavy tails."""
    draw = np.random.default_rng(6)

    def differences() -> list[float]:
        hard = draw.gamma(3.0, 1.0, tasks)
        found: list[float] = (hard * (dearer * draw.gamma(4.0, 0.25, tasks) - draw.gamma(4.0, 0.25, tasks))).tolist()
        return found

    assert 0.94 <= held(differences, 3.0 * (dearer - 1)) <= 0.96


@pytest.mark.long
def test_the_interval_of_a_difference_without_skew_holds_the_truth() -> None:
    draw = np.random.default_rng(7)
    assert 0.94 <= held(lambda: draw.normal(0.3, 1.0, 30).tolist(), 0.3) <= 0.96


@pytest.mark.long
def test_with_lognormal_costs_few_tasks_hold_less_than_95_percent_as_documented() -> None:
    """The task in a hundred that costs ten times the median is often not among so few, and nothing tells of it."""
    tasks = 30
    draw = np.random.default_rng(8)

    def differences() -> list[float]:
        hard = draw.lognormal(0.0, 1.0, tasks)
        found: list[float] = (hard * (3.0 * draw.gamma(4.0, 0.25, tasks) - draw.gamma(4.0, 0.25, tasks))).tolist()
        return found

    assert 0.91 <= held(differences, 2 * math.exp(0.5)) <= 0.94


@pytest.mark.parametrize(
    ("dearer", "alike", "least"),
    [(1.2, False, 0.94), pytest.param(3.0, True, 0.93, marks=pytest.mark.long)],
)
def test_the_interval_of_a_ratio_of_costs_holds_the_truth(dearer: float, alike: bool, least: float) -> None:
    """Where the costs of a task are alike in both runs, and where they are not."""
    draw = np.random.default_rng(9)
    kept, tasks = 0, 30
    for _ in range(2000):
        hard = draw.lognormal(0.0, 1.0, tasks) if alike else np.ones(tasks)
        first, second = hard * draw.gamma(2.0, 0.5, tasks), dearer * hard * draw.gamma(2.0, 0.5, tasks)
        found = ratio_interval(list(zip(first.tolist(), second.tolist(), strict=True)), resamples=199)
        kept += found is not None and (found.low or 0) <= dearer <= (found.high or 0)
    assert least <= kept / 2000 <= 0.96
