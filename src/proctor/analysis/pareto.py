"""The Pareto frontier of rate, cost and time, and how often each run is on it when tasks are resampled."""

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
    """One run: its rate, and the mean cost and time of a trial; None where unknown."""

    run: str
    rate: Estimate | None
    cost: Estimate | None
    seconds: Estimate | None


class ParetoResult(Record):
    """A run's position relative to the Pareto frontier.

    Attributes:
        on_frontier: no other run is at least as good in every objective and better in one; None where a value is
            missing.
        dominated_by: the runs that are.
        bootstrap_frequency: how often it is on the frontier when the tasks are resampled. Near 1 or 0 it is certain.
    """

    point: ParetoPoint
    on_frontier: bool | None
    dominated_by: tuple[str, ...]
    bootstrap_frequency: float | None


class TaskSums:
    """Sums over a run's counted trials, by task: all that resampling tasks needs."""

    def __init__(self) -> None:
        self.tasks: dict[str, tuple[float, float, float, float]] = {}

    def accumulate(self, observations: Iterable[Observation]) -> Iterator[Observation]:
        """Yield the observations again, and add each to the sums."""
        for one in observations:
            if one.counted:
                count, resolved, cost, seconds = self.tasks.get(one.task_id, (0.0, 0.0, 0.0, 0.0))
                cost += one.cost_usd or 0.0
                self.tasks[one.task_id] = (count + 1, resolved + one.resolved, cost, seconds + one.agent_seconds)
            yield one


def pareto_results(
    points: Sequence[ParetoPoint],
    sums: Mapping[str, TaskSums],
    *,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = _RESAMPLES,
) -> tuple[ParetoResult, ...]:
    """Every run's position. Runs in `sums` get a bootstrap frequency."""
    placed = {point.run: numbers for point in points if (numbers := _objective_values(point, objectives)) is not None}
    resampled = {run: sums[run] for run in placed if run in sums}
    frequencies = frontier_frequencies(resampled, objectives=objectives, resamples=resamples)
    found = []
    for point in points:
        own = placed.get(point.run)
        better = tuple(run for run, other in placed.items() if own is not None and dominates(other, own))
        found.append(
            ParetoResult(
                point=point,
                on_frontier=None if own is None else not better,
                dominated_by=better,
                bootstrap_frequency=frequencies.get(point.run),
            )
        )
    return tuple(found)


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """At least as good in every objective, and better in one; higher is better in all of them."""
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(a > b for a, b in zip(one, other, strict=True))


def frontier_frequencies(
    sums: Mapping[str, TaskSums],
    *,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = _RESAMPLES,
) -> dict[str, float]:
    """How often each run is on the frontier when tasks are resampled, with every run's trials of them.

    A task that a run does not have is left out of that run's means. The seed is fixed: the same data give the same
    frequencies.
    """
    tasks = sorted({task for run in sums.values() for task in run.tasks})
    if not tasks:
        return {}
    columns = {run: _task_columns(of, tasks, objectives) for run, of in sums.items()}
    draw = random.Random(_SEED)  # noqa: S311 - draws for statistics, not for secrets
    counts = dict.fromkeys(sums, 0)
    indices = range(len(tasks))
    for _ in range(resamples):
        drawn = draw.choices(indices, k=len(tasks))
        means = {run: mean for run, table in columns.items() if (mean := _resampled_means(table, drawn)) is not None}
        for run in _frontier(means):
            counts[run] += 1
    return {run: count / resamples for run, count in counts.items()}


def _frontier(means: Mapping[str, tuple[float, ...]]) -> list[str]:
    """The runs that no other dominates. In this order no run is dominated by a later one."""
    frontier: list[str] = []
    for run in sorted(means, key=means.__getitem__, reverse=True):
        if not any(dominates(means[other], means[run]) for other in frontier):
            frontier.append(run)
    return frontier


def _objective_values(point: ParetoPoint, objectives: Sequence[Objective]) -> tuple[float, ...] | None:
    """Values of which higher is better: the rate, and cost and time negated."""
    values: dict[Objective, float | None] = {
        "rate": point.rate.value if point.rate else None,
        "cost": -point.cost.value if point.cost else None,
        "seconds": -point.seconds.value if point.seconds else None,
    }
    chosen = [values[objective] for objective in objectives]
    known = tuple(value for value in chosen if value is not None)
    return known if len(known) == len(chosen) else None


def _task_columns(sums: TaskSums, tasks: Sequence[str], objectives: Sequence[Objective]) -> list[list[float]]:
    """Sums by task: the number of trials, then each objective, such that higher is better."""
    rows = [sums.tasks.get(task, (0.0, 0.0, 0.0, 0.0)) for task in tasks]
    columns: dict[Objective, list[float]] = {
        "rate": [resolved for _, resolved, _, _ in rows],
        "cost": [-cost for _, _, cost, _ in rows],
        "seconds": [-seconds for *_, seconds in rows],
    }
    return [[count for count, *_ in rows], *(columns[objective] for objective in objectives)]


def _resampled_means(table: Sequence[Sequence[float]], indices: Sequence[int]) -> tuple[float, ...] | None:
    count, *sums = [sum(map(column.__getitem__, indices)) for column in table]
    return tuple(total / count for total in sums) if count else None
