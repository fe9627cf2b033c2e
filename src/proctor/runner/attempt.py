"""One attempt at a task: prepared, answered, collected. Its answer is on disk when this returns."""

import asyncio
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from proctor.agents import kept_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest
from proctor.core.benchmark import Benchmark
from proctor.core.causes import CONSEQUENCES, Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Network
from proctor.core.errors import AgentFailure, ProctorError, UsageError
from proctor.core.evaluation import Prediction
from proctor.core.files import write_atomic
from proctor.core.record import to_json
from proctor.core.result import AgentMetrics
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.gateway import Answered, Gateway, LimitHit, Session, SessionEvent, SessionSpec
from proctor.runner.errors import cause_of
from proctor.runner.homes import Homes
from proctor.runner.records import Answer

ANSWER: Final = "answer.json"
CASSETTE: Final = "cassette.jsonl"
SUBMISSION: Final = {PatchKind.UNIFIED_DIFF: "submission.diff", PatchKind.PATCH_SET: "submission.patchset.json"}
# After the model has been taken away, an agent gets this long to notice and end by itself.
NOTICE_SECONDS: Final = 20.0
# Sessions keep their ids when an attempt is made again: what was paid for before can then be replayed to it.
_SESSIONS: Final = uuid.UUID("6f1d8b1e-5a58-4f3a-9a54-0d7a3b0a6c11")


@dataclass(frozen=True, slots=True)
class Way:
    """How every attempt of a run is made.

    Attributes:
        agent: makes the agent for a task.
        homes: the pool that agents get their homes from; None for agents that need none.
        model_socket: where the gateway listens for rooms.
    """

    run_id: str
    benchmark: Benchmark
    provider: EnvironmentProvider
    gateway: Gateway
    agent: Callable[[Task], Agent]
    homes: Homes | None
    model: str | None
    model_socket: Path
    network: Network | None = None
    cap_usd: float | None = None
    limits: Limits = field(default_factory=Limits)
    max_turns: int = 100
    own_login: bool = False
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    allowed_tools: tuple[str, ...] = ()
    image: str | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told what an attempt is doing, and of every exchange with the model."""

    doing: Callable[[str], None]
    heard: Callable[[Answered], None]


async def attempt(
    way: Way, task: Task, *, sample: int, number: int, logs: Path, earlier: Path | None, watch: Watch
) -> Answer:
    """Let the agent work on the task once.

    `earlier` is the cassette of an attempt that was cut short: what the model said there is said again, for nothing,
    as long as the agent asks the same.
    """
    started_at, clock = _now(), time.monotonic()
    course = _Course()
    try:
        with tempfile.TemporaryDirectory(prefix="proctor-attempt-") as scratch:
            await _take_course(
                way, task, course, sample=sample, logs=logs, earlier=earlier, scratch=Path(scratch), watch=watch
            )
        cause, detail = course.ended()
    except AgentFailure as failure:
        cause, detail = getattr(failure, "cause", Cause.MALFORMED_SUBMISSION), str(failure)
    except UsageError:
        raise  # no other task would fare better
    except (ProctorError, OSError) as error:
        cause, detail = cause_of(error), str(error)
    handed_in = course.handed_in
    answer = Answer(
        number=number,
        started_at=started_at,
        ended_at=_now(),
        cause=cause,
        detail=detail,
        seconds=round(course.outcome.seconds if course.outcome else time.monotonic() - clock, 3),
        usage=course.session.usage.models if course.session else (),
        metrics=course.metrics(),
        final_text=course.outcome.final_text if course.outcome else "",
        submission=SUBMISSION[handed_in.patch_kind] if handed_in else None,
        patch_kind=handed_in.patch_kind if handed_in else PatchKind.UNIFIED_DIFF,
    )
    await asyncio.to_thread(_keep, logs, answer, handed_in)
    return answer


@dataclass(slots=True)
class _Course:
    """How far an attempt has come; filled in as it goes on, so that an error does not lose what was there."""

    session: Session | None = None
    outcome: AgentOutcome | None = None
    handed_in: Prediction | None = None

    def ended(self) -> tuple[Cause | None, str]:
        """Why the agent ended. What the gateway knows weighs more than what the agent made of it."""
        if self.outcome is None:
            return Cause.AGENT_CRASHED, "it left no outcome"
        session = self.session
        if session is not None and session.limit is not None:
            return session.limit.cause, session.limit.message
        if session is not None and session.diverged is not None:
            return Cause.REPLAY_DIVERGED, session.diverged.message
        if session is not None and session.trouble is not None and self.outcome.cause is not None:
            return session.trouble.cause, session.trouble.message
        return self.outcome.cause, self.outcome.detail

    def metrics(self) -> AgentMetrics:
        """The agent's own numbers; turns and compactions as the gateway saw them, where there was one."""
        own = self.outcome.metrics if self.outcome else AgentMetrics(agents=0)
        if self.session is None or not self.session.usage.requests:
            return own
        usage = self.session.usage
        return msgspec.structs.replace(own, turns=usage.turns, compactions=max(usage.compactions, own.compactions))


