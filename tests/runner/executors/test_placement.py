"""Which node gets what."""

from dataclasses import dataclass, field

from proctor.runner.executors.placement import choose_for_attempt, choose_for_grading, choose_waiting, not_avoided


@dataclass
class Node:
    name: str
    busy: int = 0
    slots: int = 2
    grading: int = 0
    grading_slots: int = 1
    assigned: int = 0
    images: set[str] = field(default_factory=set)

    def has_image(self, image: str | None) -> bool:
        return image is None or image in self.images


def test_attempts_go_where_the_largest_share_is_free() -> None:
    small, large = Node("small", busy=1, slots=2), Node("large", busy=3, slots=8)
    assert choose_for_attempt([small, large], None) is large
    assert choose_for_attempt([Node("full", busy=2)], None) is None
    assert choose_for_attempt([], None) is None


def test_among_equals_one_that_has_the_image_and_then_the_least_used() -> None:
    one, two = Node("one", assigned=1), Node("two", assigned=4, images={"ubuntu"})
    assert choose_for_attempt([one, two], "ubuntu") is two
    assert choose_for_attempt([one, two], "debian") is one


def test_the_first_trials_are_spread_over_all_nodes() -> None:
    nodes = [Node(name) for name in ("a", "b", "c")]
    for _ in range(6):
        chosen = choose_for_attempt(nodes, None)
        assert chosen is not None
        chosen.busy += 1
        chosen.assigned += 1
    assert [node.busy for node in nodes] == [2, 2, 2]


def test_a_grading_goes_to_the_node_that_ran_the_agent_if_it_has_a_free_slot() -> None:
    here, there = Node("here"), Node("there")
    assert choose_for_grading([there, here], "here") is here
    here.grading = 1
    assert choose_for_grading([there, here], "here") is there
    there.grading = 1
    assert choose_for_grading([there, here], "here") is None


@dataclass
class Waiting:
    image: str | None
    passed: int = 0


def test_a_node_takes_the_first_trial_whose_image_it_has() -> None:
    node, waiting = Node("one", images={"ubuntu"}), [Waiting("debian"), Waiting("alpine"), Waiting("ubuntu")]
    assert choose_waiting(waiting, node) is waiting[2]
    assert [one.passed for one in waiting] == [1, 1, 0]
    assert choose_waiting(waiting[:2], node) is waiting[0]
    assert choose_waiting([Waiting(None), Waiting("ubuntu")], node).image is None


def test_no_trial_is_passed_over_for_ever() -> None:
    node, first = Node("one", images={"ubuntu"}), Waiting("debian")
    taken = [choose_waiting([first, Waiting("ubuntu"), Waiting("ubuntu")], node) for _ in range(4)]
    assert [one is first for one in taken] == [False, False, False, True]


def test_a_node_to_be_avoided_is_used_where_there_is_no_other() -> None:
    bad, good = Node("bad"), Node("good", busy=2)
    assert not_avoided([bad, good], {"bad"}) == [good]
    assert not_avoided([bad], {"bad", "gone"}) == [bad]
    assert not_avoided([bad, good], ()) == [bad, good]
