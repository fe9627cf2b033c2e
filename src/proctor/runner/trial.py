"""Runs: every wanted answer from prepared to recorded, and on after whatever stopped it.

A slot is one wanted answer. Answering waits on the network and grading uses the CPU, so each has places of its own.
What is finished is in the journal and in files before the next stage starts; a run that is started again believes
those and nothing else.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import ProctorError, UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.record import Record, read_record, to_json
from proctor.core.result import Attempt, TaskResult
from proctor.core.run import JournalEntry, Stage
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.gateway import ExchangeFinished, GatewayFailure
from proctor.results import Journal, RunStore, usage_cost
from proctor.results.attempt_record import RECORDING_FILE, attempt_file
from proctor.results.store import attempt_dir_name
from proctor.runner import task_result
from proctor.runner.attempt import AttemptCallbacks, AttemptSpec, RunContext, run_attempt
from proctor.runner.errors import cause_of, error_text, reraise_if_cancelled
from proctor.runner.parallel import run_in_parallel
from proctor.runner.prefetch import EnvironmentPrefetcher
from proctor.runner.records import GRADING_FILE, AttemptRecord, GradingRecord, Trial
from proctor.runner.resume import TrialState

SleepFunction = Callable[[float], Awaitable[None]]


class TrialRetry(Record):
    """How often, and how patiently, what was not the agent's fault is tried again."""

    max_attempts: int = 3
    base_seconds: float = 2.0
    max_seconds: float = 120.0

    def delay(self, failures: int, jitter: float) -> float:
        """How long to wait after the `failed`th failure: doubling, with up to half of it more by chance."""
        return min(self.base_seconds * 2.0 ** (failures - 1), self.max_seconds) * (1 + jitter / 2)


class RunObserver(Protocol):
    """Is told how a run goes on."""

    def attempt_started(self, trial: Trial) -> None:
        """A slot's attempt has begun."""
        ...

    def progress(self, trial: Trial, message: str) -> None:
        """What is being done for a slot now."""
        ...

    def model_responded(self, trial: Trial, event: ExchangeFinished) -> None:
        """The model has answered the slot's agent."""
        ...

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        """An attempt failed without the agent's fault, and will be made again."""
        ...

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        """A slot's result is recorded; None: it was given up for now."""
        ...

    def run_stopping(self, cause: Cause, detail: str) -> None:
        """No slot can fare better, so no further one is begun."""
        ...


class NullObserver:
    """A `Watcher` that says nothing to anybody."""

    def attempt_started(self, trial: Trial) -> None:
        """Nothing."""

    def progress(self, trial: Trial, message: str) -> None:
        """Nothing."""

    def model_responded(self, trial: Trial, event: ExchangeFinished) -> None:
        """Nothing."""

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        """Nothing."""

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        """Nothing."""

    def run_stopping(self, cause: Cause, detail: str) -> None:
        """Nothing."""


