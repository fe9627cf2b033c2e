"""Trials: each is brought from its first attempt to its recorded result, past errors that were not the agent's.

Agents wait on the network and graders use the CPU, so that each have a limit of their own. What is finished is in the
journal and in files before the next stage starts; a session that resumes a run reads those and nothing else.
"""

import asyncio
import errno
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import InvalidData, LimitReached, UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.files import write_atomic
from proctor.core.record import read_record, time_now, to_json
from proctor.core.result import Attempt, ModelUsage, TaskResult, estimated_cost
from proctor.core.run import JournalEntry, Stage, Trial
from proctor.core.verdict import Verdict
from proctor.gateway import Redactor
from proctor.results import usage_cost
from proctor.results.attempt_record import GRADING_FILE, RECORDING_FILE, AttemptRecord, GradingRecord, attempt_file
from proctor.results.store import attempt_dir_name
from proctor.runner import task_result
from proctor.runner.attempt import AttemptOutput, AttemptSpec
from proctor.runner.errors import (
    CRASH_LOG,
    cause_of,
    crash_log,
    error_text,
    failure_of,
    grading_cause,
    reraise_if_cancelled,
)
from proctor.runner.resume import TrialState
from proctor.runner.retry import another_attempt, counted_failures, is_retried, retry_delay, stops_run
from proctor.runner.run_cost import attempts_cost
from proctor.runner.state import RunSession

# What the system says of a file that is gone for good.
_LOST: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EIO})


def interleave_trials(runs: Sequence[Sequence[Trial]]) -> list[tuple[int, Trial]]:
    """The trials of several runs, with the numbers of their runs: all runs take a trial up before the next one comes.

    Each trial begins with another run than the one before, so that none is always first. A trial that a run does not
    want, or has finished, is passed over.
    """
    order: dict[Trial, list[int]] = {}
    for number, trials in enumerate(runs):
        for trial in trials:
            order.setdefault(trial, []).append(number)
    # Runs with more trials than others take their first ones as early as those; a stable sort keeps the rest.
    ranked = sorted(order.items(), key=lambda item: item[0].number)
    turns = []
    for position, (trial, numbers) in enumerate(ranked):
        shift = position % len(numbers)
        turns += [(number, trial) for number in (*numbers[shift:], *numbers[:shift])]
    return turns


