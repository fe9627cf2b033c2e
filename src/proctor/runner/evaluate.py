"""Predictions in, verdicts out: many tasks at once, each verdict kept as soon as it is known.

An evaluation that was interrupted goes on where it stopped when it is started again: what was graded is in the cache.
"""

import errno
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from proctor.core.benchmark import Benchmark, GradeOptions, Health, Place
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InfrastructureError, LimitReached, ProctorError
from proctor.core.evaluation import Evaluated, EvaluationSummary, Prediction
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.results import RecordCache
from proctor.results.cache import cache_key
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
    place = Place(provider=provider, folder=artifacts, options=options)

    async def one(task: Task) -> Evaluated:
        prediction = predictions.get(task.id)
        if prediction is None:
            evaluated = ungraded(task, Cause.NO_SUBMISSION, "no prediction for this task")
        else:
            evaluated = await _graded_once(benchmark, task, prediction, place, cache)
        done(evaluated)
        return evaluated

    return await in_parallel(one, tasks, jobs)


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
    place = Place(provider=provider, folder=artifacts, options=options)

    async def one(task: Task) -> Health:
        try:
            health = await benchmark.validate(task, place)
        except (ProctorError, OSError) as error:
            health = Health(
                task_id=task.id,
                environment="",
                healthy=False,
                baseline_ok=False,
                oracle_ok=False,
                determinism_ok=False,
                problems=(f"could not be tried here: {error}",),
            )
        done(health)
        return health

    return await in_parallel(one, tasks, jobs)


def ungraded(task: Task, cause: Cause, reason: str) -> Evaluated:
    """The record of a task that no grader has seen."""
    status = CONSEQUENCES[cause].status or Status.ERROR
    return Evaluated(
        task_id=task.id,
        tags=task.tags,
        verdict=Verdict(task_id=task.id, status=status, cause=cause, reason=reason),
    )


def summarise(evaluated: Iterable[Evaluated], seconds: float) -> EvaluationSummary:
    """The statuses, counted."""
    counts: dict[Status, int] = dict.fromkeys(Status, 0)
    for one in evaluated:
        counts[one.verdict.status] += 1
    return EvaluationSummary(
        total=sum(counts.values()),
        resolved=counts[Status.RESOLVED],
        unresolved=counts[Status.UNRESOLVED],
        errors=counts[Status.ERROR],
        skipped=counts[Status.SKIPPED],
        seconds=round(seconds, 3),
    )


def cause_of(error: ProctorError | OSError) -> Cause:
    """Which cause an error that ended a task's grading stands for."""
    if isinstance(error, InfrastructureError) and error.cause is not None:
        return error.cause
    if isinstance(error, OSError):
        return Cause.DISK_FULL if error.errno in {errno.ENOSPC, errno.EDQUOT} else Cause.ENVIRONMENT_FAILED
    if isinstance(error, LimitReached):
        return Cause.GRADER_FAILED
    return Cause.ENGINE_GONE if error.retryable else Cause.ENVIRONMENT_FAILED


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
            return msgspec.structs.replace(known, cached=True, model=prediction.model)
        evaluated = await benchmark.grade(task, prediction, place)
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
        await place.provider.digest(place.options.image),
        benchmark.fingerprint(task),
        prediction.patch_kind,
        hashlib.sha256(prediction.content).hexdigest(),
        msgspec.json.encode(place.options).decode(),
    )
