import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from large_libraries import scipy_stats, statsmodels_linear
from proctor.analysis.intervals import (
    Estimate,
    Interval,
    clustered_error,
    clustered_mean,
    clustered_rate,
    log_scale_mean,
    ratio_of_sums,
    t_value,
    wilson,
)

TRIALS = st.integers(1, 5000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


@given(TRIALS, st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]))
def test_wilson_is_what_scipy_says(counted: tuple[int, int], confidence: float) -> None:
    successes, trials = counted
    ours = wilson(successes, trials, confidence=confidence)
    theirs = scipy_stats.binomtest(successes, trials).proportion_ci(confidence_level=confidence, method="wilson")
    assert ours is not None
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@given(TRIALS)
def test_the_rate_is_inside_and_the_interval_within_0_and_1(counted: tuple[int, int]) -> None:
    successes, trials = counted
    interval = wilson(successes, trials)
    assert interval is not None
    assert 0 <= interval.low <= successes / trials <= interval.high <= 1


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [  # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_is_what_was_published(successes: int, trials: int, low: float, high: float) -> None:
    interval = wilson(successes, trials)
    assert interval is not None
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_without_trials_there_is_no_interval() -> None:
    assert wilson(0, 0) is None


def test_the_ends_are_exact() -> None:
    none, every = wilson(0, 7), wilson(7, 7)
    assert isinstance(none, Interval)
    assert isinstance(every, Interval)
    assert (none.low, every.high) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials", "confidence"), [(2, 1, 0.95), (-1, 1, 0.95), (1, 1, 1.0), (1, 1, 0.0)])
def test_impossible_counts_are_refused(successes: int, trials: int, confidence: float) -> None:
    with pytest.raises(ValueError):
        wilson(successes, trials, confidence=confidence)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 30, 500])
def test_students_quantile_is_what_scipy_says(degrees: int) -> None:
    assert t_value(degrees) == pytest.approx(scipy_stats.t.ppf(0.975, degrees), rel=0.002)
    assert t_value(degrees, 0.8) == pytest.approx(scipy_stats.t.ppf(0.9, degrees), rel=0.002)


def bounds(estimate: Estimate | None) -> tuple[float, float, float]:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.value, estimate.low, estimate.high


CLUSTERS = st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=5), min_size=2, max_size=30)


@given(CLUSTERS)
@settings(max_examples=60, deadline=None)
def test_the_clustered_error_is_that_of_statsmodels(clusters: list[list[float]]) -> None:
    values = [value for group in clusters for value in group]
    groups = [number for number, group in enumerate(clusters) for _ in group]
    assume(len(values) > 2)
    fitted = statsmodels_linear.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": groups})
    assert clustered_error(clusters) == pytest.approx(fitted.bse[0], abs=1e-9)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=60))
def test_with_one_trial_of_each_task_the_interval_is_wilsons(marks: list[float]) -> None:
    expected = wilson(int(sum(marks)), len(marks))
    assert expected is not None
    assert bounds(clustered_rate([[mark] for mark in marks]))[1:] == (expected.low, expected.high)


def test_trials_that_only_repeat_themselves_add_nothing() -> None:
    once = bounds(clustered_rate([[1.0]] * 6 + [[0.0]] * 14))
    again = bounds(clustered_rate([[1.0] * 5] * 6 + [[0.0] * 5] * 14))
    assert again == pytest.approx(once, abs=0.01)
    assert bounds(clustered_rate([[1.0] * 9] * 7))[1] == bounds(clustered_rate([[1.0]] * 7))[1]


def test_trials_that_do_not_depend_on_their_task_count_in_full() -> None:
    values = [[float((task * 7 + sample * 3) % 5 < 2) for sample in range(5)] for task in range(40)]
    assert bounds(clustered_rate(values)) == pytest.approx(
        bounds(clustered_rate([[one] for row in values for one in row]))
    )


def test_the_mean_of_any_values_has_the_interval_of_statsmodels() -> None:
    values, groups = [[-1.0, 2.5], [1.7], [0.4, 0.4, 3.0], [1.1]], [0, 0, 1, 2, 2, 2, 3]
    flat = [value for group in values for value in group]
    fitted = statsmodels_linear.OLS(flat, np.ones(len(flat))).fit(
        cov_type="cluster", cov_kwds={"groups": groups}, use_t=True
    )
    assert bounds(clustered_mean(values)) == pytest.approx((fitted.params[0], *fitted.conf_int()[0]), rel=0.002)
    assert clustered_mean([]) is None
    assert clustered_mean([[2.0]]) == Estimate(value=2.0)