async def _take_course(
    way: Way,
    task: Task,
    course: _Course,
    *,
    sample: int,
    logs: Path,
    earlier: Path | None,
    scratch: Path,
    watch: Watch,
) -> None:
    agent = way.agent(task)
    watch.doing("preparing")
    spec = await way.benchmark.prepare(task, scratch)
    limit = asyncio.Event()

    def listen(event: SessionEvent) -> None:
        if isinstance(event, LimitHit):
            limit.set()
        elif isinstance(event, Answered):
            watch.heard(event)

    session_spec = SessionSpec(
        task_id=task.id,
        label=f"{way.run_id}/{task.id}/{sample}",
        cap_usd=way.cap_usd,
        cassette=logs / CASSETTE,
        earlier=earlier,
        values={"workspace": spec.workdir, "task": task.id, "sample": str(sample)},
    )
    async with way.gateway.session(session_spec, on_event=listen) as course.session, _home(way) as home:
        request = _request(way, task, course.session, logs=logs, home=home)
        room = agent.furnish(_furnished(way, task, spec), request)
        watch.doing("making the room")
        async with await way.provider.start(room) as environment:
            course.outcome = await _answer(agent, request, environment, limit, watch)
            cause, _ = course.ended()
            if cause is None or CONSEQUENCES[cause].graded:
                watch.doing("collecting")
                course.handed_in = await way.benchmark.collect(task, environment, scratch)


async def _answer(
    agent: Agent, request: AgentRequest, environment: Environment, limit: asyncio.Event, watch: Watch
) -> AgentOutcome | None:
    """Let the agent work. Once the gateway has closed its door, the agent is ended if it does not end by itself."""
    working = asyncio.create_task(agent.answer(request, environment, watch.doing))
    closed = asyncio.create_task(limit.wait())
    try:
        await asyncio.wait({working, closed}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            await asyncio.wait({working}, timeout=NOTICE_SECONDS)
    finally:
        closed.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
    if working.cancelled():
        return await asyncio.to_thread(kept_outcome, Path(request.logs))
    return working.result()


@asynccontextmanager
async def _home(way: Way) -> AsyncIterator[str | None]:
    if way.homes is None:
        yield None
        return
    async with way.homes.lend() as sandbox:
        yield str(sandbox.home / "claude-config" / "default")


def _request(way: Way, task: Task, session: Session, *, logs: Path, home: str | None) -> AgentRequest:
    return AgentRequest(
        task_id=task.id,
        instruction=task.public.instruction,
        logs=str(logs),
        home=home,
        own_login=way.own_login,
        model=way.model,
        model_path=session.path,
        max_turns=way.max_turns,
        system_prompt=way.system_prompt,
        append_system_prompt=way.append_system_prompt,
        allowed_tools=way.allowed_tools,
        wall_seconds=way.limits.wall_seconds or task.public.limits.wall_seconds,
        session_id=str(uuid.uuid5(_SESSIONS, session.spec.label)),
    )


def _furnished(way: Way, task: Task, spec: EnvironmentSpec) -> EnvironmentSpec:
    """The benchmark's room, with the gateway's door and the run's limits."""
    wanted, own = way.limits, task.public.limits
    return msgspec.structs.replace(
        spec,
        network=way.network or spec.network,
        model_socket=way.model_socket,
        image=way.image or spec.image,
        limits=msgspec.structs.replace(
            own,
            wall_seconds=None,  # the agent's clock is its own; the room must outlive it to be collected from
            memory_mb=wanted.memory_mb or own.memory_mb,
            processes=wanted.processes or own.processes,
            cpus=wanted.cpus or own.cpus,
            disk_mb=wanted.disk_mb or own.disk_mb,
        ),
        labels={**spec.labels, "run": way.run_id, "task": task.id},
    )


def _keep(logs: Path, answer: Answer, handed_in: Prediction | None) -> None:
    if handed_in is not None and answer.submission is not None:
        write_atomic(logs / answer.submission, handed_in.content)
    write_atomic(logs / ANSWER, to_json(answer))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
