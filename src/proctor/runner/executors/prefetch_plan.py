"""Which node fetches the images of which tasks ahead of time: pure rules."""

from collections import Counter
from collections.abc import Iterable, Sequence


class PrefetchPlan:
    """Shares the tasks to come among the nodes: each is claimed by one node, which fetches its image."""

    def __init__(self) -> None:
        self._upcoming: Counter[str] = Counter()
        self._claims: dict[str, list[str]] = {}

    def start(self, task_ids: Iterable[str], nodes: Sequence[str], each: int) -> None:
        """So many trials of these tasks will come, in this order; nodes claim the first ones in turn, so many each."""
        self._upcoming = Counter(task_ids)
        for count in range(1, each + 1):
            for node in nodes:
                self.claim(node, count)

    def given_out(self, task_id: str) -> None:
        """One trial of a task is given out."""
        self._upcoming[task_id] -= 1
        if self._upcoming[task_id] <= 0:
            del self._upcoming[task_id]

    def forget(self, node: str) -> None:
        """A node has left: others may claim what it had."""
        self._claims.pop(node, None)

    def claim(self, node: str, count: int) -> list[str]:
        """What a node fetches now: what it has claimed and is still to come, and the next tasks up to so many."""
        others = {task_id for other, claimed in self._claims.items() if other != node for task_id in claimed}
        mine = [task_id for task_id in self._claims.get(node, ()) if task_id in self._upcoming]
        for task_id in self._upcoming:
            if len(mine) >= count:
                break
            if task_id not in others and task_id not in mine:
                mine.append(task_id)
        self._claims[node] = mine
        return mine