def test_of_nothing_there_is_no_estimate() -> None:
    assert clustered_rate([]) is None
    assert clustered_rate([[], []]) is None
    assert log_scale_mean([[]]) is None
    assert ratio_of_sums([]) is None
    assert ratio_of_sums([(5.0, 0.0)]) is None
    assert clustered_error([[1.0, 0.0]]) is None


def test_one_value_has_a_mean_and_no_interval() -> None:
    assert log_scale_mean([[3.0]]) == Estimate(value=3.0)
    assert ratio_of_sums([(3.0, 2.0)]) == Estimate(value=1.5)
    assert log_scale_mean([[0.0], [0.0]]) == Estimate(value=0.0)


def test_a_ratio_of_sums_has_the_error_of_a_regression_through_the_origin() -> None:
    """Weighted least squares of amount on count, weights 1/count, estimates Σa/Σc; its sandwich is the textbook's."""
    draw = np.random.default_rng(3)
    counts, amounts = draw.integers(1, 6, 40), draw.gamma(2, 1, 40)
    fitted = statsmodels_linear.WLS(amounts, counts[:, None], weights=1 / counts).fit(cov_type="HC1")
    value, low, high = bounds(ratio_of_sums(list(zip(amounts.tolist(), counts.tolist(), strict=True))))
    assert value == pytest.approx(fitted.params[0])
    assert np.log(high / low) / 2 / scipy_stats.t.ppf(0.975, 39) * value == pytest.approx(fitted.bse[0])


ROUNDS = 2000


def test_95_of_100_wilson_intervals_hold_the_truth() -> None:
    draw = np.random.default_rng(4)
    rates, sizes = draw.uniform(0.05, 0.95, ROUNDS), draw.integers(30, 731, ROUNDS)
    found = [wilson(int(count), int(size)) for count, size in zip(draw.binomial(sizes, rates), sizes, strict=True)]
    held = sum(one is not None and one.low <= rate <= one.high for one, rate in zip(found, rates, strict=True))
    assert 0.94 <= held / ROUNDS <= 0.96


@pytest.mark.parametrize("trials", [2, 5])
def test_95_of_100_clustered_intervals_hold_the_truth_and_unclustered_ones_do_not(trials: int) -> None:
    """Tasks of all difficulties, several trials of each; the truth is the rate over all tasks there could be."""
    draw = np.random.default_rng(5)
    held = naive = 0
    rounds = 2 * ROUNDS
    for _ in range(rounds):
        a, b = draw.uniform(0.3, 1.5, 2)
        right = draw.binomial(trials, draw.beta(a, b, 100)).tolist()
        _, low, high = bounds(clustered_rate([[1.0] * count + [0.0] * (trials - count) for count in right]))
        held += low <= a / (a + b) <= high
        plain = wilson(sum(right), 100 * trials)
        naive += plain is not None and plain.low <= a / (a + b) <= plain.high
    assert 0.94 <= held / rounds <= 0.96
    assert naive / rounds < 0.91


@pytest.mark.parametrize("tasks", [30, 150])
def test_95_of_100_intervals_of_a_mean_cost_and_of_dollars_per_resolved_hold_the_truth(tasks: int) -> None:
    """Harder tasks cost more and are resolved less often."""
    draw = np.random.default_rng(6)
    hard = draw.gamma(2.0, 1.0, 400_000)
    mean, per_resolved = 2.0, 2.0 / (0.9 / (1 + hard)).mean()
    held = held_ratio = 0
    for _ in range(ROUNDS):
        costs = draw.gamma(2.0, 1.0, tasks)
        solved = draw.random(tasks) < 0.9 / (1 + costs)
        _, low, high = bounds(log_scale_mean([[cost] for cost in costs.tolist()]))
        held += low <= mean <= high
        _, low, high = bounds(ratio_of_sums(list(zip(costs.tolist(), solved.astype(float).tolist(), strict=True))))
        held_ratio += low <= per_resolved <= high
    assert 0.94 <= held / ROUNDS <= 0.96
    assert 0.94 <= held_ratio / ROUNDS <= 0.96


def test_95_of_100_intervals_of_a_mean_score_hold_the_truth() -> None:
    """Of scores without an upper end, with several similar trials of each task."""
    draw = np.random.default_rng(7)
    held = 0
    for _ in range(ROUNDS):
        scores = draw.normal(0.4, 0.5, (30, 1)) + draw.normal(0, 0.3, (30, 3))
        _, low, high = bounds(clustered_mean(scores.tolist()))
        held += low <= 0.4 <= high
    assert 0.94 <= held / ROUNDS <= 0.96
