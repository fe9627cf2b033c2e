"""From predictions to verdicts: many tasks at once, each verdict cached as soon as it is known.

An evaluation that was interrupted continues where it stopped when it is started again: what was graded is in the cache.
"""

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks import reopen
from proctor.core.benchmark import (
    Benchmark,
    GradeOptions,
    GradingContext,
    InvalidTask,
    TaskHealth,
)
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.disk_names import disk_name
from proctor.core.errors import ProctorError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.files import HEALTH_CACHE, write_atomic
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.environments import provider as find_provider
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.runner.errors import CRASH_LOG, crash_log, failure_of, grading_cause, reraise_if_cancelled
from proctor.runner.parallel import run_in_parallel
from proctor.runner.prefetch import prefetch_environments, release_environment

Grade = Callable[[Task, Prediction, GradingContext], Awaitable[TaskEvaluation]]
Prove = Callable[[Task, GradingContext], Awaitable[TaskHealth]]
# The digest that a task's environment has.
Digest = Callable[[Task], Awaitable[str]]
# A verdict on the submission is worth keeping; an error, which depends on when it happened, is not.
_CACHED_STATUSES: Final = frozenset({Status.RESOLVED, Status.UNRESOLVED})


async def evaluate(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    predictions: Mapping[str, Prediction],
    context: GradingContext,
    *,
    jobs: int = 1,
    on_evaluated: Callable[[TaskEvaluation], None] = lambda _: None,
    on_started: Callable[[str], None] = lambda _: None,
    grade: Grade | None = None,
    digest: Digest | None = None,
) -> tuple[TaskEvaluation, ...]:
    """Grade every task's prediction, `jobs` at a time, in the order of `tasks`; `on_evaluated` receives each.

    `on_started` receives the id of each task that is graded, before it is. `grade` is used instead of the benchmark's
    own where grading takes place elsewhere, and `digest` instead of the provider's.
    """
    benchmark = benchmark.for_provider(context.provider)
    digest = digest or _own_digest(benchmark, context)
    cache = RecordCache(TaskEvaluation, "evaluations") if context.use_cache else None
    running = jobs
    if benchmark.uses_permit and grade is None:
        # One more is prepared while these run.
        running, context = jobs + 1, replace(context, permit=asyncio.Semaphore(jobs))
    if grade is None:
        predicted = [task for task in tasks if task.id in predictions]
        prefetch_environments(context.provider, benchmark, predicted, context.options)

    async def one(task: Task) -> TaskEvaluation:
        prediction = predictions.get(task.id)
        if prediction is None:
            # Where a benchmark's own harness counts over all tasks, a missing prediction is a wrong one.
            missing = Cause.EMPTY if benchmark.missing_is_empty else Cause.NO_SUBMISSION
            evaluated = ungraded_evaluation(task, missing, "no prediction for this task")
        else:
            on_started(task.id)
            evaluated = await _grade_cached(
                benchmark, task, prediction, context, cache=cache, grade=grade or benchmark.grade, digest=digest
            )
            healthy = await _is_healthy(benchmark, task, digest)
            evaluated = msgspec.structs.replace(evaluated, healthy=healthy)
            release_environment(context.provider, benchmark, task, context.options)
        on_evaluated(evaluated)
        return evaluated

    return await run_in_parallel(one, tasks, running)


async def validate(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    context: GradingContext,
    *,
    jobs: int,
    on_validated: Callable[[TaskHealth], None],
    on_started: Callable[[str], None] = lambda _: None,
    prove: Prove | None = None,
    digest: Digest | None = None,
) -> tuple[TaskHealth, ...]:
    """Prove every task on this machine, `jobs` at a time, in the order of `tasks`; `on_validated` receives each.

    `on_started` receives the id of each, before it is tried. `prove` is used instead of the benchmark's own
    `validate` where that takes place elsewhere, and `digest` instead of the provider's.
    """
    benchmark = benchmark.for_provider(context.provider)
    digest = digest or _own_digest(benchmark, context)
    known = health_cache()
    if prove is None:
        prefetch_environments(context.provider, benchmark, tasks, context.options)

    async def one(task: Task) -> TaskHealth:
        on_started(task.id)
        try:
            health = await (prove or benchmark.validate)(task, context)
            known.put(await _health_key(benchmark, task, digest), health)
        except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the others
            cause, detail = _grading_failure(error, task, context)
            health = invalid_task_health(InvalidTask(task_id=task.id, problems=(f"could not be tried here: {detail}",)))
            if cause is Cause.NOT_RUNNABLE_HERE:
                health = msgspec.structs.replace(health, problems=(), skipped=str(error))
        release_environment(context.provider, benchmark, task, context.options)
        on_validated(health)
        return health

    return await run_in_parallel(one, tasks, jobs)


