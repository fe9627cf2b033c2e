from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observations import make_observation, make_observations
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
        point("expensive", 0.4, 2.0),
        point("waste", 0.2, 0.5),
        point("slow", 0.4, 2.0, 90.0),
        point("twin", 0.4, 2.0),
    )
    assert found == {
        "cheap": (True, ()),
        "expensive": (True, ()),
        "waste": (False, ("cheap",)),
        "slow": (False, ("expensive", "twin")),
        "twin": (True, ()),
    }


def test_a_run_without_a_price_is_not_placed_and_dominates_no_other() -> None:
    assert placed(point("a", 0.9, None), point("b", 0.1, 1.0)) == {"a": (None, ()), "b": (True, ())}


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=8))
def test_the_frontier_is_what_a_search_over_all_pairs_finds(numbers: list[tuple[int, int, int]]) -> None:
    found = placed(*(point(str(at), rate, cost, time) for at, (rate, cost, time) in enumerate(numbers)))
    table = np.array(numbers) * [1, -1, -1]
    for (at, own), (_, other) in product(enumerate(table), enumerate(table)):
        if (other >= own).all() and (other != own).any():
            assert found[str(at)][0] is False
    assert any(on_frontier for on_frontier, _ in found.values())


@given(st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=8))
def test_resampling_finds_the_frontier_that_all_pairs_have(numbers: list[tuple[int, int, int]]) -> None:
    """One task each: resampled it is the same, and so is its frontier."""
    runs = {
        str(at): summed([make_observation("t", "+" if rate > 2 else "-", cost=cost, seconds=time)])
        for at, (rate, cost, time) in enumerate(numbers)
    }
    worth = [(rate > 2, -cost, -time) for rate, cost, time in numbers]
    expected = {
        str(at): float(
            not any(other != own and all(a >= b for a, b in zip(other, own, strict=True)) for other in worth)
        )
        for at, own in enumerate(worth)
    }
    assert frontier_frequencies(runs, resamples=3) == expected


def test_the_bootstrap_frequency_comes_from_resampling_tasks() -> None:
    """Two runs of the same cost and time, one flip between them: it is drawn at least once in 1 - (1 - 1/n)^n."""
    marks = {f"t{n}": "+-"[n % 2] for n in range(20)}
    better = summed(make_observations(**marks, flip="+"))
    worse = summed(make_observations(**marks, flip="-"))
    frequencies = frontier_frequencies({"better": better, "worse": worse}, resamples=4000)
    assert frequencies["better"] == 1.0
    assert frequencies["worse"] == pytest.approx((1 - 1 / 21) ** 21, abs=0.03)


def test_a_run_with_fewer_tasks_is_resampled_with_its_own() -> None:
    many = summed([make_observation(f"t{n}", "+-"[n % 2], cost=1.0) for n in range(30)])
    few = summed([make_observation("t0", "+", cost=0.5)])
    frequencies = frontier_frequencies({"many": many, "few": few}, resamples=500)
    assert frequencies["few"] == pytest.approx(1 - (1 - 1 / 30) ** 30, abs=0.06)
    assert frontier_frequencies({}) == {}
