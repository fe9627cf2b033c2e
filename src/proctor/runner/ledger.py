"""From attempts to a result: every attempt stays in the ledger, with its cause, its cost and its logs."""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.evaluation import Evaluated
from proctor.core.record import read_record
from proctor.core.result import Attempt, ModelUsage, TaskResult
from proctor.core.task import Task
from proctor.results import RunStore
from proctor.results.answers import CASSETTE
from proctor.runner.records import ANSWER, Answer, Graded, Slot
from proctor.runner.spent import cassette_usage


def entry(store: RunStore, slot: Slot, answer: Answer) -> Attempt:
    """An attempt that came to its end."""
    return Attempt(
        number=answer.number,
        started_at=answer.started_at,
        ended_at=answer.ended_at,
        cause=answer.cause or Cause.ANSWERED,
        detail=answer.detail,
        logs=_where(store, slot, answer.number),
        usage=answer.usage,
    )


def stored_entry(store: RunStore, slot: Slot, number: int, began: str) -> Attempt:
    """An attempt of an earlier sitting; of one that was killed, what its recording tells."""
    logs = store.logs(slot.task_id, slot.sample, number)
    if (logs / ANSWER).exists():
        return entry(store, slot, read_record(logs / ANSWER, Answer))
    cassette = logs / CASSETTE
    # The last sign of life.
    seen = datetime.fromtimestamp(cassette.stat().st_mtime, UTC) if cassette.exists() else None
    return Attempt(
        number=number,
        started_at=began,
        ended_at=seen.isoformat(timespec="milliseconds") if seen else began,
        cause=Cause.INTERRUPTED,
        detail="the run was stopped before the agent was done",
        logs=_where(store, slot, number),
        usage=cassette_usage(cassette),
    )


def result(
    run_id: str, task: Task, slot: Slot, *, answer: Answer, graded: Graded | None, attempts: tuple[Attempt, ...]
) -> TaskResult:
    """What is recorded of a slot."""
    evaluated = graded.evaluated if graded else None
    status, cause = outcome(answer, evaluated)
    verdict = None
    if evaluated is not None:
        verdict = msgspec.structs.replace(evaluated.verdict, findings=(*answer.findings, *evaluated.verdict.findings))
    return TaskResult(
        run_id=run_id,
        benchmark=task.benchmark,
        task_id=slot.task_id,
        sample=slot.sample,
        status=status,
        cause=cause,
        verdict=verdict,
        attempts=attempts,
        usage=add_usage(usage for attempt in attempts for usage in attempt.usage),
        metrics=answer.metrics,
        answer_seconds=answer.seconds,
        grade_seconds=graded.seconds if graded else 0.0,
        categories=task.categories,
    )


def outcome(answer: Answer, evaluated: Evaluated | None) -> tuple[Status, Cause]:
    """What a result says: the grade where there is one, else why there is none."""
    if evaluated is None:
        cause = answer.cause or Cause.EMPTY
        return CONSEQUENCES[cause].status or Status.UNRESOLVED, cause
    verdict = evaluated.verdict
    if verdict.status is Status.UNRESOLVED and answer.cause is not None:
        return verdict.status, answer.cause  # it failed because it was cut short; the verdict has the rest
    return verdict.status, verdict.cause


def add_usage(usages: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """Usage of several attempts, by model."""
    found: dict[str, ModelUsage] = {}
    for usage in usages:
        known = found.get(usage.model)
        if known is None:
            found[usage.model] = usage
            continue
        cost = None if known.cost_usd is None or usage.cost_usd is None else known.cost_usd + usage.cost_usd
        found[usage.model] = ModelUsage(
            model=usage.model,
            requests=known.requests + usage.requests,
            tokens=known.tokens + usage.tokens,
            cost_usd=None if cost is None else round(cost, 12),
        )
    return tuple(found[model] for model in sorted(found))


def _where(store: RunStore, slot: Slot, number: int) -> str:
    return store.logs(slot.task_id, slot.sample, number).relative_to(store.folder).as_posix()
