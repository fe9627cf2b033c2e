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

from proctor.core.benchmark import GradeOptions, Place
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import ProctorError, UsageError
from proctor.core.evaluation import Evaluated, Prediction
from proctor.core.record import Record, read_record, to_json
from proctor.core.result import Attempt, TaskResult
from proctor.core.run import JournalEntry, Stage
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.gateway import Answered, Trouble
from proctor.results import Journal, RunStore, total_cost
from proctor.results.answers import CASSETTE
from proctor.results.store import attempt_name
from proctor.runner import ledger
from proctor.runner.ahead import Rooms
from proctor.runner.attempt import Try, Watch, Way, attempt
from proctor.runner.errors import cause_of, go_on_with_cancelling, words_of
from proctor.runner.parallel import in_parallel
from proctor.runner.records import ANSWER, GRADED, Answer, Graded, Slot
from proctor.runner.resume import Standing

Sleep = Callable[[float], Awaitable[None]]


class Retry(Record):
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

    def stopping(self, cause: Cause, detail: str) -> None:
        """No slot can fare better, so no further one is begun."""
        ...


class Silence:
    """A `Watcher` that says nothing to anybody."""

    def began(self, slot: Slot) -> None:
        """Nothing."""

    def doing(self, slot: Slot, what: str) -> None:
        """Nothing."""

    def heard(self, slot: Slot, event: Answered) -> None:
        """Nothing."""

    def retrying(self, slot: Slot, cause: Cause, detail: str, seconds: float) -> None:
        """Nothing."""

    def ended(self, slot: Slot, result: TaskResult | None) -> None:
        """Nothing."""

    def stopping(self, cause: Cause, detail: str) -> None:
        """Nothing."""


class Stop(Record):
    """What keeps a run from going on."""

    cause: Cause
    detail: str


@dataclass(frozen=True, slots=True)
class Course:
    """Everything that a sitting of a run goes by.

    Attributes:
        known: where each slot stands that was begun in an earlier sitting.
    """

    store: RunStore
    way: Way
    tasks: dict[str, Task]
    slots: Sequence[Slot]
    known: dict[Slot, Standing]
    options: GradeOptions
    watcher: Watcher
    retry: Retry
    sleep: Sleep = asyncio.sleep
    chance: Callable[[], float] = random.random


class Places:
    """What runs that are made together share: the places at which agents and graders work, and when to stop."""

    def __init__(self, answering: int, grading: int) -> None:
        self.count = answering + grading
        self.answering = asyncio.Semaphore(answering)
        self.grading = asyncio.Semaphore(grading)
        self.stopped = asyncio.Event()
        self.stop: Stop | None = None
        self.refused: UsageError | None = None


async def run(courses: Sequence[Course], places: Places) -> tuple[list[int], Stop | None]:
    """Bring every slot of these runs to its end, or stop where none can fare better; what is left of each, and why.

    Several runs of the same tasks, in the same kind of rooms, take turns, task by task: what changes while they are
    made, such as a provider's mood, hits all alike.

    Raises:
        UsageError: a run cannot be made in this way; what was under way is finished first.
    """
    first = courses[0]
    rooms = Rooms(first.way.provider, first.way.benchmark, first.options)
    async with AsyncExitStack() as stack:
        sittings = [
            _Sitting(course, await stack.enter_async_context(Journal(course.store.journal)), places, rooms)
            for course in courses
        ]
        turns = [(sittings[number], slot) for number, slot in in_turns([course.slots for course in courses])]
        rooms.expect(first.tasks[slot.task_id] for _, slot in turns)
        await in_parallel(lambda turn: turn[0].take(turn[1]), turns, places.count)
    if places.refused is not None:
        raise places.refused
    return [sitting.left for sitting in sittings], places.stop


def in_turns(runs: Sequence[Sequence[Slot]]) -> list[tuple[int, Slot]]:
    """The slots of several runs, with the numbers of their runs: all runs take a slot up before the next one comes.

    Each slot begins with another run than the one before, so that none is always first. A slot that a run does not
    want, or has done with, is passed over.
    """
    order: dict[Slot, list[int]] = {}
    for number, slots in enumerate(runs):
        for slot in slots:
            order.setdefault(slot, []).append(number)
    # Runs that want more answers than others want their first ones as early as those; a stable sort keeps the rest.
    ranked = sorted(order.items(), key=lambda item: item[0].sample)
    turns = []
    for place, (slot, numbers) in enumerate(ranked):
        shift = place % len(numbers)
        turns += [(number, slot) for number in (*numbers[shift:], *numbers[:shift])]
    return turns


