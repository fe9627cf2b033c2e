"""A run: every wanted answer from prepared to recorded, and on after whatever stopped it.

A slot is one wanted answer. Answering waits on the network and grading uses the CPU, so each has places of its own.
What is finished is in the journal and in files before the next stage starts; a run that is started again believes
those and nothing else.
"""

import asyncio
import random
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec

from proctor.core.benchmark import GradeOptions, Place
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import ProctorError
from proctor.core.evaluation import Evaluated, Prediction
from proctor.core.files import write_atomic
from proctor.core.record import read_record, to_json
from proctor.core.result import Attempt, ModelUsage, TaskResult
from proctor.core.run import JournalEntry, RunSummary
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.gateway import Answered
from proctor.results import Journal, RunStore, read_journal
from proctor.results.store import total_cost
from proctor.runner.attempt import ANSWER, CASSETTE, Watch, Way, attempt
from proctor.runner.errors import cause_of
from proctor.runner.parallel import in_parallel
from proctor.runner.records import Answer, Graded, Slot
from proctor.runner.resume import Standing, standings
from proctor.runner.spent import cassette_usage

GRADED: Final = "graded.json"
Sleep = Callable[[float], Awaitable[None]]


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often, and how patiently, what was not the agent's fault is tried again."""

    tries: int = 3
    base_seconds: float = 2.0
    most_seconds: float = 120.0

    def wait(self, failed: int, chance: float) -> float:
        """How long to wait after the `failed`th failure: doubling, with up to half of it more by chance."""
        return min(self.base_seconds * 2.0 ** (failed - 1), self.most_seconds) * (1 + chance / 2)


class Watcher(Protocol):
    """Is told how a run goes on."""

    def began(self, slot: Slot) -> None:
        """A slot's attempt has begun."""
        ...

    def doing(self, slot: Slot, what: str) -> None:
        """What is being done for a slot now."""
        ...

    def heard(self, slot: Slot, event: Answered) -> None:
        """The model has answered the slot's agent."""
        ...

    def retrying(self, slot: Slot, cause: Cause, detail: str, seconds: float) -> None:
        """An attempt failed without the agent's fault, and will be made again."""
        ...

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        """A slot's result is recorded; None: it was given up for now."""
        ...