class StopReason(Record):
    """What keeps a run from going on."""

    cause: Cause
    detail: str


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything that a sitting of a run goes by.

    Attributes:
        known: where each slot stands that was begun in an earlier sitting.
    """

    store: RunStore
    context: RunContext
    tasks: dict[str, Task]
    trials: Sequence[Trial]
    trial_states: dict[Trial, TrialState]
    grade_options: GradeOptions
    observer: RunObserver
    retry: TrialRetry
    sleep: SleepFunction = asyncio.sleep
    jitter: Callable[[], float] = random.random


class ConcurrencyLimits:
    """What runs that are made together share: the places at which agents and graders work, and when to stop."""

    def __init__(self, attempts: int, grading: int) -> None:
        self.total = attempts + grading
        self.attempts = asyncio.Semaphore(attempts)
        self.grading = asyncio.Semaphore(grading)
        self.stopped = asyncio.Event()
        self.stop_reason: StopReason | None = None
        self.usage_error: UsageError | None = None


async def run_trials(runs: Sequence[RunState], limits: ConcurrencyLimits) -> tuple[list[int], StopReason | None]:
    """Bring every slot of these runs to its end, or stop where none can fare better; what is left of each, and why.

    Several runs of the same tasks, in the same kind of rooms, take turns, task by task: what changes while they are
    made, such as a provider's mood, hits all alike.

    Raises:
        UsageError: a run cannot be made in this way; what was under way is finished first.
    """
    first = runs[0]
    rooms = EnvironmentPrefetcher(first.context.provider, first.context.benchmark, first.grade_options)
    async with AsyncExitStack() as stack:
        sittings = [
            RunSession(course, await stack.enter_async_context(Journal(course.store.journal)), limits, rooms)
            for course in runs
        ]
        turns = [(sittings[number], slot) for number, slot in interleave_trials([course.trials for course in runs])]
        rooms.prefetch(first.tasks[slot.task_id] for _, slot in turns)
        await run_in_parallel(lambda turn: turn[0].run_trial(turn[1]), turns, limits.total)
    if limits.usage_error is not None:
        raise limits.usage_error
    return [sitting.trials_left for sitting in sittings], limits.stop_reason


def interleave_trials(runs: Sequence[Sequence[Trial]]) -> list[tuple[int, Trial]]:
    """The slots of several runs, with the numbers of their runs: all runs take a slot up before the next one comes.

    Each slot begins with another run than the one before, so that none is always first. A slot that a run does not
    want, or has done with, is passed over.
    """
    order: dict[Trial, list[int]] = {}
    for number, slots in enumerate(runs):
        for slot in slots:
            order.setdefault(slot, []).append(number)
    # Runs that want more answers than others want their first ones as early as those; a stable sort keeps the rest.
    ranked = sorted(order.items(), key=lambda item: item[0].number)
    turns = []
    for place, (slot, numbers) in enumerate(ranked):
        shift = place % len(numbers)
        turns += [(number, slot) for number in (*numbers[shift:], *numbers[:shift])]
    return turns


class RunSession:
    """One sitting of a run, from its start or resumption to its end or interruption."""

    def __init__(
        self, state: RunState, journal: Journal, limits: ConcurrencyLimits, prefetcher: EnvironmentPrefetcher
    ) -> None:
        self.state = state
        self.journal = journal
        self.limits = limits
        self.prefetcher = prefetcher
        self.trials_left = 0

    @property
    def stopped(self) -> asyncio.Event:
        """Set when no further slot is to be begun."""
        return self.limits.stopped

    async def run_trial(self, trial: Trial) -> None:
        """Bring one slot as far as it will go."""
        standing = self.state.trial_states.get(trial, TrialState())
        work = TrialRunner(self, trial, standing)
        result = None
        try:
            answer = await work.run_attempts()
            if answer is not None:
                result = await work.grade_and_record(answer)
        except UsageError as error:
            self.limits.usage_error = self.limits.usage_error or error
            self.stop_run(StopReason(cause=Cause.INTERRUPTED, detail=str(error)))
        except OSError as error:
            # What cannot be written down is not done; the attempt's recording is there for the next sitting.
            reraise_if_cancelled(error)
            self.stop_run(StopReason(cause=cause_of(error), detail=f"the run cannot be written: {error_text(error)}"))
        finally:
            self.prefetcher.release(work.task)
        if result is None:
            self.trials_left += 1
        self.state.observer.trial_finished(trial, result)

    def stop_run(self, reason: StopReason) -> None:
        """Let no further slot be begun; what is under way goes on to its end."""
        if self.limits.stop_reason is None:
            self.limits.stop_reason = reason
            self.stopped.set()
            self.state.observer.run_stopping(reason.cause, reason.detail)

    async def wait_unless_stopped(self, seconds: float) -> None:
        """Wait before another try, unless the run stops."""
        sleeping = asyncio.ensure_future(self.state.sleep(seconds))
        stopping = asyncio.create_task(self.stopped.wait())
        try:
            await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()


class TrialRunner:
    """The work on one slot."""

    def __init__(self, session: RunSession, trial: Trial, trial_state: TrialState) -> None:
        self.session = session
        self.state = session.state
        self.trial = trial
        self.trial_state = trial_state
        self.task = self.state.tasks[trial.task_id]
        self.folder = self.state.store.logs(trial.task_id, trial.number)
        self.attempts: list[Attempt] = []
        self.submission: bytes | None = None

    async def run_attempts(self) -> AttemptRecord | None:
        """The answer that counts; None when the run stops first."""
        number, standing = self.trial_state.attempts, self.trial_state
        counts = standing.collected and (standing.gradable or not standing.recorded)
        if number and (counts or not self.session.stopped.is_set()):
            self.attempts = await asyncio.to_thread(self._stored_attempts)
        if counts:
            return await asyncio.to_thread(read_record, attempt_file(self._logs_dir(number)), AttemptRecord)
        failed = 0
        while not self.session.stopped.is_set():
            number += 1
            async with self.session.limits.attempts:
                if self.session.stopped.is_set():
                    break
                answer = await self._run_attempt(number, last=failed + 1 >= self.state.retry.max_attempts)
            consequence = CONSEQUENCES[answer.cause] if answer.cause else None
            if consequence is not None and consequence.stops_run:
                self.session.stop_run(StopReason(cause=answer.cause or Cause.INTERRUPTED, detail=answer.detail))
                break
            failed += 1
            if consequence is None or not consequence.retry or failed >= self.state.retry.max_attempts:
                return answer
            await self._wait_before_retry(failed, answer.cause or Cause.PROVIDER_ERROR, answer.detail)
        return None

    async def _run_attempt(self, number: int, *, last: bool) -> AttemptRecord:
        watcher, slot, sitting = self.state.observer, self.trial, self.session
        watcher.attempt_started(slot)
        logs = self._logs_dir(number)
        logs.mkdir(parents=True, exist_ok=True)
        prepared = self._journal_entry(number, "prepared")
        if self.state.context.gateway is None:
            sitting.journal.append(prepared)
        else:
            # From here on something may be paid for: that there is such an attempt must be on record for good.
            await sitting.journal.commit(prepared)
        this = AttemptSpec(
            task=self.task,
            trial=slot.number,
            number=number,
            logs=logs,
            earlier_recordings=tuple(self._logs_dir(before) / RECORDING_FILE for before in range(1, number)),
            spent_usd=sum(usage_cost(entry.usage) or 0.0 for entry in self.attempts),
        )
        watch = AttemptCallbacks(
            on_progress=lambda what: watcher.progress(slot, what),
            on_response=lambda event: watcher.model_responded(slot, event),
            on_fatal_error=lambda trouble: sitting.stop_run(_stop_reason(trouble)),
        )
        made = await run_attempt(self.state.context, this, watch)
        answer = made.record
        consequence = CONSEQUENCES[answer.cause] if answer.cause else None
        again = consequence is not None and (consequence.stops_run or (consequence.retry and not last))
        stage: Stage = "answered" if again else "collected"
        line = self._journal_entry(number, stage, cause=answer.cause, cost=usage_cost(answer.usage))
        await sitting.journal.commit(line, files=made.files)
        self.submission = made.files.get(logs / str(answer.submission))
        self.attempts.append(task_result.attempt_entry(self.state.store, slot, answer))
        return answer

    async def grade_and_record(self, record: AttemptRecord) -> TaskResult | None:
        """Grade what was handed in, where anything was, and record the slot; None when the run stops first."""
        logs, number = self._logs_dir(record.number), record.number
        graded: GradingRecord | None = None
        evidence: dict[Path, bytes] = {}
        lines: list[JournalEntry] = []
        if record.submission is not None:
            async with self.session.limits.grading:
                self.state.observer.progress(self.trial, "grading")
                graded = await self._grade(record, logs)
            if graded is None:
                return None
            evidence[logs / GRADING_FILE] = to_json(graded)
            lines.append(self._journal_entry(number, "graded"))
        result = task_result.make_task_result(
            self.state.context.run_id,
            self.task,
            self.trial,
            record=record,
            graded=graded,
            attempts=tuple(self.attempts),
        )
        lines.append(self._journal_entry(number, "recorded", cause=result.cause))
        # The result holds the verdict, so a grade is finished when it is recorded, and not before.
        stored = {self.state.store.result_file(self.trial.task_id, self.trial.number): to_json(result)}
        await self.session.journal.commit(*lines, files=stored, unsynced_files=evidence)
        return result

    async def _grade(self, record: AttemptRecord, logs: Path) -> GradingRecord | None:
        """Grade, and grade again where the grader, not the answer, failed. Each try keeps what it left."""
        started = time.monotonic()
        content = self.submission
        if content is None:  # of an earlier sitting
            content = await asyncio.to_thread((logs / str(record.submission)).read_bytes)
        prediction = Prediction(
            task_id=self.task.id, patch_kind=record.patch_kind, content=content, model=self.state.context.model
        )
        retried: list[str] = []
        for failed in range(1, self.state.retry.max_attempts + 1):
            place = GradingContext(
                provider=self.state.context.provider,
                folder=_unused_path(logs, "grading"),
                options=self.state.grade_options,
            )
            try:
                evaluated = await self.state.context.benchmark.grade(self.task, prediction, place)
                break
            except UsageError:
                raise
            except (ProctorError, OSError) as error:
                cause, detail = cause_of(error), error_text(error)
                reraise_if_cancelled(error)
            except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the run
                cause, detail = Cause.GRADER_FAILED, f"internal error: {type(error).__name__}: {error}"
                reraise_if_cancelled(error)
            consequence = CONSEQUENCES[cause]
            if consequence.stops_run:
                self.session.stop_run(StopReason(cause=cause, detail=detail))
                return None
            if not consequence.retry or failed == self.state.retry.max_attempts:
                verdict = Verdict(task_id=self.task.id, status=Status.ERROR, cause=cause, reason=detail)
                evaluated = TaskEvaluation(task_id=self.task.id, verdict=verdict)
                break
            retried.append(f"{cause.value}: {detail}")
            await self._wait_before_retry(failed, cause, detail)
        seconds = round(time.monotonic() - started, 3)
        return GradingRecord(evaluation=evaluated, seconds=seconds, earlier_errors=tuple(retried))

    async def _wait_before_retry(self, failures: int, cause: Cause, detail: str) -> None:
        seconds = self.state.retry.delay(failures, self.state.jitter())
        self.state.observer.attempt_retrying(self.trial, cause, detail, seconds)
        await self.session.wait_unless_stopped(seconds)

    def _stored_attempts(self) -> list[Attempt]:
        return [
            task_result.stored_attempt_entry(self.state.store, self.trial, number, began)
            for number, began in enumerate(self.trial_state.attempt_start_times, start=1)
        ]

    def _journal_entry(
        self, number: int, stage: Stage, *, cause: Cause | None = None, cost: float | None = None
    ) -> JournalEntry:
        return JournalEntry(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            task_id=self.trial.task_id,
            trial=self.trial.number,
            attempt=number,
            stage=stage,
            cause=cause,
            cost_usd=cost,
        )

    def _logs_dir(self, number: int) -> Path:
        return self.folder / attempt_dir_name(number)


def _stop_reason(error: GatewayFailure) -> StopReason:
    return StopReason(cause=error.cause, detail=error.message)


def _unused_path(folder: Path, name: str) -> Path:
    """A place that nothing has been left at: `name`, or the first of `name-2`, `name-3`, …"""
    place, number = folder / name, 1
    while place.exists():
        number += 1
        place = folder / f"{name}-{number}"
    return place