class _Sitting:
    """One sitting of a run, from its start or resumption to its end or interruption."""

    def __init__(self, course: Course, journal: Journal, places: Places, rooms: Rooms) -> None:
        self.course = course
        self.journal = journal
        self.places = places
        self.rooms = rooms
        self.left = 0

    @property
    def stopped(self) -> asyncio.Event:
        """Set when no further slot is to be begun."""
        return self.places.stopped

    async def take(self, slot: Slot) -> None:
        """Bring one slot as far as it will go."""
        standing = self.course.known.get(slot, Standing())
        work = _Work(self, slot, standing)
        result = None
        try:
            answer = await work.answer()
            if answer is not None:
                result = await work.grade_and_record(answer)
        except UsageError as error:
            self.places.refused = self.places.refused or error
            self.halt(Stop(cause=Cause.INTERRUPTED, detail=str(error)))
        except OSError as error:
            # What cannot be written down is not done; the attempt's recording is there for the next sitting.
            go_on_with_cancelling(error)
            self.halt(Stop(cause=cause_of(error), detail=f"the run cannot be written: {words_of(error)}"))
        finally:
            self.rooms.finished(work.task)
        if result is None:
            self.left += 1
        self.course.watcher.ended(slot, result)

    def halt(self, stop: Stop) -> None:
        """Let no further slot be begun; what is under way goes on to its end."""
        if self.places.stop is None:
            self.places.stop = stop
            self.stopped.set()
            self.course.watcher.stopping(stop.cause, stop.detail)

    async def pause(self, seconds: float) -> None:
        """Wait before another try, unless the run stops."""
        sleeping = asyncio.ensure_future(self.course.sleep(seconds))
        stopping = asyncio.create_task(self.stopped.wait())
        try:
            await asyncio.wait({sleeping, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            stopping.cancel()


class _Work:
    """The work on one slot."""

    def __init__(self, sitting: _Sitting, slot: Slot, standing: Standing) -> None:
        self.sitting = sitting
        self.course = sitting.course
        self.slot = slot
        self.standing = standing
        self.task = self.course.tasks[slot.task_id]
        self.folder = self.course.store.logs(slot.task_id, slot.sample)
        self.ledger: list[Attempt] = []
        self.handed_in: bytes | None = None

    async def answer(self) -> Answer | None:
        """The answer that counts; None when the run stops first."""
        number, standing = self.standing.attempts, self.standing
        counts = standing.answered and (standing.gradable or not standing.done)
        if number and (counts or not self.sitting.stopped.is_set()):
            self.ledger = await asyncio.to_thread(self._stored_ledger)
        if counts:
            return await asyncio.to_thread(read_record, self._logs(number) / ANSWER, Answer)
        failed = 0
        while not self.sitting.stopped.is_set():
            number += 1
            async with self.sitting.places.answering:
                if self.sitting.stopped.is_set():
                    break
                answer = await self._attempt(number, last=failed + 1 >= self.course.retry.tries)
            consequence = CONSEQUENCES[answer.cause] if answer.cause else None
            if consequence is not None and consequence.stops_run:
                self.sitting.halt(Stop(cause=answer.cause or Cause.INTERRUPTED, detail=answer.detail))
                break
            failed += 1
            if consequence is None or not consequence.retry or failed >= self.course.retry.tries:
                return answer
            await self._wait(failed, answer.cause or Cause.PROVIDER_ERROR, answer.detail)
        return None

    async def _attempt(self, number: int, *, last: bool) -> Answer:
        watcher, slot, sitting = self.course.watcher, self.slot, self.sitting
        watcher.began(slot)
        logs = self._logs(number)
        logs.mkdir(parents=True, exist_ok=True)
        prepared = self._entry(number, "prepared")
        if self.course.way.gateway is None:
            sitting.journal.note(prepared)
        else:
            # From here on something may be paid for: that there is such an attempt must be on record for good.
            await sitting.journal.commit(prepared)
        this = Try(
            task=self.task,
            sample=slot.sample,
            number=number,
            logs=logs,
            earlier=tuple(self._logs(before) / CASSETTE for before in range(1, number)),
            spent_usd=sum(total_cost(entry.usage) or 0.0 for entry in self.ledger),
        )
        watch = Watch(
            doing=lambda what: watcher.doing(slot, what),
            heard=lambda event: watcher.heard(slot, event),
            hopeless=lambda trouble: sitting.halt(_stop(trouble)),
        )
        made = await attempt(self.course.way, this, watch)
        answer = made.answer
        consequence = CONSEQUENCES[answer.cause] if answer.cause else None
        again = consequence is not None and (consequence.stops_run or (consequence.retry and not last))
        stage: Stage = "answered" if again else "collected"
        line = self._entry(number, stage, cause=answer.cause, cost=total_cost(answer.usage))
        await sitting.journal.commit(line, files=made.files)
        self.handed_in = made.files.get(logs / str(answer.submission))
        self.ledger.append(ledger.entry(self.course.store, slot, answer))
        return answer

    async def grade_and_record(self, answer: Answer) -> TaskResult | None:
        """Grade what was handed in, where anything was, and record the slot; None when the run stops first."""
        logs, number = self._logs(answer.number), answer.number
        graded: Graded | None = None
        evidence: dict[Path, bytes] = {}
        lines: list[JournalEntry] = []
        if answer.submission is not None:
            async with self.sitting.places.grading:
                self.course.watcher.doing(self.slot, "grading")
                graded = await self._grade(answer, logs)
            if graded is None:
                return None
            evidence[logs / GRADED] = to_json(graded)
            lines.append(self._entry(number, "graded"))
        result = ledger.result(
            self.course.way.run_id, self.task, self.slot, answer=answer, graded=graded, attempts=tuple(self.ledger)
        )
        lines.append(self._entry(number, "recorded", cause=result.cause))
        # The result holds the verdict, so a grade is finished when it is recorded, and not before.
        stored = {self.course.store.result_file(self.slot.task_id, self.slot.sample): to_json(result)}
        await self.sitting.journal.commit(*lines, files=stored, loose=evidence)
        return result

    async def _grade(self, answer: Answer, logs: Path) -> Graded | None:
        """Grade, and grade again where the grader, not the answer, failed. Each try keeps what it left."""
        started = time.monotonic()
        content = self.handed_in
        if content is None:  # of an earlier sitting
            content = await asyncio.to_thread((logs / str(answer.submission)).read_bytes)
        prediction = Prediction(
            task_id=self.task.id, patch_kind=answer.patch_kind, content=content, model=self.course.way.model
        )
        retried: list[str] = []
        for failed in range(1, self.course.retry.tries + 1):
            place = Place(
                provider=self.course.way.provider, folder=_unused(logs, "grading"), options=self.course.options
            )
            try:
                evaluated = await self.course.way.benchmark.grade(self.task, prediction, place)
                break
            except UsageError:
                raise
            except (ProctorError, OSError) as error:
                cause, detail = cause_of(error), words_of(error)
                go_on_with_cancelling(error)
            except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the run
                cause, detail = Cause.GRADER_FAILED, f"internal error: {type(error).__name__}: {error}"
                go_on_with_cancelling(error)
            consequence = CONSEQUENCES[cause]
            if consequence.stops_run:
                self.sitting.halt(Stop(cause=cause, detail=detail))
                return None
            if not consequence.retry or failed == self.course.retry.tries:
                verdict = Verdict(task_id=self.task.id, status=Status.ERROR, cause=cause, reason=detail)
                evaluated = Evaluated(task_id=self.task.id, verdict=verdict)
                break
            retried.append(f"{cause.value}: {detail}")
            await self._wait(failed, cause, detail)
        seconds = round(time.monotonic() - started, 3)
        return Graded(evaluated=evaluated, seconds=seconds, retried=tuple(retried))

    async def _wait(self, failed: int, cause: Cause, detail: str) -> None:
        seconds = self.course.retry.wait(failed, self.course.chance())
        self.course.watcher.retrying(self.slot, cause, detail, seconds)
        await self.sitting.pause(seconds)

    def _stored_ledger(self) -> list[Attempt]:
        return [
            ledger.stored_entry(self.course.store, self.slot, number, began)
            for number, began in enumerate(self.standing.began, start=1)
        ]

    def _entry(
        self, number: int, stage: Stage, *, cause: Cause | None = None, cost: float | None = None
    ) -> JournalEntry:
        return JournalEntry(
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            task_id=self.slot.task_id,
            sample=self.slot.sample,
            attempt=number,
            stage=stage,
            cause=cause,
            cost_usd=cost,
        )

    def _logs(self, number: int) -> Path:
        return self.folder / attempt_name(number)


def _stop(trouble: Trouble) -> Stop:
    return Stop(cause=trouble.cause, detail=trouble.message)


def _unused(folder: Path, name: str) -> Path:
    """A place that nothing has been left at: `name`, or the first of `name-2`, `name-3`, …"""
    place, number = folder / name, 1
    while place.exists():
        number += 1
        place = folder / f"{name}-{number}"
    return place
