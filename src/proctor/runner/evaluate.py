"""Predictions in, verdicts out: many tasks at once, each verdict kept as soon as it is known.

An evaluation that was interrupted goes on where it stopped when it is started again: what was graded is in the cache.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.benchmark import (
    Benchmark,
    GradeOptions,
    Health,
    Place,
    ReadsPredictions,
    TakesTurns,
    Unusable,
    sited,
)
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import ProctorError
from proctor.core.evaluation import Evaluated, Prediction
from proctor.core.places import HEALTH_CACHE
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.runner.ahead import Rooms
from proctor.runner.errors import cause_of
from proctor.runner.parallel import in_parallel

# A verdict that says something about the answer is worth keeping; one that says something about this hour is not.
_KEPT: Final = frozenset({Status.RESOLVED, Status.UNRESOLVED})


async def evaluate(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    predictions: Mapping[str, Prediction],
    *,
    provider: EnvironmentProvider,
    options: GradeOptions,
    artifacts: Path,
    jobs: int,
    cache: RecordCache[Evaluated] | None,
    done: Callable[[Evaluated], None],
) -> tuple[Evaluated, ...]:
    """Grade every task's prediction, `jobs` at a time; `done` hears of each as it ends. In the order of `tasks`."""
    benchmark = sited(benchmark, provider)
    place = Place(provider=provider, folder=artifacts, options=options, use_cache=cache is not None)
    under_way = jobs
    if isinstance(benchmark, TakesTurns):
        # One more is made ready while these run.
        under_way, place = jobs + 1, replace(place, turn=asyncio.Semaphore(jobs))
    rooms = Rooms(provider, benchmark, options)
    rooms.expect(task for task in tasks if task.id in predictions)

    async def one(task: Task) -> Evaluated:
        prediction = predictions.get(task.id)
        if prediction is None:
            # Where a benchmark's own harness counts over the whole exam, a missing answer is a wrong one.
            missing = Cause.EMPTY if isinstance(benchmark, ReadsPredictions) else Cause.NO_SUBMISSION
            evaluated = ungraded(task, missing, "no prediction for this task")
        else:
            evaluated = await _graded_once(benchmark, task, prediction, place, cache)
            healthy = await _is_healthy(benchmark, task, place)
            evaluated = msgspec.structs.replace(evaluated, healthy=healthy)
            rooms.finished(task)
        done(evaluated)
        return evaluated

    return await in_parallel(one, tasks, under_way)


async def validate(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    *,
    provider: EnvironmentProvider,
    options: GradeOptions,
    artifacts: Path,
    jobs: int,
    done: Callable[[Health], None],
) -> tuple[Health, ...]:
    """Prove every task on this machine, `jobs` at a time; `done` hears of each as it ends. In the order of `tasks`."""
    benchmark = sited(benchmark, provider)
    place = Place(provider=provider, folder=artifacts, options=options)
    known = known_healths()
    rooms = Rooms(provider, benchmark, options)
    rooms.expect(tasks)

    async def one(task: Task) -> Health:
        try:
            health = await benchmark.validate(task, place)
            known.put(await health_key(benchmark, task, place), health)
        except (ProctorError, OSError) as error:
            health = broken_health(Unusable(task_id=task.id, problems=(f"could not be tried here: {error}",)))
            if cause_of(error) is Cause.NOT_RUNNABLE_HERE:
                health = msgspec.structs.replace(health, problems=(), skipped=str(error))
        rooms.finished(task)
        done(health)
        return health

    return await in_parallel(one, tasks, jobs)


def known_healths() -> RecordCache[Health]:
    """What `validate` has learned on this machine."""
    return RecordCache(Health, HEALTH_CACHE)


async def health_key(benchmark: Benchmark, task: Task, place: Place) -> str:
    """Health holds for a task's data, among the programs of a room, under one grader."""
    room = benchmark.room(task, place.options)
    return cache_key(benchmark.grader, await place.provider.digest(room), benchmark.fingerprint(task))


async def _is_healthy(benchmark: Benchmark, task: Task, place: Place) -> bool | None:
    """Whether the task proved sound here; None when nobody has tried."""
    try:
        health = known_healths().get(await health_key(benchmark, task, place))
    except ProctorError:
        return None  # no room for it can be had here, so nobody can have tried
    return None if health is None else health.healthy


def broken_health(bad: Unusable) -> Health:
    """The health of a task that could not even be tried."""
    return Health(
        task_id=bad.task_id,
        environment="",
        healthy=False,
        baseline_ok=False,
        oracle_ok=False,
        determinism_ok=False,
        problems=bad.problems,
    )


def ungraded(task: Task, cause: Cause, reason: str) -> Evaluated:
    """The record of a task that no grader has seen."""
    status = CONSEQUENCES[cause].status or Status.ERROR
    return Evaluated(
        task_id=task.id,
        tags=task.tags,
        verdict=Verdict(task_id=task.id, status=status, cause=cause, reason=reason),
    )


def unusable(bad: Unusable) -> Evaluated:
    """The record of a task whose data is broken."""
    reason = "; ".join(bad.problems)
    verdict = Verdict(task_id=bad.task_id, status=Status.ERROR, cause=Cause.INVALID_TASK, reason=reason)
    return Evaluated(task_id=bad.task_id, verdict=verdict)


async def _graded_once(
    benchmark: Benchmark,
    task: Task,
    prediction: Prediction,
    place: Place,
    cache: RecordCache[Evaluated] | None,
) -> Evaluated:
    try:
        key = await _key(benchmark, task, prediction, place)
        known = cache.get(key) if cache else None
        if known is not None:
            return msgspec.structs.replace(known, model=prediction.model)
        evaluated = await benchmark.grade(task, prediction, place)
        # Once more: what a verdict depends on may have been installed for it.
        key = await _key(benchmark, task, prediction, place)
    except (ProctorError, OSError) as error:
        return ungraded(task, cause_of(error), str(error))
    evaluated = msgspec.structs.replace(evaluated, verdict=msgspec.structs.replace(evaluated.verdict, cache_key=key))
    if cache and evaluated.verdict.status in _KEPT:
        cache.put(key, evaluated)
    return evaluated


async def _key(benchmark: Benchmark, task: Task, prediction: Prediction, place: Place) -> str:
    """Everything that a verdict depends on."""
    return cache_key(
        benchmark.grader,
        await place.provider.digest(benchmark.room(task, place.options)),
        benchmark.fingerprint(task),
        prediction.patch_kind,
        hashlib.sha256(prediction.content).hexdigest(),
        msgspec.json.encode(place.options).decode(),
    )