@dataclass(frozen=True, slots=True)
class Course:
    """Everything that a run goes by."""

    store: RunStore
    way: Way
    tasks: dict[str, Task]
    slots: Sequence[Slot]
    options: GradeOptions
    concurrency: int
    grade_concurrency: int
    watcher: Watcher
    retry: Retry
    sleep: Sleep = asyncio.sleep
    chance: Callable[[], float] = random.random


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a sitting ended: what is recorded now, and what kept the run from going on, if anything did."""

    summary: RunSummary
    left: int
    stopped_by: Cause | None = None
    detail: str = ""


async def run(course: Course) -> Ending:
    """Go on with a run until every slot is recorded, or something stops it that no later slot could escape."""
    known = await asyncio.to_thread(lambda: standings(read_journal(course.store.journal)))
    waiting = [slot for slot in course.slots if not known.get(slot, Standing()).done]
    async with Journal(course.store.journal) as journal:
        sitting = _Sitting(course, journal, known)
        await in_parallel(sitting.take, waiting, course.concurrency + course.grade_concurrency)
    summary = await asyncio.to_thread(course.store.write_summary)
    return Ending(
        summary=summary,
        left=sitting.left,
        stopped_by=sitting.stop[0] if sitting.stop else None,
        detail=sitting.stop[1] if sitting.stop else "",
    )


class _Sitting:
    """One sitting of a run, from its start or resumption to its end or interruption."""

    def __init__(self, course: Course, journal: Journal, known: dict[Slot, Standing]) -> None:
        self.course = course
        self.journal = journal
        self.known = known
        self.answering = asyncio.Semaphore(course.concurrency)
        self.grading = asyncio.Semaphore(course.grade_concurrency)
        self.stop: tuple[Cause, str] | None = None
        self.left = 0

    async def take(self, slot: Slot) -> None:
        """Bring one slot as far as it will go."""
        result = None
        if self.stop is None:
            answer = await self._answered(slot)
            if answer is not None:
                result = await self._graded(slot, answer)
        if result is None:
            self.left += 1
        self.course.watcher.ended(slot, result)

    async def _answered(self, slot: Slot) -> Answer | None:
        """The slot's final answer; None when the run stops first."""
        standing = self.known.get(slot, Standing())
        number = standing.attempts
        if standing.answered:
            return await asyncio.to_thread(read_record, self._logs(slot, number) / ANSWER, Answer)
        failed = 0
        while not self._stopping():
            number += 1
            async with self.answering:
                if self._stopping():
                    return None
                answer = await self._attempt(slot, number)
            consequence = CONSEQUENCES[answer.cause] if answer.cause else None
            if consequence is not None and consequence.stops_run:
                self.stop = (answer.cause or Cause.INTERRUPTED, answer.detail)
                return None
            if consequence is None or not consequence.retry:
                return answer
            failed += 1
            if failed >= self.course.retry.tries:
                return answer
            wait = self.course.retry.wait(failed, self.course.chance())
            self.course.watcher.retrying(slot, answer.cause or Cause.PROVIDER_ERROR, answer.detail, wait)
            await self.course.sleep(wait)
        return None

    def _stopping(self) -> bool:
        return self.stop is not None

    async def _attempt(self, slot: Slot, number: int) -> Answer:
        watcher = self.course.watcher
        watcher.began(slot)
        logs = self._logs(slot, number)
        earlier = self._cut_short(slot, number - 1)
        await asyncio.to_thread(_make_empty, logs)
        await self._note(slot, number, "prepared")
        answer = await attempt(
            self.course.way,
            self.course.tasks[slot.task_id],
            sample=slot.sample,
            number=number,
            logs=logs,
            earlier=earlier,
            watch=Watch(doing=lambda what: watcher.doing(slot, what), heard=lambda event: watcher.heard(slot, event)),
        )
        stopping = answer.cause is not None and CONSEQUENCES[answer.cause].stops_run
        await self._note(slot, number, "answered" if stopping else "collected", answer=answer)
        return answer

    def _cut_short(self, slot: Slot, number: int) -> Path | None:
        """The cassette of the attempt before, if that ended before its agent did."""
        cassette = self._logs(slot, number) / CASSETTE
        if number == 0 or not cassette.exists():
            return None
        kept = self._logs(slot, number) / ANSWER
        if not kept.exists():
            return cassette
        cause = read_record(kept, Answer).cause
        return cassette if cause is not None and CONSEQUENCES[cause].stops_run else None

    async def _graded(self, slot: Slot, answer: Answer) -> TaskResult:
        watcher, started = self.course.watcher, time.monotonic()
        logs = self._logs(slot, answer.number)
        evaluated = None
        if answer.submission is not None:
            async with self.grading:
                watcher.doing(slot, "grading")
                evaluated = await self._grade(slot, answer, logs)
            graded = Graded(evaluated=evaluated, seconds=round(time.monotonic() - started, 3))
            await asyncio.to_thread(write_atomic, logs / GRADED, to_json(graded))
            await self._note(slot, answer.number, "graded")
        result = await asyncio.to_thread(self._result, slot, answer, evaluated, time.monotonic() - started)
        await asyncio.to_thread(self.course.store.write_result, result)
        await self._note(slot, answer.number, "recorded")
        return result

    async def _grade(self, slot: Slot, answer: Answer, logs: Path) -> Evaluated:
        """Grade, and grade again where the grader, not the answer, failed."""
        task = self.course.tasks[slot.task_id]
        content = await asyncio.to_thread((logs / str(answer.submission)).read_bytes)
        prediction = Prediction(
            task_id=task.id, patch_kind=answer.patch_kind, content=content, model=self.course.way.model
        )
        place = Place(provider=self.course.way.provider, folder=logs / "grading", options=self.course.options)
        for failed in range(1, self.course.retry.tries + 1):
            try:
                return await self.course.way.benchmark.grade(task, prediction, place)
            except (ProctorError, OSError) as error:
                cause, detail = cause_of(error), str(error)
            if not CONSEQUENCES[cause].retry or failed == self.course.retry.tries:
                break
            wait = self.course.retry.wait(failed, self.course.chance())
            self.course.watcher.retrying(slot, cause, detail, wait)
            await self.course.sleep(wait)
        verdict = Verdict(task_id=task.id, status=Status.ERROR, cause=cause, reason=detail)
        return Evaluated(task_id=task.id, verdict=verdict)

    def _result(self, slot: Slot, answer: Answer, evaluated: Evaluated | None, seconds: float) -> TaskResult:
        status, cause = outcome(answer, evaluated)
        attempts = tuple(self._ledger_entry(slot, number) for number in range(1, answer.number + 1))
        return TaskResult(
            run_id=self.course.way.run_id,
            benchmark=self.course.way.benchmark.name,
            task_id=slot.task_id,
            sample=slot.sample,
            status=status,
            cause=cause,
            verdict=evaluated.verdict if evaluated else None,
            attempts=attempts,
            usage=add_usage(usage for entry in attempts for usage in entry.usage),
            metrics=answer.metrics,
            answer_seconds=answer.seconds,
            grade_seconds=round(seconds, 3),
            categories=self.course.tasks[slot.task_id].categories,
        )

    def _ledger_entry(self, slot: Slot, number: int) -> Attempt:
        """What is known of one attempt; of one that was killed, what its cassette tells."""
        logs = self._logs(slot, number)
        where = logs.relative_to(self.course.store.folder).as_posix()
        if (logs / ANSWER).exists():
            answer = read_record(logs / ANSWER, Answer)
            return Attempt(
                number=number,
                started_at=answer.started_at,
                ended_at=answer.ended_at,
                cause=answer.cause or Cause.ANSWERED,
                detail=answer.detail,
                logs=where,
                usage=answer.usage,
            )
        return Attempt(
            number=number,
            started_at="",
            ended_at="",
            cause=Cause.INTERRUPTED,
            detail="the run was stopped before the agent was done",
            logs=where,
            usage=cassette_usage(logs / CASSETTE),
        )

    async def _note(self, slot: Slot, number: int, stage: str, *, answer: Answer | None = None) -> None:
        await self.journal.append(
            msgspec.convert(
                {
                    "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                    "task_id": slot.task_id,
                    "sample": slot.sample,
                    "attempt": number,
                    "stage": stage,
                    "cause": answer.cause if answer else None,
                    "cost_usd": total_cost(answer.usage) if answer else None,
                },
                JournalEntry,
            )
        )

    def _logs(self, slot: Slot, number: int) -> Path:
        return self.course.store.logs(slot.task_id, slot.sample) / f"attempt-{number}"


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
            cost_usd=cost,
        )
    return tuple(found[model] for model in sorted(found))


def _make_empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
