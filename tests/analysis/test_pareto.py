from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observations import answers, seen
from proctor.analysis import Observation
from proctor.analysis.intervals import Estimate
from proctor.analysis.pareto import ParetoPoint, TaskSums, frontier_frequencies, pareto_results


def point(run: str, rate: float | None, cost: float | None, seconds: float | None = 60.0) -> ParetoPoint:
    def known(value: float | None) -> Estimate | None:
        return None if value is None else Estimate(value=value)

    return ParetoPoint(run=run, rate=known(rate), cost=known(cost), seconds=known(seconds))


def placed(*points: ParetoPoint) -> dict[str, tuple[bool | None, tuple[str, ...]]]:
    return {one.point.run: (one.on_frontier, one.dominated_by) for one in pareto_results(points, {})}


def summed(observations: list[Observation]) -> TaskSums:
    sums = TaskSums()
    assert list(sums.accumulate(observations)) == observations
    return sums


def test_a_run_is_dominated_by_what_is_as_good_in_all_and_better_in_one() -> None:
    found = placed(
        point("cheap", 0.2, 0.1),
        point("dear", 0.4, 2.0),
        point("waste", 0.2, 0.5),
        point("slow", 0.4, 2.0, 90.0),
        point("twin", 0.4, 2.0),
    )
    assert found == {
        "cheap": (True, ()),
        "dear": (True, ()),
        "waste": (False, ("cheap",)),
        "slow": (False, ("dear", "twin")),
        "twin": (True, ()),
    }


def test_a_run_without_a_price_has_no_place_and_beats_nobody() -> None:
    assert placed(point("a", 0.9, None), point("b", 0.1, 1.0)) == {"a": (None, ()), "b": (True, ())}


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=8))
def test_the_front_is_what_a_search_over_all_pairs_finds(numbers: list[tuple[int, int, int]]) -> None:
    found = placed(*(point(str(at), rate, cost, time) for at, (rate, cost, time) in enumerate(numbers)))
    table = np.array(numbers) * [1, -1, -1]
    for (at, mine), (_, other) in product(enumerate(table), enumerate(table)):
        if (other >= mine).all() and (other != mine).any():
            assert found[str(at)][0] is False
    assert any(on_front for on_front, _ in found.values())


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=8))
def test_drawing_finds_the_front_that_all_pairs_have(numbers: list[tuple[int, int, int]]) -> None:
    """One task each: drawn again it is the same, and so is its front."""
    runs = {
        str(at): summed([seen("t", "+" if rate > 2 else "-", cost=cost, seconds=time)])
        for at, (rate, cost, time) in enumerate(numbers)
    }
    worth = [(rate > 2, -cost, -time) for rate, cost, time in numbers]
    expected = {
        str(at): float(
            not any(other != mine and all(a >= b for a, b in zip(other, mine, strict=True)) for other in worth)
        )
        for at, mine in enumerate(worth)
    }
    assert frontier_frequencies(runs, resamples=3) == expected


def test_how_sure_a_place_is_comes_from_drawing_the_tasks_again() -> None:
    """Two runs of the same cost and time, one flip between them: it is drawn at least once in 1 - (1 - 1/n)^n."""
    marks = {f"t{n}": "+-"[n % 2] for n in range(20)}
    better = summed(answers(**marks, flip="+"))
    worse = summed(answers(**marks, flip="-"))
    shares = frontier_frequencies({"better": better, "worse": worse}, resamples=4000)
    assert shares["better"] == 1.0
    assert shares["worse"] == pytest.approx((1 - 1 / 21) ** 21, abs=0.03)


def test_a_run_that_lacks_tasks_is_drawn_with_those_it_has() -> None:
    many = summed([seen(f"t{n}", "+-"[n % 2], cost=1.0) for n in range(30)])
    few = summed([seen("t0", "+", cost=0.5)])
    shares = frontier_frequencies({"many": many, "few": few}, resamples=500)
    assert shares["few"] == pytest.approx(1 - (1 - 1 / 30) ** 30, abs=0.06)
    assert frontier_frequencies({}) == {}
