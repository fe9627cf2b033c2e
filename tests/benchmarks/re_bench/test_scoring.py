"""From a log of scores to one number."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.benchmarks.re_bench.families import SCALES
from proctor.benchmarks.re_bench.scoring import ScoreScale, ScoreSelection, score_within, selected_score
from proctor.core.submission import ScoreLogEntry

LESS = ScoreScale(selection=ScoreSelection.MIN, start=2.0, reference=1.0)
MORE = ScoreScale(selection=ScoreSelection.MAX, start=0.5, reference=0.9)
LAST = ScoreScale(selection=ScoreSelection.LAST, start=0.2, reference=0.8)


def log(*pairs: tuple[float, float | None]) -> tuple[ScoreLogEntry, ...]:
    return tuple(ScoreLogEntry(seconds=seconds, score=score) for seconds, score in pairs)


def test_the_least_the_greatest_or_the_last_score_counts() -> None:
    scores = log((10, 1.5), (20, 1.2), (30, 1.9))
    assert [selected_score(scores, counts) for counts in ScoreSelection] == [1.2, 1.9, 1.9]


def test_a_value_that_is_not_a_number_does_not_count() -> None:
    scores = log((10, None), (20, math.nan), (30, 1.5), (40, -math.inf), (50, None))
    assert [selected_score(scores, counts) for counts in ScoreSelection] == [1.5, 1.5, 1.5]
    assert selected_score(log((1, None), (2, math.nan)), ScoreSelection.LAST) is None


def test_the_start_is_0_and_the_reference_1_in_both_directions() -> None:
    for scale in (LESS, MORE, LAST, *SCALES.values()):
        assert scale.normalised(scale.start) == 0
        assert scale.normalised(scale.reference) == pytest.approx(1)
    assert LESS.normalised(0.5) == pytest.approx(1.5)
    assert MORE.normalised(0.7) == pytest.approx(0.5)


def test_the_seven_families_of_the_paper_are_known() -> None:
    assert len(SCALES) == 7
    assert sorted(name for name, scale in SCALES.items() if scale.selection is ScoreSelection.LAST) == [
        "ai_rd_small_scaling_law"
    ]
    assert {
        name
        for name, scale in SCALES.items()
        if (scale.selection is ScoreSelection.MIN) != (scale.reference < scale.start)
    } == set()


def test_a_budget_takes_what_was_asked_for_within_it() -> None:
    scores = log((100, 1.8), (7200, 1.5), (7201, 1.0))
    assert score_within(scores, LESS, 50) == 0
    assert score_within(scores, LESS, 7200) == pytest.approx(0.5)
    assert score_within(scores, LESS) == pytest.approx(1.0)


def test_worse_than_the_start_is_the_start_unless_the_last_score_counts() -> None:
    assert score_within(log((1, 3.0)), LESS) == 0
    assert score_within(log((1, 0.1)), MORE) == 0
    assert score_within(log((1, 0.8), (2, 0.1)), LAST) < 0


@given(st.lists(st.tuples(st.floats(0, 1e5), st.floats(-10, 10) | st.none()), max_size=12))
def test_more_time_is_never_worse_where_the_best_counts(pairs: list[tuple[float, float | None]]) -> None:
    scores = log(*sorted(pairs, key=lambda pair: pair[0]))
    for scale in (LESS, MORE):
        reached = [score_within(scores, scale, seconds) for seconds in (0, 10, 1e3, 1e4, math.inf)]
        assert reached == sorted(reached)
