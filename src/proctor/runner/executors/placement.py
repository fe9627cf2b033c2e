"""Which node gets the next attempt or grading: pure rules."""

from collections.abc import Collection, Sequence
from typing import Protocol, TypeVar


class PlacementCandidate(Protocol):
    """A node, as far as placement looks at it.

    Attributes:
        busy: attempts that are under way on it, of at most `slots`; `grading` and `grading_slots` likewise.
        assigned: attempts that it was ever given.
    """

    name: str
    busy: int
    slots: int
    grading: int
    grading_slots: int
    assigned: int

    def has_image(self, image: str | None) -> bool:
        """Whether what a task's environment is made from is there already."""
        ...


class WaitingTrial(Protocol):
    """What waits for a place, and how often a later one was taken first."""

    image: str | None
    passed: int


C = TypeVar("C", bound=PlacementCandidate)
W = TypeVar("W", bound=WaitingTrial)


def not_avoided(nodes: Sequence[C], avoided: Collection[str]) -> Sequence[C]:
    """The nodes that are not to be avoided; all of them where there is no other."""
    return [node for node in nodes if node.name not in avoided] or nodes if avoided else nodes


def choose_for_attempt(nodes: Sequence[C], image: str | None) -> C | None:
    """The node with the largest share of free slots; among equals one that has the image; then the least used."""
    free = [node for node in nodes if node.busy < node.slots]
    return min(
        free,
        key=lambda node: (node.busy / node.slots, not node.has_image(image), node.assigned, node.name),
        default=None,
    )


def choose_waiting(waiting: Sequence[W], node: PlacementCandidate) -> W:
    """Which of these a node takes: the first whose image it has, unless the first of all was passed over too often."""
    first = waiting[0]
    if first.passed >= len(waiting):
        return first
    chosen = next((one for one in waiting if node.has_image(one.image)), first)
    if chosen is not first:
        for earlier in waiting[: waiting.index(chosen)]:
            earlier.passed += 1
    return chosen


def choose_for_grading(nodes: Sequence[C], preferred: str | None) -> C | None:
    """The node that ran the agent, which has the image, if it has a free slot for a grader; else the least busy one."""
    free = [node for node in nodes if node.grading < node.grading_slots]
    return min(
        free,
        key=lambda node: (node.name != preferred, node.grading / node.grading_slots, node.name),
        default=None,
    )