class TrialRunner:
    """Brings one trial of a run as far as it will go."""

    def __init__(self, run: RunSession, trial: Trial) -> None:
        self._run = run
        self._session = run.session
        self._trial = trial
        self._state = run.trial_states.get(trial, TrialState())
        self._task = run.resources.tasks[trial.task_id]
        self._folder = run.store.logs(trial.task_id, trial.number)
        self._attempts: list[Attempt] = []
        self._submission: bytes | None = None

    async def run(self) -> None:
        """Make attempts until one counts; grade and record it. What cannot be finished is left for another session."""
        run, session, result = self._run, self._session, None
        try:
            record, number = await self._stored_attempt(), self._state.attempts
            causes: list[Cause | None] = []
            while record is None and not session.stopped.is_set():
                number += 1
                async with session.executor.assign(run, self._task, self._attempts) as make_attempt:
                    if session.stopped.is_set():
                        break
                    spec = await self._start_attempt(number)
                    output = await make_attempt(spec)
                    made = output.record
                    causes.append(made.cause)
                    repeated = another_attempt(causes, run.config.retries)
                    await self._store_attempt(spec, output, counts=not repeated and not stops_run(made.cause))
                if stops_run(made.cause):
                    run.stop(made.cause or Cause.INTERRUPTED, made.detail)
                elif repeated:
                    await self._wait_before_retry(
                        counted_failures(causes), made.cause or Cause.PROVIDER_ERROR, made.detail
                    )
                else:
                    record = made
            if record is not None:
                result = await self._grade_and_record(record)
        except UsageError as error:
            session.usage_error = session.usage_error or error
            run.stop(Cause.INTERRUPTED, str(error))
        except LimitReached as error:
            run.stop(cause_of(error), str(error))
        except OSError as error:
            self._stop_unwritable(error)
        finally:
            session.executor.release(self._task)
        self._report_end(result)

    async def skip(self, reason: str) -> None:
        """Record that it cannot be run on this machine; a trial for which something was paid is left instead."""
        run, result = self._run, None
        try:
            if not self._state.attempts:
                skipped = task_result.skipped_result(run.config.run_id, self._task, self._trial, reason)
                stored = {run.store.result_file(self._trial.task_id, self._trial.number): to_json(skipped)}
                await run.journal.commit(self._journal_entry(0, "recorded", cause=skipped.cause), files=stored)
                result = skipped
        except OSError as error:
            self._stop_unwritable(error)
        self._report_end(result)

    def _report_end(self, result: TaskResult | None) -> None:
        if result is None:
            self._run.trials_left += 1
        self._run.observer.trial_finished(self._trial, result)

    def _stop_unwritable(self, error: OSError) -> None:
        # What cannot be written down is not done; the attempt's recording is there for the next session.
        reraise_if_cancelled(error)
        self._run.stop(cause_of(error), f"the run cannot be written: {error_text(error)}")

    async def _stored_attempt(self) -> AttemptRecord | None:
        """The attempt of an earlier session that counts, of which only grading and recording are left."""
        state = self._state
        counts = state.collected and (state.gradable or not state.recorded)
        if state.attempts and (counts or not self._session.stopped.is_set()):
            self._attempts = await asyncio.to_thread(self._stored_attempts)
        return await asyncio.to_thread(self._read_attempt, state.attempts) if counts else None

    def _read_attempt(self, number: int) -> AttemptRecord | None:
        """A stored attempt and its submission; None where they cannot be read, so that another must be made."""
        logs = self._logs_dir(number)
        try:
            record = read_record(attempt_file(logs), AttemptRecord)
            if record.submission is not None:
                self._submission = (logs / record.submission).read_bytes()
        except (InvalidData, OSError) as error:
            origin = error.__cause__ if isinstance(error, InvalidData) else error
            if isinstance(origin, OSError) and origin.errno not in _LOST:
                raise origin from error  # it may be read another time: nothing is paid for twice
            return None
        return record

    async def _start_attempt(self, number: int) -> AttemptSpec:
        run = self._run
        run.observer.attempt_started(self._trial)
        logs = self._logs_dir(number)
        logs.mkdir(parents=True, exist_ok=True)
        prepared = self._journal_entry(number, "prepared")
        if run.resources.model is None:
            run.journal.append(prepared)
        else:
            # From here on something may be paid for: that there is such an attempt must be durable.
            await run.journal.commit(prepared)
        return AttemptSpec(
            self._trial,
            number,
            logs,
            earlier_recordings=tuple(self._logs_dir(before) / RECORDING_FILE for before in range(1, number)),
            spent_usd=attempts_cost(self._attempts),
            progress=partial(run.observer.progress, self._trial),
            model_responded=partial(run.observer.model_responded, self._trial),
            stop_run=run.stop,
        )

    async def _store_attempt(self, spec: AttemptSpec, output: AttemptOutput, *, counts: bool) -> None:
        record = output.record
        stage: Stage = "collected" if counts else "answered"
        entry = self._journal_entry(record.number, stage, cause=record.cause, usage=record.usage)
        await self._run.journal.commit(entry, files={spec.logs / name: data for name, data in output.files.items()})
        self._submission = output.files.get(str(record.submission))
        self._attempts.append(task_result.attempt_entry(self._run.store, self._trial, record))

    async def _grade_and_record(self, record: AttemptRecord) -> TaskResult | None:
        """Grade the submission, where there is one, and record the trial; None when the run stops first."""
        run, logs, number = self._run, self._logs_dir(record.number), record.number
        graded: GradingRecord | None = None
        evidence: dict[Path, bytes] = {}
        entries: list[JournalEntry] = []
        if record.submission is not None:
            graded = await self._grade(record, logs)
            if graded is None:
                return None
            evidence[logs / GRADING_FILE] = to_json(graded)
            entries.append(self._journal_entry(number, "graded"))
        result = task_result.make_task_result(
            run.config.run_id,
            self._task,
            self._trial,
            record=record,
            graded=graded,
            attempts=tuple(await asyncio.to_thread(self._known_attempts)),
        )
        entries.append(self._journal_entry(number, "recorded", cause=result.cause))
        # The result holds the verdict, so a grade is finished when it is recorded, and not before.
        stored = {run.store.result_file(self._trial.task_id, self._trial.number): to_json(result)}
        await run.journal.commit(*entries, files=stored, unsynced_files=evidence)
        return result

    async def _grade(self, record: AttemptRecord, logs: Path) -> GradingRecord | None:
        """Grade, and grade again where the grader, not the submission, failed. Each try keeps what it left."""
        run, started = self._run, time.monotonic()
        content = self._submission
        if content is None:
            content = await asyncio.to_thread((logs / str(record.submission)).read_bytes)
        prediction = Prediction(
            task_id=self._task.id, patch_kind=record.patch_kind, content=content, model=run.resources.model_id
        )
        earlier_errors: list[str] = []
        while True:
            folder = _unused_grading_folder(logs)
            on_started = partial(run.observer.progress, self._trial, "grading")
            try:
                evaluation = await self._session.executor.grade(
                    run, prediction, folder, node=record.node, on_started=on_started
                )
                break
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the run
                reraise_if_cancelled(error)
                cause, detail = failure_of(error, grading_cause)
                if (crashed := crash_log(error)) is not None and not stops_run(cause):
                    await asyncio.to_thread(self._keep_crash_log, folder, crashed)
            if stops_run(cause):
                run.stop(cause, detail)
                return None
            failures = len(earlier_errors) + 1
            if not is_retried(cause, failures, run.config.retries):
                status = CONSEQUENCES[cause].status or Status.ERROR
                verdict = Verdict(task_id=self._task.id, status=status, cause=cause, reason=detail)
                evaluation = TaskEvaluation(task_id=self._task.id, verdict=verdict)
                break
            earlier_errors.append(f"{cause.value}: {detail}")
            await self._wait_before_retry(failures, cause, detail)
        seconds = round(time.monotonic() - started, 3)
        return GradingRecord(evaluation=evaluation, seconds=seconds, earlier_errors=tuple(earlier_errors))

    async def _wait_before_retry(self, failures: int, cause: Cause, detail: str) -> None:
        seconds = retry_delay(failures, self._session.retry_seconds, self._session.jitter())
        self._run.observer.attempt_retrying(self._trial, cause, detail, seconds)
        await self._session.wait_unless_stopped(seconds)

    def _keep_crash_log(self, folder: Path, content: bytes) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / CRASH_LOG, Redactor(self._run.resources.secrets).redact_bytes(content))

    def _known_attempts(self) -> list[Attempt]:
        """All attempts; what one had in flight when its node was lost may have come to be known since."""
        store, trial, prices = self._run.store, self._trial, self._run.resources.prices
        return [
            task_result.stored_attempt_entry(store, trial, attempt.number, attempt.started_at, prices)
            if attempt.cause is Cause.NODE_LOST
            else attempt
            for attempt in self._attempts
        ]

    def _stored_attempts(self) -> list[Attempt]:
        return [
            task_result.stored_attempt_entry(self._run.store, self._trial, number, started, self._run.resources.prices)
            for number, started in enumerate(self._state.attempt_start_times, start=1)
        ]

    def _journal_entry(
        self, number: int, stage: Stage, *, cause: Cause | None = None, usage: Sequence[ModelUsage] | None = None
    ) -> JournalEntry:
        return JournalEntry(
            at=time_now(),
            task_id=self._trial.task_id,
            trial=self._trial.number,
            attempt=number,
            stage=stage,
            cause=cause,
            cost_usd=None if usage is None else usage_cost(usage),
            estimated_usd=estimated_cost(usage or ()),
        )

    def _logs_dir(self, number: int) -> Path:
        return self._folder / attempt_dir_name(number)


def _unused_grading_folder(logs: Path) -> Path:
    """A path at which nothing is: `grading`, or the first of `grading-2`, `grading-3`, …"""
    path, number = logs / "grading", 1
    while path.exists():
        number += 1
        path = logs / f"grading-{number}"
    return path
