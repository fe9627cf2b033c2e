"""Rate, cost and time together: which runs nothing else beats in all three, and how sure that is."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

from proctor.analysis.intervals import Estimate
from proctor.analysis.observation import Observation
from proctor.core.record import Record

Objective = Literal["rate", "cost", "seconds"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("rate", "cost", "seconds")
_RESAMPLES: Final = 400
_SEED: Final = 20260215


class ParetoPoint(Record):
    """One run: its rate, and the mean cost and time of an answer; None where that is not known."""

    run: str
    rate: Estimate | None
    cost: Estimate | None
    seconds: Estimate | None


class ParetoResult(Record):
    """Where a run stands.

    Attributes:
        on_front: no other run is at least as good in every objective and better in one; None where a number is missing.
        dominated_by: the runs that are.
        share: how often it is on the front when the tasks are drawn again: near 1 or 0 it is sure, near ½ it is not.
    """

    point: ParetoPoint
    on_frontier: bool | None
    dominated_by: tuple[str, ...]
    bootstrap_frequency: float | None


class TaskSums:
    """What a run's counted answers come to, task by task: all that drawing tasks again needs of them."""

    def __init__(self) -> None:
        self.tasks: dict[str, tuple[float, float, float, float]] = {}

    def accumulate(self, observations: Iterable[Observation]) -> Iterator[Observation]:
        """Hand observations on, and count them in passing."""
        for one in observations:
            if one.counted:
                count, right, spent, took = self.tasks.get(one.task_id, (0.0, 0.0, 0.0, 0.0))
                spent += one.cost_usd or 0.0
                self.tasks[one.task_id] = (count + 1, right + one.resolved, spent, took + one.agent_seconds)
            yield one


def pareto_results(
    points: Sequence[ParetoPoint],
    sums: Mapping[str, TaskSums],
    *,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = _RESAMPLES,
) -> tuple[ParetoResult, ...]:
    """Every run's standing. `sums` has those of runs of which it is to be said how sure it is."""
    placed = {point.run: numbers for point in points if (numbers := _objective_values(point, objectives)) is not None}
    drawn = {run: sums[run] for run in placed if run in sums}
    shares = frontier_frequencies(drawn, objectives=objectives, resamples=resamples)
    found = []
    for point in points:
        mine = placed.get(point.run)
        better = tuple(run for run, other in placed.items() if mine is not None and dominates(other, mine))
        on_front = None if mine is None else not better
        found.append(
            ParetoResult(
                point=point, on_frontier=on_front, dominated_by=better, bootstrap_frequency=shares.get(point.run)
            )
        )
    return tuple(found)


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """At least as good in every objective, and better in one; more is better in all of them."""
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(a > b for a, b in zip(one, other, strict=True))


def frontier_frequencies(
    sums: Mapping[str, TaskSums],
    *,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = _RESAMPLES,
    seed: int = _SEED,
) -> dict[str, float]:
    """How often each run is on the front when tasks are drawn again, with every run's answers to them.

    A run that lacks a task does without it. The draws repeat: same data, same shares.
    """
    tasks = sorted({task for run in sums.values() for task in run.tasks})
    if not tasks:
        return {}
    columns = {run: _task_columns(of, tasks, objectives) for run, of in sums.items()}
    draw = random.Random(seed)  # noqa: S311 - draws for statistics, not for secrets
    counts = dict.fromkeys(sums, 0)
    places = range(len(tasks))
    for _ in range(resamples):
        drawn = draw.choices(places, k=len(tasks))
        means = {run: mean for run, table in columns.items() if (mean := _resampled_means(table, drawn)) is not None}
        for run in _frontier(means):
            counts[run] += 1
    return {run: count / resamples for run, count in counts.items()}


def _frontier(means: Mapping[str, tuple[float, ...]]) -> list[str]:
    """The runs that no other dominates. In this order nobody is dominated by one who comes later."""
    front: list[str] = []
    for run in sorted(means, key=means.__getitem__, reverse=True):
        if not any(dominates(means[other], means[run]) for other in front):
            front.append(run)
    return front


def _objective_values(point: ParetoPoint, objectives: Sequence[Objective]) -> tuple[float, ...] | None:
    """What is better when it is more: the rate as it is, cost and time turned round."""
    values: dict[Objective, float | None] = {
        "rate": point.rate.value if point.rate else None,
        "cost": -point.cost.value if point.cost else None,
        "seconds": -point.seconds.value if point.seconds else None,
    }
    chosen = [values[objective] for objective in objectives]
    known = tuple(value for value in chosen if value is not None)
    return known if len(known) == len(chosen) else None


def _task_columns(sums: TaskSums, tasks: Sequence[str], objectives: Sequence[Objective]) -> list[list[float]]:
    """Sums by task: the number of answers, then each objective, such that more is better."""
    rows = [sums.tasks.get(task, (0.0, 0.0, 0.0, 0.0)) for task in tasks]
    columns: dict[Objective, list[float]] = {
        "rate": [right for _, right, _, _ in rows],
        "cost": [-spent for _, _, spent, _ in rows],
        "seconds": [-took for *_, took in rows],
    }
    return [[count for count, *_ in rows], *(columns[objective] for objective in objectives)]


def _resampled_means(table: Sequence[Sequence[float]], indices: Sequence[int]) -> tuple[float, ...] | None:
    count, *sums = [sum(map(column.__getitem__, indices)) for column in table]
    return tuple(total / count for total in sums) if count else None
