"""Rate, cost and time together: which runs nothing else beats in all three, and how sure that is."""

import random
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from proctor.analysis.intervals import Estimate
from proctor.analysis.observation import Observation
from proctor.core.record import Record

Objective = Literal["rate", "cost", "seconds"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("rate", "cost", "seconds")
_RESAMPLES: Final = 400
_SEED: Final = 20260215


class Point(Record):
    """One run: its rate, and the mean cost and time of an answer; None where that is not known."""

    run: str
    rate: Estimate | None
    cost: Estimate | None
    seconds: Estimate | None


class Standing(Record):
    """Where a run stands.

    Attributes:
        on_front: no other run is at least as good in every objective and better in one; None where a number is missing.
        dominated_by: the runs that are.
        share: how often it is on the front when the tasks are drawn again: near 1 or 0 it is sure, near ½ it is not.
    """

    point: Point
    on_front: bool | None
    dominated_by: tuple[str, ...]
    share: float | None


def standings(
    points: Sequence[Point],
    answers: Mapping[str, Mapping[str, Sequence[Observation]]],
    *,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = _RESAMPLES,
) -> tuple[Standing, ...]:
    """Every run's standing. `answers` has runs' counted answers by task, where it is to be said how sure they are."""
    placed = {point.run: numbers for point in points if (numbers := _numbers(point, objectives)) is not None}
    drawn = {run: answers[run] for run in placed if run in answers}
    shares = front_shares(drawn, objectives=objectives, resamples=resamples)
    found = []
    for point in points:
        mine = placed.get(point.run)
        better = tuple(run for run, other in placed.items() if mine is not None and dominates(other, mine))
        on_front = None if mine is None else not better
        found.append(Standing(point=point, on_front=on_front, dominated_by=better, share=shares.get(point.run)))
    return tuple(found)


def dominates(one: Sequence[float], other: Sequence[float]) -> bool:
    """At least as good in every objective, and better in one; more is better in all of them."""
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(a > b for a, b in zip(one, other, strict=True))


def front_shares(
    answers: Mapping[str, Mapping[str, Sequence[Observation]]],
    *,
    objectives: Sequence[Objective] = OBJECTIVES,
    resamples: int = _RESAMPLES,
    seed: int = _SEED,
) -> dict[str, float]:
    """How often each run is on the front when tasks are drawn again, with every run's answers to them.

    A run that lacks a task does without it. The draws repeat: same data, same shares.
    """
    tasks = sorted({task for run in answers.values() for task in run})
    if not tasks:
        return {}
    columns = {run: _columns(of, tasks, objectives) for run, of in answers.items()}
    draw = random.Random(seed)  # noqa: S311 - draws for statistics, not for secrets
    counts = dict.fromkeys(answers, 0)
    places = range(len(tasks))
    for _ in range(resamples):
        drawn = draw.choices(places, k=len(tasks))
        means = {run: mean for run, table in columns.items() if (mean := _drawn(table, drawn)) is not None}
        for run, mine in means.items():
            counts[run] += not any(dominates(other, mine) for other in means.values())
    return {run: count / resamples for run, count in counts.items()}


def _numbers(point: Point, objectives: Sequence[Objective]) -> tuple[float, ...] | None:
    """What is better when it is more: the rate as it is, cost and time turned round."""
    values: dict[Objective, float | None] = {
        "rate": point.rate.value if point.rate else None,
        "cost": -point.cost.value if point.cost else None,
        "seconds": -point.seconds.value if point.seconds else None,
    }
    chosen = [values[objective] for objective in objectives]
    known = tuple(value for value in chosen if value is not None)
    return known if len(known) == len(chosen) else None


def _columns(
    answers: Mapping[str, Sequence[Observation]], tasks: Sequence[str], objectives: Sequence[Objective]
) -> list[list[float]]:
    """Sums by task: the number of answers, then each objective."""
    counts = [float(len(answers.get(task, ()))) for task in tasks]
    sums = [[sum(_worth(answer, name) for answer in answers.get(task, ())) for task in tasks] for name in objectives]
    return [counts, *sums]


def _worth(answer: Observation, objective: Objective) -> float:
    match objective:
        case "rate":
            return float(answer.resolved)
        case "cost":
            return -(answer.cost_usd or 0.0)
        case "seconds":
            return -answer.answer_seconds


def _drawn(table: Sequence[Sequence[float]], places: Sequence[int]) -> tuple[float, ...] | None:
    count, *sums = [sum(map(column.__getitem__, places)) for column in table]
    return tuple(total / count for total in sums) if count else None