def health_cache() -> RecordCache[TaskHealth]:
    """What `validate` has learned on this machine."""
    return RecordCache(TaskHealth, HEALTH_CACHE)


def _own_digest(benchmark: Benchmark, context: GradingContext) -> Digest:
    """What the digest of a task's environment is on this machine."""

    async def digest(task: Task) -> str:
        return await context.provider.digest(benchmark.environment_spec(task, context.options))

    return digest


async def _health_key(benchmark: Benchmark, task: Task, digest: Digest) -> str:
    """Health holds for a task's data, among the programs of an environment, under one grader."""
    return cache_key(benchmark.grader, await digest(task), benchmark.fingerprint(task))


async def read_health(config: RunConfig, task_ids: Iterable[str]) -> dict[str, bool]:
    """What `validate` found, of those of these tasks that it has tried in environments like this run's.

    With docker, an image that is not on this machine is pulled to learn its digest.
    """
    try:
        benchmark = reopen(config.benchmark, config.source, config.split).with_verifier(config.verifier)
    except ProctorError:
        return {}  # its data is gone, so nothing can be known of it
    given = {"image_map": config.image_map, "force_build": config.force_build}
    options = {name: value for name, value in given.items() if value}
    provider = find_provider(config.runner, isolation=config.isolation, **options)
    context = GradingContext(provider=provider, folder=Path(), options=GradeOptions(image=config.image))
    wanted, known, found = set(task_ids), health_cache(), {}
    try:
        for task in benchmark.tasks():
            if task.id in wanted:
                health = known.get(await _health_key(benchmark, task, _own_digest(benchmark, context)))
                if health is not None:
                    found[task.id] = health.healthy
    except ProctorError:
        return {}  # no environment for it can be made here, so it cannot have been tried
    finally:
        await provider.close()
    return found


async def _is_healthy(benchmark: Benchmark, task: Task, digest: Digest) -> bool | None:
    """Whether the task proved sound here; None when it was not tried."""
    try:
        health = health_cache().get(await _health_key(benchmark, task, digest))
    except ProctorError:
        return None  # no environment for it can be made here, so it cannot have been tried
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
    *,
    cache: RecordCache[TaskEvaluation] | None,
    grade: Grade,
    digest: Digest,
) -> TaskEvaluation:
    try:
        key = await _verdict_key(benchmark, task, prediction, context.options, digest)
        known = cache.get(key) if cache else None
        if known is not None:
            return msgspec.structs.replace(known, model=prediction.model)
        evaluated = await grade(task, prediction, context)
        # Once more: what a verdict depends on may have been installed for it.
        key = await _verdict_key(benchmark, task, prediction, context.options, digest)
    except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the others
        return ungraded_evaluation(task, *_grading_failure(error, task, context))
    evaluated = msgspec.structs.replace(evaluated, verdict=msgspec.structs.replace(evaluated.verdict, cache_key=key))
    if cache and evaluated.verdict.status in _CACHED_STATUSES:
        cache.put(key, evaluated)
    return evaluated


def _grading_failure(error: Exception, task: Task, context: GradingContext) -> tuple[Cause, str]:
    """The cause and the detail of what ended a task's grading; a mistake leaves its traceback among the artifacts."""
    reraise_if_cancelled(error)
    crashed = crash_log(error)
    if crashed is not None:
        with contextlib.suppress(OSError):  # what is said of it is printed in any case
            folder = context.folder / disk_name(task.id)
            folder.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / CRASH_LOG, crashed)
    return failure_of(error, grading_cause)


async def _verdict_key(
    benchmark: Benchmark, task: Task, prediction: Prediction, options: GradeOptions, digest: Digest
) -> str:
    """Everything that a verdict depends on."""
    return cache_key(
        benchmark.grader,
        await digest(task),
        benchmark.fingerprint(task),
        prediction.patch_kind,
        hashlib.sha256(prediction.content).hexdigest(),
        msgspec.json.encode(options).decode(),
    )
