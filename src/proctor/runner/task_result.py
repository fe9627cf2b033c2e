"""From attempts to a result, which keeps every attempt with its cause, its cost and its logs."""

from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import InvalidData
from proctor.core.evaluation import TaskEvaluation
from proctor.core.record import read_record
from proctor.core.result import AgentMetrics, Attempt, ModelUsage, TaskResult, sum_usage
from proctor.core.run import Trial
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.gateway import Prices
from proctor.results import RunStore
from proctor.results.attempt_record import RECORDING_FILE, AttemptRecord, GradingRecord, attempt_file
from proctor.runner.run_cost import recording_usage


def attempt_entry(store: RunStore, trial: Trial, record: AttemptRecord) -> Attempt:
    """An attempt that has ended."""
    return Attempt(
        number=record.number,
        started_at=record.started_at,
        ended_at=record.ended_at,
        cause=record.cause or Cause.ANSWERED,
        detail=record.detail,
        logs=_logs_path(store, trial, record.number),
        usage=record.usage,
        node=record.node,
        machine=record.machine,
    )


def stored_attempt_entry(store: RunStore, trial: Trial, number: int, started_at: str, prices: Prices) -> Attempt:
    """An attempt of an earlier session; of one that was killed, what its recording has."""
    logs = store.logs(trial.task_id, trial.number, number)
    if (file := attempt_file(logs)).exists():
        with suppress(InvalidData):  # it cannot be read: what follows is all that is known of it
            return attempt_entry(store, trial, read_record(file, AttemptRecord))
    recording = logs / RECORDING_FILE
    # When it was last known to run.
    seen = datetime.fromtimestamp(recording.stat().st_mtime, UTC) if recording.exists() else None
    return Attempt(
        number=number,
        started_at=started_at,
        ended_at=seen.isoformat(timespec="milliseconds") if seen else started_at,
        cause=Cause.INTERRUPTED,
        detail="the run was stopped before the agent was done",
        logs=_logs_path(store, trial, number),
        usage=recording_usage(recording, prices),
    )


def make_task_result(
    run_id: str,
    task: Task,
    trial: Trial,
    *,
    record: AttemptRecord,
    graded: GradingRecord | None,
    attempts: tuple[Attempt, ...],
) -> TaskResult:
    """The recorded result of a trial."""
    evaluated = graded.evaluation if graded else None
    status, cause = status_and_cause(record, evaluated)
    verdict = None
    if evaluated is not None:
        verdict = msgspec.structs.replace(evaluated.verdict, findings=(*record.findings, *evaluated.verdict.findings))
    return TaskResult(
        run_id=run_id,
        benchmark=task.benchmark,
        task_id=trial.task_id,
        trial=trial.number,
        status=status,
        cause=cause,
        verdict=verdict,
        attempts=attempts,
        usage=sum_usage(usage for attempt in attempts for usage in attempt.usage),
        metrics=record.metrics,
        agent_seconds=record.seconds,
        grade_seconds=_grade_seconds(record, graded),
        categories=task.categories,
        web=record.web,
        altered=record.altered,
        steps=record.steps,
    )


def with_attempt_usage(result: TaskResult, number: int, usage: tuple[ModelUsage, ...]) -> TaskResult:
    """A result in which one attempt has used this, as came to be known later."""
    attempts = tuple(
        msgspec.structs.replace(attempt, usage=usage) if attempt.number == number else attempt
        for attempt in result.attempts
    )
    return msgspec.structs.replace(
        result, attempts=attempts, usage=sum_usage(used for attempt in attempts for used in attempt.usage)
    )


def skipped_result(run_id: str, task: Task, trial: Trial, reason: str) -> TaskResult:
    """The recorded result of a trial that cannot be run on this machine, so that no attempt was made."""
    status, cause = Status.SKIPPED, Cause.NOT_RUNNABLE_HERE
    return TaskResult(
        run_id=run_id,
        benchmark=task.benchmark,
        task_id=trial.task_id,
        trial=trial.number,
        status=status,
        cause=cause,
        verdict=Verdict(task_id=task.id, status=status, cause=cause, reason=reason),
        attempts=(),
        usage=(),
        metrics=AgentMetrics(),
        agent_seconds=0.0,
        grade_seconds=0.0,
        categories=task.categories,
    )


def status_and_cause(record: AttemptRecord, evaluation: TaskEvaluation | None) -> tuple[Status, Cause]:
    """The status and cause of a result: of the grade where there is one, else why there is none."""
    if evaluation is None:
        cause = record.cause or Cause.EMPTY
        return CONSEQUENCES[cause].status or Status.UNRESOLVED, cause
    verdict = evaluation.verdict
    if verdict.status is Status.UNRESOLVED and record.cause is not None:
        return verdict.status, record.cause  # it failed because it was cut short; the verdict has the rest
    return verdict.status, verdict.cause


def _grade_seconds(record: AttemptRecord, graded: GradingRecord | None) -> float:
    """How long grading took. A state is checked where the agent worked, when it is collected."""
    if graded is None:
        return 0.0
    return round(graded.seconds + (record.collect_seconds if record.patch_kind is PatchKind.STATE else 0.0), 3)


def _logs_path(store: RunStore, trial: Trial, number: int) -> str:
    return store.logs(trial.task_id, trial.number, number).relative_to(store.folder).as_posix()
