"""Two runs on the same tasks: which flipped, and whether that is more than chance."""

from collections.abc import Iterable, Mapping
from math import comb

from proctor.core.causes import Status
from proctor.core.record import Record
from proctor.core.result import TaskResult

SIGNIFICANT = 0.05


class Paired(Record):
    """A comparison on common tasks. A task with several answers counts as resolved when most of them are.

    Attributes:
        gained: tasks that only the second run resolved; `lost`: only the first.
        p_value: of the exact two-sided McNemar test: how likely so uneven a split of the flips is by chance.
    """

    common: int
    both: int
    neither: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p_value: float

    @property
    def sentence(self) -> str:
        """What can be said, and no more."""
        if self.common == 0:
            return "The runs have no graded task in common."
        flips = (
            f"{len(self.gained)} gained, {len(self.lost)} lost of {self.common} common tasks; p = {self.p_value:.3f}"
        )
        if self.p_value >= SIGNIFICANT:
            return f"No difference that these data can show ({flips})."
        word = "better" if len(self.gained) > len(self.lost) else "worse"
        return f"The second run is {word} ({flips})."


def compare(first: Iterable[TaskResult], second: Iterable[TaskResult]) -> Paired:
    """Compare two runs' results, task by task."""
    one, other = _resolved(first), _resolved(second)
    common = sorted(one.keys() & other.keys())
    gained = tuple(task for task in common if other[task] and not one[task])
    lost = tuple(task for task in common if one[task] and not other[task])
    both = sum(one[task] and other[task] for task in common)
    return Paired(
        common=len(common),
        both=both,
        neither=len(common) - both - len(gained) - len(lost),
        gained=gained,
        lost=lost,
        p_value=exact_mcnemar(len(gained), len(lost)),
    )


def exact_mcnemar(gained: int, lost: int) -> float:
    """The two-sided exact p-value: of n flips, each is a fair coin if the runs do not differ.

    p = min(1, 2 * sum_{i=0}^{min(b,c)} C(n, i) / 2^n), with n = b + c (McNemar 1947, exact form); 1 without flips.
    """
    flips = gained + lost
    tail = sum(comb(flips, i) for i in range(min(gained, lost) + 1))
    # Both are whole numbers: where a float would overflow, their ratio does not.
    return min(1.0, 2 * tail / (1 << flips))


def _resolved(results: Iterable[TaskResult]) -> Mapping[str, bool]:
    """Whether each graded task is resolved; errors and skipped ones say nothing about the agent."""
    votes: dict[str, list[bool]] = {}
    for result in results:
        if result.status in {Status.RESOLVED, Status.UNRESOLVED}:
            votes.setdefault(result.task_id, []).append(result.status is Status.RESOLVED)
    return {task: sum(answers) * 2 > len(answers) for task, answers in votes.items()}
