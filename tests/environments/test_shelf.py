"""The planner of pulls and evictions."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.environments.shelf import AHEAD, Evict, Pull, Shelf, next_step

IMAGES = "abcdefgh"


def test_the_first_image_is_brought_alone_to_learn_how_large_one_is() -> None:
    shelf = Shelf(budget=10, plan=("a", "b"))
    assert next_step(shelf) == Pull("a", 10)
    assert next_step(Shelf(budget=10, plan=("a", "b"), coming={"a": 10})) is None
    assert next_step(Shelf(budget=10, plan=("a", "b"), ours={"a": 3}, largest=3)) == Pull("b", 3)


def test_what_nobody_asks_for_any_more_gives_way_longest_unused_first() -> None:
    shelf = Shelf(budget=9, plan=("n",), ours={"old": 3, "new": 3, "n2": 3}, largest=3)
    assert next_step(shelf) == Evict("old")


def test_what_is_asked_for_last_gives_way_before_what_is_asked_for_sooner() -> None:
    shelf = Shelf(budget=9, plan=("a", "n", "b", "c"), ours={"c": 3, "b": 3, "a": 3}, largest=3)
    assert next_step(shelf) == Evict("c")


def test_an_image_in_use_or_needed_before_is_never_let_go() -> None:
    assert next_step(Shelf(budget=6, plan=("a", "n"), ours={"a": 3, "x": 3}, in_use={"x"}, largest=3)) is None


def test_an_image_that_others_brought_is_neither_counted_nor_touched() -> None:
    assert next_step(Shelf(budget=3, plan=("theirs", "n"), others={"theirs"}, largest=3)) == Pull("n", 3)
    assert next_step(Shelf(budget=3, plan=("n",), ours={"x": 3}, in_use={"x"}, others={"theirs"}, largest=3)) is None


def test_somebody_who_waits_comes_before_the_plan_and_before_the_number_of_pulls_at_once() -> None:
    shelf = Shelf(budget=30, asked=("z",), plan=("a", "b", "c"), coming={"a": 3, "b": 3}, largest=3)
    assert next_step(shelf) == Pull("z", 3)


def test_a_failed_pull_is_tried_again_for_somebody_who_waits_only() -> None:
    assert next_step(Shelf(plan=("a",), failed={"a"})) is None
    assert next_step(Shelf(plan=("a",), asked=("a",), failed={"a"})) == Pull("a", 0)


def test_without_a_budget_only_a_few_are_brought_ahead_and_nothing_is_let_go() -> None:
    there = dict.fromkeys(IMAGES[:AHEAD], 1)
    assert next_step(Shelf(plan=IMAGES, ours=there)) is None
    assert next_step(Shelf(plan=IMAGES, ours=there, in_use={"a"})) == Pull(IMAGES[AHEAD], 0)


def test_an_image_larger_than_it_was_taken_for_makes_others_go() -> None:
    shelf = Shelf(budget=10, plan=("a", "b"), ours={"a": 3, "b": 8}, in_use={"a"}, largest=8)
    assert next_step(shelf) == Evict("b")


shelves = st.builds(
    lambda budget, plan, ours, others, coming, use, asked: Shelf(
        budget=budget,
        asked=asked,
        plan=tuple(dict.fromkeys(plan)),
        ours={image: 2 for image in ours if image not in others},
        others=frozenset(others),
        coming={image: 2 for image in coming if image not in {*ours, *others}},
        in_use=frozenset(use) & {*ours, *others},
        largest=2,
        at_once=len(IMAGES),
    ),
    st.integers(2, 16),
    st.lists(st.sampled_from(IMAGES)),
    st.lists(st.sampled_from(IMAGES), unique=True),
    st.lists(st.sampled_from(IMAGES), unique=True, max_size=2),
    st.lists(st.sampled_from(IMAGES), unique=True, max_size=3),
    st.lists(st.sampled_from(IMAGES), unique=True),
    st.lists(st.sampled_from(IMAGES), unique=True, max_size=2),
)


@given(shelves)
def test_no_pull_that_could_be_made_is_left_for_later(shelf: Shelf) -> None:
    """When there is nothing to do, no lawful choice of evictions makes room for the next missing image."""
    if shelf.budget is None or shelf.taken > shelf.budget or next_step(shelf) is not None:
        return
    order = list(dict.fromkeys((*shelf.asked, *shelf.plan)))
    there = {*shelf.ours, *shelf.others, *shelf.coming}
    missing = next((image for image in order if image not in there), None)
    if missing is None:
        return
    before = set(order[: order.index(missing)])
    lawful = [image for image in shelf.ours if image not in before | set(shelf.in_use)]
    choices = itertools.chain.from_iterable(itertools.combinations(lawful, n) for n in range(len(lawful) + 1))
    assert all(shelf.taken - 2 * len(gone) + 2 > shelf.budget for gone in choices)


@given(shelves)
def test_a_step_is_lawful(shelf: Shelf) -> None:
    match next_step(shelf):
        case Pull(image, reserve):
            assert image not in {*shelf.ours, *shelf.others, *shelf.coming}
            assert shelf.budget is None or shelf.taken + reserve <= shelf.budget
        case Evict(image):
            assert image in shelf.ours
            assert image not in shelf.in_use


class World:
    """Tasks over images, on a machine on which a pull and a task each take one tick."""

    def __init__(self, tasks: Sequence[str], workers: int, room: int) -> None:
        self.left = list(tasks)
        self.workers = workers
        self.budget = room
        self.running: list[str] = []
        self.ours: dict[str, int] = {}
        self.coming: list[str] = []
        self.pulls = 0

    def shelf(self) -> Shelf:
        waiting = [image for image in self.running if image not in self.ours]
        return Shelf(
            budget=self.budget,
            asked=tuple(dict.fromkeys(waiting)),
            plan=tuple(dict.fromkeys((*self.running, *self.left))),
            ours=dict(self.ours),
            coming=dict.fromkeys(self.coming, 1),
            in_use=frozenset(image for image in self.running if image in self.ours),
            largest=1,
        )

    def tick(self) -> None:
        while self.left and len(self.running) < self.workers:
            self.running.append(self.left.pop(0))
        while (step := next_step(self.shelf())) is not None:
            if isinstance(step, Pull):
                self.coming.append(step.image)
                self.pulls += 1
            else:
                assert step.image not in self.running
                del self.ours[step.image]
            assert len(self.ours) + len(self.coming) <= self.budget
        before = len(self.running)
        self.running = [image for image in self.running if image not in self.ours]
        assert before == 0 or len(self.running) < before or self.coming, "nothing runs and nothing comes"
        for image in self.coming:
            self.ours[image] = 1
        self.coming.clear()


@settings(max_examples=60)
@given(
    tasks=st.lists(st.sampled_from(IMAGES), min_size=1, max_size=30), workers=st.integers(1, 4), room=st.integers(1, 5)
)
def test_all_tasks_come_to_their_end_within_the_budget(tasks: list[str], workers: int, room: int) -> None:
    world = World(tasks, workers, room)
    for _ in range(4 * len(tasks) + 4):
        world.tick()
        if not world.left and not world.running:
            break
    assert not world.left
    assert not world.running
    if room >= len(set(tasks)):
        assert world.pulls == len(set(tasks))


@pytest.mark.parametrize("room", [4, 10])
def test_thirty_tasks_over_ten_images_wait_for_the_first_pulls_alone(room: int) -> None:
    tasks = [f"i{number // 3}" for number in range(30)]
    world = World(tasks, workers=1, room=room)
    ticks = 0
    while world.left or world.running:
        world.tick()
        ticks += 1
    assert ticks == 31  # one tick for the first pull, and one for each task
    assert world.pulls == 10
