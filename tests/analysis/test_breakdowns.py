import pytest

from large_libraries import scipy_stats
from observations import flipped, make_observations
from proctor.analysis.breakdowns import UNKNOWN, bin_numbers, breakdown
from proctor.analysis.intervals import wilson
from proctor.analysis.significance import holm


def marks(**groups: str) -> dict[str, str]:
    """Tasks called by their group and place in it: py="+-" is py0 and py1."""
    return {f"{group}{place}": mark for group, some in groups.items() for place, mark in enumerate(some)}


def letters(task: str) -> str:
    return task.rstrip("0123456789")


def test_groups_with_several_trials_are_compared_as_runs_are() -> None:
    """Seven tasks rise from one of four to two of four: no task changes its majority."""
    tasks = [f"py{n}" for n in range(7)]
    before, after = make_observations(**dict.fromkeys(tasks, "+---")), make_observations(**dict.fromkeys(tasks, "++--"))
    (group,) = breakdown("language", {"old": before, "new": after}, lambda _: "py").groups
    assert (group.gained, group.lost, group.p_value) == (0, 0, 2 / 2**7)
    found = breakdown("language", {"new": after, "old": before}, lambda _: "py")
    assert found.sentence == "By language, old is worse on py (p = 0.016)."


def test_a_group_is_compared_with_the_other_tasks_of_its_run() -> None:
    found = breakdown(
        "language",
        {"r": make_observations(**marks(py="+" * 18 + "-" * 2, go="+" * 3 + "-" * 12, js="+-" * 4))},
        letters,
    )
    groups = {group.value: group for group in found.groups}
    assert list(groups) == ["py", "go", "js"]
    expected = [
        scipy_stats.fisher_exact([[18, 2], [7, 16]]).pvalue,
        scipy_stats.fisher_exact([[3, 12], [22, 6]]).pvalue,
        scipy_stats.fisher_exact([[4, 4], [21, 14]]).pvalue,
    ]
    assert [group.p_value for group in found.groups] == pytest.approx(expected)
    assert [group.adjusted_p for group in found.groups] == pytest.approx(holm(expected))
    interval = wilson(18, 20)
    assert interval is not None
    rate = groups["py"].rate
    assert rate is not None
    assert (rate.low, rate.high) == (interval.low, interval.high)
    assert found.sentence == (
        "By language, more than chance: py above the rest (p < 0.001), go below the rest (p < 0.001)."
    )


def test_two_runs_are_compared_group_by_group() -> None:
    before = make_observations(**marks(py="-" * 12, go="+" * 6 + "-" * 6))
    after = make_observations(**marks(py="+" * 10 + "--", go="-+" * 6))
    found = breakdown("language", {"old": before, "new": after}, letters)
    go, py = found.groups
    assert (py.gained, py.lost, go.gained, go.lost) == (10, 0, 3, 3)
    assert py.p_value == pytest.approx(scipy_stats.binomtest(10, 10).pvalue)
    assert py.adjusted_p == pytest.approx(2 * py.p_value)
    assert py.difference is not None
    assert py.difference.value == pytest.approx(10 / 12)
    assert found.sentence == "By language, new is better on py (p = 0.004)."


def test_noise_is_not_read() -> None:
    before, after = flipped(5, 0, 20)
    many = breakdown("task", {"old": before, "new": after}, lambda task: task)
    assert len(many.groups) == 25
    assert many.sentence == "By task, new differs from old in no group by more than chance."
    alone = breakdown("task", {"old": before}, lambda task: task)
    assert alone.sentence == "By task, no group stands out by more than chance."


def test_tasks_with_an_unknown_value_are_a_group() -> None:
    found = breakdown("x", {"r": make_observations(a="+", b="-")}, {"a": "one"}.get)
    assert [group.value for group in found.groups] == [UNKNOWN, "one"]
    nothing = breakdown("x", {"r": []}, letters)
    assert (nothing.groups, nothing.sentence) == ((), "r has no graded task.")
    apart = breakdown("x", {"r": make_observations(a="+"), "s": make_observations(b="+")}, letters)
    assert apart.sentence == "r and s have no graded task in common."


def test_numbers_and_ranges_stand_in_their_order_and_words_by_size() -> None:
    tasks = make_observations(a="+", b="-", c="+", d="-", e="+")
    ranges = {"a": "9 to 12", "b": "10", "c": "100 to 120", "d": "100 to 120"}
    found = breakdown("lines", {"r": tasks}, ranges.get)
    assert [group.value for group in found.groups] == ["9 to 12", "10", "100 to 120", UNKNOWN]
    words = breakdown("kind", {"r": tasks}, (ranges | {"e": "to be"}).get)
    assert [group.value for group in words.groups] == ["100 to 120", "10", "9 to 12", "to be"]


def test_a_task_with_several_tags_is_in_the_group_of_each() -> None:
    tags = {"a": ("fast", "small"), "b": ("small",), "c": (), "d": ("fast",)}
    one = breakdown("tag", {"r": make_observations(a="+", b="-", c="+", d="+")}, tags.get)
    assert [(group.value, group.tasks) for group in one.groups] == [("fast", 2), ("small", 2), (UNKNOWN, 1)]
    fast, small, _ = one.groups
    assert fast.rate is not None
    assert small.rate is not None
    assert (fast.rate.value, small.rate.value) == (1.0, 0.5)
    assert fast.p_value == pytest.approx(scipy_stats.fisher_exact([[2, 0], [1, 1]]).pvalue)


def test_many_numbers_become_a_few_ranges_of_like_size() -> None:
    found = bin_numbers({f"t{n}": str(n) for n in range(1, 41)})
    assert sorted(set(found.values())) == ["1 to 10", "11 to 20", "21 to 30", "31 to 40"]
    skewed = bin_numbers({f"t{n}": str(n if n > 90 else 1) for n in range(100)})
    assert set(skewed.values()) == {"1", "91 to 99"}


def test_few_numbers_and_words_stay_as_they_are() -> None:
    few = {f"t{n}": str(n % 4) for n in range(40)}
    assert bin_numbers(few) == few
    words = {f"t{n}": f"v{n}" for n in range(40)}
    assert bin_numbers(words) == words
    mixed = {**{f"t{n}": str(n) for n in range(40)}, "x": "nan"}
    assert bin_numbers(mixed) == mixed
