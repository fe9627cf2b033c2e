import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest  # type: ignore[import-untyped]

from proctor.analysis.intervals import Interval, wilson

TRIALS = st.integers(1, 5000).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


@given(TRIALS, st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]))
def test_wilson_is_what_scipy_says(counted: tuple[int, int], confidence: float) -> None:
    successes, trials = counted
    ours = wilson(successes, trials, confidence=confidence)
    theirs = binomtest(successes, trials).proportion_ci(confidence_level=confidence, method="wilson")
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


def test_of_no_trials_nothing_can_be_said() -> None:
    assert wilson(0, 0) is None


def test_the_ends_are_exact() -> None:
    none, every = wilson(0, 7), wilson(7, 7)
    assert isinstance(none, Interval)
    assert isinstance(every, Interval)
    assert (none.low, every.high) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials", "confidence"), [(2, 1, 0.95), (-1, 1, 0.95), (1, 1, 1.0), (1, 1, 0.0)])
def test_what_cannot_be_is_refused(successes: int, trials: int, confidence: float) -> None:
    with pytest.raises(ValueError):
        wilson(successes, trials, confidence=confidence)
