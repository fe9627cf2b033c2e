"""One attempt at a task: prepared, answered, collected. What is to be kept of it is handed back, to be written."""

import asyncio
import shutil
import time
import traceback
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from proctor.agents import kept_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest
from proctor.core.benchmark import Attending, Benchmark
from proctor.core.causes import CONSEQUENCES, Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Network
from proctor.core.errors import AgentFailure, ProctorError, UsageError
from proctor.core.evaluation import Prediction
from proctor.core.record import to_json
from proctor.core.result import AgentMetrics
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Finding
from proctor.gateway import Answered, Gateway, LimitHit, Redactor, Session, SessionEvent, SessionSpec, Trouble
from proctor.results.answers import CASSETTE
from proctor.runner.errors import cause_of, go_on_with_cancelling
from proctor.runner.homes import Homes
from proctor.runner.members import with_usage
from proctor.runner.records import ANSWER, SUBMISSION, Answer
from proctor.runner.redacted import RedactedRoom

CRASH: Final = "crash.log"
# Sessions keep their ids when an attempt is made again: what was paid for before can then be replayed to it.
_SESSIONS: Final = uuid.UUID("6f1d8b1e-5a58-4f3a-9a54-0d7a3b0a6c11")
# Less than any token costs: a task that has used up its cap before may replay what it paid for, and no more.
_NOTHING_USD: Final = 1e-12
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Way:
    """How every attempt of a run is made.

    Attributes:
        agent: makes the agent for a task.
        workplaces: where attempts lay out what their rooms are made from.
        gateway: the way to the model; None when there is no model.
        model_socket: where the gateway listens for rooms.
        homes: the pool that agents get their homes from; None for agents that need none.
        secrets: what must never be written down.
        notice_seconds: how long an agent has to notice that the model has been taken away, and to end by itself.
    """

    run_id: str
    benchmark: Benchmark
    provider: EnvironmentProvider
    agent: Callable[[Task], Agent]
    workplaces: "Workplaces"
    gateway: Gateway | None = None
    model_socket: Path | None = None
    homes: Homes | None = None
    model: str | None = None
    network: Network | None = None
    cap_usd: float | None = None
    limits: Limits = field(default_factory=Limits)
    max_turns: int = 100
    own_login: bool = False
    image: str | None = None
    secrets: tuple[str, ...] = ()
    notice_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt to be made.

    Attributes:
        number: of the attempt, counted from 1.
        logs: where it keeps what it leaves behind.
        earlier: recordings of attempts at the same answer that were cut short: what the model said there is said
            again, for nothing, as long as the agent asks the same.
        spent_usd: what those attempts have paid; the task's cap holds for all of them together.
    """

    task: Task
    sample: int
    number: int
    logs: Path
    earlier: tuple[Path, ...] = ()
    spent_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told what an attempt is doing, of every exchange with the model, and that no task can fare better."""

    doing: Callable[[str], None]
    heard: Callable[[Answered], None]
    hopeless: Callable[[Trouble], None]


@dataclass(frozen=True, slots=True)
class Made:
    """An attempt that was made: its answer, and the files that hold it."""

    answer: Answer
    files: dict[Path, bytes]


async def attempt(way: Way, this: Try, watch: Watch) -> Made:
    """Let the agent work on the task once. Nothing that it does, and no mistake of a plugin, raises out of here.

    Raises:
        UsageError: no attempt at any task can be made in this way.
    """
    started_at, clock = _now(), time.monotonic()
    course = _Course(Redactor(way.secrets), watch)
    files: dict[Path, bytes] = {}
    try:
        async with way.workplaces.lend() as folder:
            await course.take(way, this, folder)
        cause, detail = course.ended()
    except AgentFailure as failure:
        cause, detail = getattr(failure, "cause", Cause.MALFORMED_SUBMISSION), str(failure)
    except UsageError:
        raise
    except (ProctorError, OSError) as error:
        go_on_with_cancelling(error)
        cause, detail = cause_of(error), str(error)
    except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the run; the traceback is kept
        go_on_with_cancelling(error)
        cause, detail = Cause.ENVIRONMENT_FAILED, f"internal error: {type(error).__name__}: {error} (see {CRASH})"
        files[this.logs / CRASH] = course.redactor.data(traceback.format_exc().encode())
    outcome, handed_in = course.outcome, course.handed_in
    findings: tuple[Finding, ...] = ()
    submission = None
    if handed_in is not None:
        submission = SUBMISSION[handed_in.patch_kind]
        files[this.logs / submission], findings = without_secrets(handed_in.content, way.secrets, submission)
    answer = Answer(
        number=this.number,
        started_at=started_at,
        ended_at=_now(),
        cause=cause,
        detail=detail,
        seconds=round(outcome.seconds if outcome else time.monotonic() - clock, 3),
        usage=course.session.usage.models if course.session else (),
        metrics=course.metrics(),
        final_text=outcome.final_text if outcome else "",
        submission=submission,
        patch_kind=handed_in.patch_kind if handed_in else PatchKind.UNIFIED_DIFF,
        findings=findings,
    )
    files[this.logs / ANSWER] = course.redactor.data(to_json(answer))
    return Made(answer, files)


