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
    GradingContext,
    InvalidTask,
    TaskHealth,
)
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import ProctorError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.paths import HEALTH_CACHE
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.runner.errors import cause_of
from proctor.runner.parallel import run_in_parallel
from proctor.runner.prefetch import EnvironmentPrefetcher

# A verdict that says something about the answer is worth keeping; one that says something about this hour is not.
_CACHED_STATUSES: Final = frozenset({Status.RESOLVED, Status.UNRESOLVED})


async def evaluate(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    predictions: Mapping[str, Prediction],
    *,
    provider: EnvironmentProvider,
    options: GradeOptions,
    artifacts: Path,
    jobs: int,
    cache: RecordCache[TaskEvaluation] | None,
    on_evaluated: Callable[[TaskEvaluation], None],
) -> tuple[TaskEvaluation, ...]:
    """Grade every task's prediction, `jobs` at a time; `done` hears of each as it ends. In the order of `tasks`."""
    benchmark = benchmark.for_provider(provider)
    place = GradingContext(provider=provider, folder=artifacts, options=options, use_cache=cache is not None)
    under_way = jobs
    if benchmark.uses_permit:
        # One more is made ready while these run.
        under_way, place = jobs + 1, replace(place, permit=asyncio.Semaphore(jobs))
    rooms = EnvironmentPrefetcher(provider, benchmark, options)
    rooms.prefetch(task for task in tasks if task.id in predictions)

    async def one(task: Task) -> TaskEvaluation:
        prediction = predictions.get(task.id)
        if prediction is None:
            # Where a benchmark's own harness counts over the whole exam, a missing answer is a wrong one.
            missing = Cause.EMPTY if benchmark.missing_is_empty else Cause.NO_SUBMISSION
            evaluated = ungraded_evaluation(task, missing, "no prediction for this task")
        else:
            evaluated = await _grade_cached(benchmark, task, prediction, place, cache)
            healthy = await _is_healthy(benchmark, task, place)
            evaluated = msgspec.structs.replace(evaluated, healthy=healthy)
            rooms.release(task)
        on_evaluated(evaluated)
        return evaluated

    return await run_in_parallel(one, tasks, under_way)


async def validate(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    *,
    provider: EnvironmentProvider,
    options: GradeOptions,
    artifacts: Path,
    jobs: int,
    on_validated: Callable[[TaskHealth], None],
) -> tuple[TaskHealth, ...]:
    """Prove every task on this machine, `jobs` at a time; `done` hears of each as it ends. In the order of `tasks`."""
    benchmark = benchmark.for_provider(provider)
    place = GradingContext(provider=provider, folder=artifacts, options=options)
    known = health_cache()
    rooms = EnvironmentPrefetcher(provider, benchmark, options)
    rooms.prefetch(tasks)

    async def one(task: Task) -> TaskHealth:
        try:
            health = await benchmark.validate(task, place)
            known.put(await health_key(benchmark, task, place), health)
        except (ProctorError, OSError) as error:
            health = invalid_task_health(InvalidTask(task_id=task.id, problems=(f"could not be tried here: {error}",)))
            if cause_of(error) is Cause.NOT_RUNNABLE_HERE:
                health = msgspec.structs.replace(health, problems=(), skipped=str(error))
        rooms.release(task)
        on_validated(health)
        return health

    return await run_in_parallel(one, tasks, jobs)


def health_cache() -> RecordCache[TaskHealth]:
    """What `validate` has learned on this machine."""
    return RecordCache(TaskHealth, HEALTH_CACHE)


async def health_key(benchmark: Benchmark, task: Task, context: GradingContext) -> str:
    """Health holds for a task's data, among the programs of a room, under one grader."""
    room = benchmark.environment_spec(task, context.options)
    return cache_key(benchmark.grader, await context.provider.digest(room), benchmark.fingerprint(task))


async def _is_healthy(benchmark: Benchmark, task: Task, context: GradingContext) -> bool | None:
    """Whether the task proved sound here; None when nobody has tried."""
    try:
        health = health_cache().get(await health_key(benchmark, task, context))
    except ProctorError:
        return None  # no room for it can be had here, so nobody can have tried
    return None if health is None else health.healthy


def invalid_task_health(task: InvalidTask) -> TaskHealth:
    """The health of a task that could not even be tried."""
    return TaskHealth(
        task_id=task.task_id,
        environment="",
        healthy=False,
        pre_patch_ok=False,
        oracle_ok=False,
        determinism_ok=False,
        problems=task.problems,
    )


def ungraded_evaluation(task: Task, cause: Cause, reason: str) -> TaskEvaluation:
    """The record of a task that no grader has seen."""
    status = CONSEQUENCES[cause].status or Status.ERROR
    return TaskEvaluation(
        task_id=task.id,
        tags=task.tags,
        verdict=Verdict(task_id=task.id, status=status, cause=cause, reason=reason),
    )


def invalid_task_evaluation(task: InvalidTask) -> TaskEvaluation:
    """The record of a task whose data is broken."""
    reason = "; ".join(task.problems)
    verdict = Verdict(task_id=task.task_id, status=Status.ERROR, cause=Cause.INVALID_TASK, reason=reason)
    return TaskEvaluation(task_id=task.task_id, verdict=verdict)


async def _grade_cached(
    benchmark: Benchmark,
    task: Task,
    prediction: Prediction,
    context: GradingContext,
    cache: RecordCache[TaskEvaluation] | None,
) -> TaskEvaluation:
    try:
        key = await _verdict_key(benchmark, task, prediction, context)
        known = cache.get(key) if cache else None
        if known is not None:
            return msgspec.structs.replace(known, model=prediction.model)
        evaluated = await benchmark.grade(task, prediction, context)
        # Once more: what a verdict depends on may have been installed for it.
        key = await _verdict_key(benchmark, task, prediction, context)
    except (ProctorError, OSError) as error:
        return ungraded_evaluation(task, cause_of(error), str(error))
    evaluated = msgspec.structs.replace(evaluated, verdict=msgspec.structs.replace(evaluated.verdict, cache_key=key))
    if cache and evaluated.verdict.status in _CACHED_STATUSES:
        cache.put(key, evaluated)
    return evaluated


async def _verdict_key(benchmark: Benchmark, task: Task, prediction: Prediction, context: GradingContext) -> str:
    """Everything that a verdict depends on."""
    return cache_key(
        benchmark.grader,
        await context.provider.digest(benchmark.environment_spec(task, context.options)),
        benchmark.fingerprint(task),
        prediction.patch_kind,
        hashlib.sha256(prediction.content).hexdigest(),
        msgspec.json.encode(context.options).decode(),
    )
