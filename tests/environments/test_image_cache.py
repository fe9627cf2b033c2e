"""The planner of pulls and evictions."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.environments.image_cache import PREFETCH_IMAGES, EvictImage, ImageCacheState, PullImage, next_action

IMAGES = "abcdefgh"


def test_the_first_image_is_brought_alone_to_learn_how_large_one_is() -> None:
    state = ImageCacheState(budget=10, planned=("a", "b"))
    assert next_action(state) == PullImage("a", 10)
    assert next_action(ImageCacheState(budget=10, planned=("a", "b"), pulling={"a": 10})) is None
    assert next_action(ImageCacheState(budget=10, planned=("a", "b"), managed={"a": 3}, largest=3)) == PullImage("b", 3)


def test_images_that_are_not_planned_are_evicted_least_recently_used_first() -> None:
    state = ImageCacheState(budget=9, planned=("n",), managed={"old": 3, "new": 3, "n2": 3}, largest=3)
    assert next_action(state) == EvictImage("old")


def test_the_image_planned_last_is_evicted_first() -> None:
    state = ImageCacheState(budget=9, planned=("a", "n", "b", "c"), managed={"c": 3, "b": 3, "a": 3}, largest=3)
    assert next_action(state) == EvictImage("c")


def test_an_image_in_use_or_needed_sooner_is_never_evicted() -> None:
    assert (
        next_action(ImageCacheState(budget=6, planned=("a", "n"), managed={"a": 3, "x": 3}, in_use={"x"}, largest=3))
        is None
    )


def test_an_image_that_others_brought_is_neither_counted_nor_touched() -> None:
    assert next_action(
        ImageCacheState(budget=3, planned=("theirs", "n"), unmanaged={"theirs"}, largest=3)
    ) == PullImage("n", 3)
    assert (
        next_action(
            ImageCacheState(budget=3, planned=("n",), managed={"x": 3}, in_use={"x"}, unmanaged={"theirs"}, largest=3)
        )
        is None
    )


def test_a_requested_image_is_pulled_before_planned_ones_and_above_the_pull_limit() -> None:
    state = ImageCacheState(budget=30, requested=("z",), planned=("a", "b", "c"), pulling={"a": 3, "b": 3}, largest=3)
    assert next_action(state) == PullImage("z", 3)


def test_a_failed_pull_is_retried_only_on_request() -> None:
    assert next_action(ImageCacheState(planned=("a",), failed={"a"})) is None
    assert next_action(ImageCacheState(planned=("a",), requested=("a",), failed={"a"})) == PullImage("a", 0)


def test_without_a_budget_only_a_few_are_brought_ahead_and_nothing_is_let_go() -> None:
    there = dict.fromkeys(IMAGES[:PREFETCH_IMAGES], 1)
    assert next_action(ImageCacheState(planned=IMAGES, managed=there)) is None
    assert next_action(ImageCacheState(planned=IMAGES, managed=there, in_use={"a"})) == PullImage(
        IMAGES[PREFETCH_IMAGES], 0
    )


def test_an_image_larger_than_it_was_taken_for_makes_others_go() -> None:
    state = ImageCacheState(budget=10, planned=("a", "b"), managed={"a": 3, "b": 8}, in_use={"a"}, largest=8)
    assert next_action(state) == EvictImage("b")


shelves = st.builds(
    lambda budget, plan, ours, others, coming, use, asked: ImageCacheState(
        budget=budget,
        requested=asked,
        planned=tuple(dict.fromkeys(plan)),
        managed={image: 2 for image in ours if image not in others},
        unmanaged=frozenset(others),
        pulling={image: 2 for image in coming if image not in {*ours, *others}},
        in_use=frozenset(use) & {*ours, *others},
        largest=2,
        max_pulls=len(IMAGES),
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
def test_a_pull_that_fits_is_started_at_once(state: ImageCacheState) -> None:
    """When there is nothing to do, no lawful choice of evictions makes environment for the next missing image."""
    if state.budget is None or state.used_bytes > state.budget or next_action(state) is not None:
        return
    order = list(dict.fromkeys((*state.requested, *state.planned)))
    there = {*state.managed, *state.unmanaged, *state.pulling}
    missing = next((image for image in order if image not in there), None)
    if missing is None:
        return
    before = set(order[: order.index(missing)])
    lawful = [image for image in state.managed if image not in before | set(state.in_use)]
    choices = itertools.chain.from_iterable(itertools.combinations(lawful, n) for n in range(len(lawful) + 1))
    assert all(state.used_bytes - 2 * len(gone) + 2 > state.budget for gone in choices)


@given(shelves)
def test_each_action_keeps_to_the_budget_and_the_images_in_use(state: ImageCacheState) -> None:
    match next_action(state):
        case PullImage(image, reserve):
            assert image not in {*state.managed, *state.unmanaged, *state.pulling}
            assert state.budget is None or state.used_bytes + reserve <= state.budget
        case EvictImage(image):
            assert image in state.managed
            assert image not in state.in_use


class World:
    """Tasks over images, on a machine on which a pull and a task each take one tick."""

    def __init__(self, tasks: Sequence[str], workers: int, environment: int) -> None:
        self.left = list(tasks)
        self.workers = workers
        self.budget = environment
        self.running: list[str] = []
        self.ours: dict[str, int] = {}
        self.coming: list[str] = []
        self.pulls = 0

    def state(self) -> ImageCacheState:
        waiting = [image for image in self.running if image not in self.ours]
        return ImageCacheState(
            budget=self.budget,
            requested=tuple(dict.fromkeys(waiting)),
            planned=tuple(dict.fromkeys((*self.running, *self.left))),
            managed=dict(self.ours),
            pulling=dict.fromkeys(self.coming, 1),
            in_use=frozenset(image for image in self.running if image in self.ours),
            largest=1,
        )

    def tick(self) -> None:
        while self.left and len(self.running) < self.workers:
            self.running.append(self.left.pop(0))
        while (step := next_action(self.state())) is not None:
            if isinstance(step, PullImage):
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
    tasks=st.lists(st.sampled_from(IMAGES), min_size=1, max_size=30),
    workers=st.integers(1, 4),
    environment=st.integers(1, 5),
)
def test_all_tasks_come_to_their_end_within_the_budget(tasks: list[str], workers: int, environment: int) -> None:
    world = World(tasks, workers, environment)
    for _ in range(4 * len(tasks) + 4):
        world.tick()
        if not world.left and not world.running:
            break
    assert not world.left
    assert not world.running
    if environment >= len(set(tasks)):
        assert world.pulls == len(set(tasks))


@pytest.mark.parametrize("environment", [4, 10])
def test_thirty_tasks_over_ten_images_wait_for_the_first_pulls_alone(environment: int) -> None:
    tasks = [f"i{number // 3}" for number in range(30)]
    world = World(tasks, workers=1, environment=environment)
    ticks = 0
    while world.left or world.running:
        world.tick()
        ticks += 1
    assert ticks == 31  # one tick for the first pull, and one for each task
    assert world.pulls == 10