class _Course:
    """How far an attempt has come; filled in as it goes on, so that an error does not lose what was there."""

    def __init__(self, redactor: Redactor, watch: Watch) -> None:
        self.redactor = redactor
        self.watch = watch
        self.session: Session | None = None
        self.outcome: AgentOutcome | None = None
        self.handed_in: Prediction | None = None
        self._closed = asyncio.Event()
        self._answers = 0
        self._trouble: Trouble | None = None
        self._hopeless = False

    async def take(self, way: Way, this: Try, folder: Path) -> None:
        """Go all the way."""
        doing = self.watch.doing
        doing("preparing")
        agent = way.agent(this.task)
        spec = await way.benchmark.prepare(this.task, folder)
        async with _home(way) as sandbox:
            request = _request(way, this, sandbox)
            room = agent.furnish(_furnished(way, this.task, spec), request)
            doing("making the room")
            async with await way.provider.start(room) as environment:
                async with (
                    _attended(way.benchmark, this.task, environment, folder),
                    self._model(way, this, environment) as path,
                ):
                    request = msgspec.structs.replace(request, model_path=path)
                    self.outcome = await self._answer(way, agent, request, environment)
                cause, _ = self.ended()
                if cause is None or CONSEQUENCES[cause].graded:
                    doing("collecting")
                    self.handed_in = await way.benchmark.collect(this.task, environment, folder)

    @asynccontextmanager
    async def _model(self, way: Way, this: Try, environment: Environment) -> AsyncIterator[str | None]:
        """The attempt's own path at the gateway; closed for good before anything is collected."""
        if way.gateway is None:
            yield None
            return
        self.watch.doing("waiting for its share of the budget")
        cap = None if way.cap_usd is None else max(way.cap_usd - this.spent_usd, _NOTHING_USD)
        spec = SessionSpec(
            task_id=this.task.id,
            label=_label(way, this),
            cap_usd=cap,
            cassette=this.logs / CASSETTE,
            earlier=this.earlier,
            values={"workspace": environment.workdir, "task": this.task.id, "sample": str(this.sample)},
        )
        async with way.gateway.session(spec, on_event=self._listen) as self.session:
            self.redactor.add(self.session.token)
            self.watch.doing("starting the agent")
            yield self.session.path

    def _listen(self, event: SessionEvent) -> None:
        match event:
            case Answered():
                if event.status == _OK and event.cut is None:
                    self._answers += 1
                    if not self._hopeless:
                        self._trouble = None  # whatever it was, the agent got over it
                self.watch.heard(event)
            case LimitHit():
                self._closed.set()
            case Trouble() if not self._hopeless:
                self._trouble = event
                # A login that has worked may be refused for one model only; the agent then sees for itself.
                refused = event.cause is Cause.BAD_LOGIN and self._answers > 0
                if CONSEQUENCES[event.cause].stops_run and not refused:
                    self._hopeless = True
                    self._closed.set()
                    self.watch.hopeless(event)

    async def _answer(
        self, way: Way, agent: Agent, request: AgentRequest, environment: Environment
    ) -> AgentOutcome | None:
        """Let the agent work. Once the gateway has closed its door, the agent is ended if it does not end by itself."""
        room = RedactedRoom(environment, self.redactor)
        working = asyncio.create_task(agent.answer(request, room, self.watch.doing))
        closed = asyncio.create_task(self._closed.wait())
        try:
            await asyncio.wait({working, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await asyncio.wait({working}, timeout=way.notice_seconds)
        finally:
            closed.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        if working.cancelled():
            return await asyncio.to_thread(kept_outcome, Path(request.logs))
        return working.result()

    def ended(self) -> tuple[Cause | None, str]:
        """Why the agent ended. What the gateway knows weighs more than what the agent made of it."""
        session, outcome = self.session, self.outcome
        unfinished = outcome is None or outcome.cause is not None
        # An answer that used a budget up may have been the last that the agent needed.
        if session is not None and session.limit is not None and (unfinished or session.usage.refused):
            return session.limit.cause, session.limit.message
        if session is not None and session.diverged is not None:
            return Cause.REPLAY_DIVERGED, session.diverged.message
        if self._trouble is not None and unfinished:
            return self._trouble.cause, self._trouble.message
        if outcome is None:
            return Cause.AGENT_CRASHED, "it left no outcome"
        return outcome.cause, outcome.detail

    def metrics(self) -> AgentMetrics:
        """The agent's own numbers; turns and compactions as the gateway saw them, where there was one."""
        own = self.outcome.metrics if self.outcome else AgentMetrics(agents=0)
        if self.session is None or not self.session.usage.requests:
            return own
        usage = self.session.usage
        return msgspec.structs.replace(
            own,
            turns=usage.turns,
            compactions=max(usage.compactions, own.compactions),
            members=with_usage(own.members, usage),
        )


def without_secrets(content: bytes, secrets: tuple[str, ...], file: str) -> tuple[bytes, tuple[Finding, ...]]:
    """A submission fit to be stored. It is evidence, so nothing but our own secrets is taken out, and that is told."""
    clean = content
    for secret in sorted(secrets, key=len, reverse=True):
        clean = clean.replace(secret.encode(), b"[redacted]")
    if clean == content:
        return content, ()
    detail = "it held a key or a login of this run, which was taken out before it was stored and graded"
    return clean, (Finding(code="secret_in_submission", path=file, detail=detail),)


def _attended(
    benchmark: Benchmark, task: Task, environment: Environment, folder: Path
) -> AbstractAsyncContextManager[None]:
    return benchmark.attend(task, environment, folder) if isinstance(benchmark, Attending) else nullcontext()


class Workplaces:
    """Folders in which attempts lay out what their rooms are made from; one that is empty again serves the next."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._free: list[Path] = []
        self._made = 0

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Path]:
        """An empty folder, for the length of the block."""
        if self._free:
            folder = self._free.pop()
        else:
            self._made += 1
            folder = self._root / str(self._made)
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            # Removing a large tree takes a while, and others are served meanwhile.
            if not any(folder.iterdir()) or await asyncio.to_thread(_emptied, folder):
                self._free.append(folder)


def _emptied(folder: Path) -> bool:
    """Remove all that is in a folder; whether it is empty now. If not, the folder is of no use to anybody else."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return not any(folder.iterdir())


@asynccontextmanager
async def _home(way: Way) -> AsyncIterator[Path | None]:
    if way.homes is None:
        yield None
        return
    async with way.homes.lend() as sandbox:
        yield sandbox


def _label(way: Way, this: Try) -> str:
    return f"{way.run_id}/{this.task.id}/{this.sample}"


def _request(way: Way, this: Try, sandbox: Path | None) -> AgentRequest:
    return AgentRequest(
        task_id=this.task.public.alias or this.task.id,
        instruction=this.task.public.instruction,
        logs=str(this.logs),
        home=None if sandbox is None else str(sandbox / "claude-config" / "default"),
        sandbox=None if sandbox is None else str(sandbox),
        own_login=way.own_login,
        model=way.model,
        max_turns=way.max_turns,
        wall_seconds=way.limits.wall_seconds or this.task.public.limits.wall_seconds,
        session_id=str(uuid.uuid5(_SESSIONS, _label(way, this))),
    )


def _furnished(way: Way, task: Task, spec: EnvironmentSpec) -> EnvironmentSpec:
    """The benchmark's room, with the gateway's door and the run's limits."""
    wanted, own = way.limits, task.public.limits
    return msgspec.structs.replace(
        spec,
        network=way.network or spec.network,
        model_socket=way.model_socket,
        image=way.image or spec.image,
        build=None if way.image else spec.build,
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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
