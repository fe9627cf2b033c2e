"""One attempt at a task: prepared, answered, collected. What is to be kept of it is handed back, to be written."""

import asyncio
import shutil
import time
import traceback
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from proctor.agents import read_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest
from proctor.core.benchmark import Benchmark
from proctor.core.causes import CONSEQUENCES, Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Network
from proctor.core.errors import AgentFailure, ProctorError, UsageError
from proctor.core.evaluation import Prediction
from proctor.core.record import to_json
from proctor.core.result import AgentMetrics
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Finding
from proctor.gateway import (
    BudgetLimitHit,
    ExchangeFinished,
    Gateway,
    GatewayEvent,
    GatewayFailure,
    GatewaySession,
    GatewaySessionSpec,
    Redactor,
)
from proctor.results.attempt_record import RECORDING_FILE
from proctor.runner.errors import cause_of, error_text, reraise_if_cancelled
from proctor.runner.member_usage import add_member_usage
from proctor.runner.records import ATTEMPT_FILE, SUBMISSION_FILES, AttemptRecord
from proctor.runner.redacted_environment import RedactedEnvironment
from proctor.runner.sandbox_pool import SandboxPool

CRASH_LOG: Final = "crash.log"
# Sessions keep their ids when an attempt is made again: what was paid for before can then be replayed to it.
_SESSION_NAMESPACE: Final = uuid.UUID("6f1d8b1e-5a58-4f3a-9a54-0d7a3b0a6c11")
# Less than any token costs: a task that has used up its cap before may replay what it paid for, and no more.
_MIN_CAP_USD: Final = 1e-12
_HTTP_OK: Final = 200


@dataclass(frozen=True, slots=True)
class RunContext:
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
    make_agent: Callable[[Task], Agent]
    scratch: "ScratchPool"
    gateway: Gateway | None = None
    model_socket: Path | None = None
    sandboxes: SandboxPool | None = None
    model: str | None = None
    network: Network | None = None
    max_trial_usd: float | None = None
    limits: Limits = field(default_factory=Limits)
    max_turns: int = 100
    own_login: bool = False
    image: str | None = None
    secrets: tuple[str, ...] = ()
    grace_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """One attempt to be made.

    Attributes:
        number: of the attempt, counted from 1.
        logs: where it keeps what it leaves behind.
        earlier: recordings of attempts at the same answer that were cut short: what the model said there is said
            again, for nothing, as long as the agent asks the same.
        spent_usd: what those attempts have paid; the task's cap holds for all of them together.
    """

    task: Task
    trial: int
    number: int
    logs: Path
    earlier_recordings: tuple[Path, ...] = ()
    spent_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class AttemptCallbacks:
    """Who is told what an attempt is doing, of every exchange with the model, and that no task can fare better."""

    on_progress: Callable[[str], None]
    on_response: Callable[[ExchangeFinished], None]
    on_fatal_error: Callable[[GatewayFailure], None]


@dataclass(frozen=True, slots=True)
class AttemptOutput:
    """An attempt that was made: its answer, and the files that hold it."""

    record: AttemptRecord
    files: dict[Path, bytes]


async def run_attempt(context: RunContext, spec: AttemptSpec, callbacks: AttemptCallbacks) -> AttemptOutput:
    """Let the agent work on the task once. Nothing that it does, and no mistake of a plugin, raises out of here.

    Raises:
        UsageError: no attempt at any task can be made in this way.
    """
    started_at, clock = _now(), time.monotonic()
    course = AttemptState(Redactor(context.secrets), callbacks)
    files: dict[Path, bytes] = {}
    try:
        async with context.scratch.acquire() as folder:
            await course.run(context, spec, folder)
        cause, detail = course.end_cause()
    except AgentFailure as failure:
        cause, detail = getattr(failure, "cause", Cause.MALFORMED_SUBMISSION), str(failure)
    except UsageError:
        raise
    except (ProctorError, OSError) as error:
        reraise_if_cancelled(error)
        cause, detail = cause_of(error), error_text(error)
    except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the run; the traceback is kept
        reraise_if_cancelled(error)
        cause, detail = Cause.ENVIRONMENT_FAILED, f"internal error: {type(error).__name__}: {error} (see {CRASH_LOG})"
        files[spec.logs / CRASH_LOG] = course.redactor.redact_bytes(traceback.format_exc().encode())
    outcome, handed_in = course.outcome, course.submission
    findings: tuple[Finding, ...] = ()
    submission = None
    if handed_in is not None:
        submission = SUBMISSION_FILES[handed_in.patch_kind]
        files[spec.logs / submission], findings = redact_submission(handed_in.content, context.secrets, submission)
    answer = AttemptRecord(
        number=spec.number,
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
    files[spec.logs / ATTEMPT_FILE] = course.redactor.redact_bytes(to_json(answer))
    return AttemptOutput(answer, files)


class AttemptState:
    """How far an attempt has come; filled in as it goes on, so that an error does not lose what was there."""

    def __init__(self, redactor: Redactor, callbacks: AttemptCallbacks) -> None:
        self.redactor = redactor
        self.callbacks = callbacks
        self.session: GatewaySession | None = None
        self.outcome: AgentOutcome | None = None
        self.submission: Prediction | None = None
        self._model_closed = asyncio.Event()
        self._responses = 0
        self._provider_error: GatewayFailure | None = None
        self._fatal = False

    async def run(self, context: RunContext, attempt: AttemptSpec, folder: Path) -> None:
        """Go all the way."""
        doing = self.callbacks.on_progress
        doing("preparing")
        agent = context.make_agent(attempt.task)
        spec = await context.benchmark.prepare(attempt.task, folder)
        async with _acquire_sandbox(context) as sandbox:
            request = _agent_request(context, attempt, sandbox)
            room = agent.prepare_spec(_attempt_environment_spec(context, attempt.task, spec), request)
            doing("making the room")
            async with await context.provider.start(room) as environment:
                async with (
                    context.benchmark.serve(attempt.task, environment, folder),
                    self._model_session(context, attempt, environment) as path,
                ):
                    request = msgspec.structs.replace(request, model_path=path)
                    self.outcome = await self._run_agent(context, agent, request, environment)
                cause, _ = self.end_cause()
                if cause is None or CONSEQUENCES[cause].graded:
                    doing("collecting")
                    self.submission = await context.benchmark.collect(attempt.task, environment, folder)

    @asynccontextmanager
    async def _model_session(
        self, context: RunContext, attempt: AttemptSpec, environment: Environment
    ) -> AsyncIterator[str | None]:
        """The attempt's own path at the gateway; closed for good before anything is collected."""
        if context.gateway is None:
            yield None
            return
        self.callbacks.on_progress("waiting for its share of the budget")
        cap = None if context.max_trial_usd is None else max(context.max_trial_usd - attempt.spent_usd, _MIN_CAP_USD)
        spec = GatewaySessionSpec(
            task_id=attempt.task.id,
            label=_trial_label(context, attempt),
            cap_usd=cap,
            recording=attempt.logs / RECORDING_FILE,
            earlier_recordings=attempt.earlier_recordings,
            values={"workspace": environment.workdir, "task": attempt.task.id, "sample": str(attempt.trial)},
        )
        async with context.gateway.session(spec, on_event=self._on_session_event) as self.session:
            self.redactor.add(self.session.token)
            self.callbacks.on_progress("starting the agent")
            yield self.session.path

    def _on_session_event(self, event: GatewayEvent) -> None:
        match event:
            case ExchangeFinished():
                if event.status == _HTTP_OK and event.cut is None:
                    self._responses += 1
                    if not self._fatal:
                        self._provider_error = None  # whatever it was, the agent got over it
                self.callbacks.on_response(event)
            case BudgetLimitHit():
                self._model_closed.set()
            case GatewayFailure() if not self._fatal:
                self._provider_error = event
                # A login that has worked may be refused for one model only; the agent then sees for itself.
                refused = event.cause is Cause.BAD_LOGIN and self._responses > 0
                if CONSEQUENCES[event.cause].stops_run and not refused:
                    self._fatal = True
                    self._model_closed.set()
                    self.callbacks.on_fatal_error(event)

    async def _run_agent(
        self, context: RunContext, agent: Agent, request: AgentRequest, environment: Environment
    ) -> AgentOutcome | None:
        """Let the agent work. Once the gateway has closed its door, the agent is ended if it does not end by itself."""
        room = RedactedEnvironment(environment, self.redactor)
        working = asyncio.create_task(agent.solve(request, room, self.callbacks.on_progress))
        closed = asyncio.create_task(self._model_closed.wait())
        try:
            await asyncio.wait({working, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await asyncio.wait({working}, timeout=context.grace_seconds)
        finally:
            closed.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
                if not working.cancelled():
                    working.exception()  # it is heard here, or nowhere: whoever was waiting may be gone
        if working.cancelled():
            return await asyncio.to_thread(read_outcome, Path(request.logs))
        return working.result()

    def end_cause(self) -> tuple[Cause | None, str]:
        """Why the agent ended. What the gateway knows weighs more than what the agent made of it."""
        session, outcome = self.session, self.outcome
        unfinished = outcome is None or outcome.cause is not None
        # An answer that used a budget up may have been the last that the agent needed.
        if session is not None and session.limit is not None and (unfinished or session.usage.refused):
            return session.limit.cause, session.limit.message
        if session is not None and session.divergence is not None:
            return Cause.REPLAY_DIVERGED, session.divergence.message
        if self._provider_error is not None and unfinished:
            return self._provider_error.cause, self._provider_error.message
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
            members=add_member_usage(own.members, usage),
        )


def redact_submission(content: bytes, secrets: tuple[str, ...], file: str) -> tuple[bytes, tuple[Finding, ...]]:
    """A submission fit to be stored. It is evidence, so nothing but our own secrets is taken out, and that is told."""
    clean = content
    for secret in sorted(secrets, key=len, reverse=True):
        clean = clean.replace(secret.encode(), b"[redacted]")
    if clean == content:
        return content, ()
    detail = "it held a key or a login of this run, which was taken out before it was stored and graded"
    return clean, (Finding(code="secret_in_submission", path=file, detail=detail),)


class ScratchPool:
    """Folders in which attempts lay out what their rooms are made from; one that is empty again serves the next."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._free: list[Path] = []
        self._created = 0

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[Path]:
        """An empty folder, for the length of the block."""
        if self._free:
            folder = self._free.pop()
        else:
            self._created += 1
            folder = self._root / str(self._created)
            folder.mkdir(parents=True)
        try:
            yield folder
        finally:
            # Removing a large tree takes a while, and others are served meanwhile.
            if not any(folder.iterdir()) or await asyncio.to_thread(_clear_directory, folder):
                self._free.append(folder)


def _clear_directory(folder: Path) -> bool:
    """Remove all that is in a folder; whether it is empty now. If not, the folder is of no use to anybody else."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return not any(folder.iterdir())


@asynccontextmanager
async def _acquire_sandbox(context: RunContext) -> AsyncIterator[Path | None]:
    if context.sandboxes is None:
        yield None
        return
    async with context.sandboxes.acquire() as sandbox:
        yield sandbox


def _trial_label(context: RunContext, attempt: AttemptSpec) -> str:
    return f"{context.run_id}/{attempt.task.id}/{attempt.trial}"


def _agent_request(context: RunContext, attempt: AttemptSpec, sandbox: Path | None) -> AgentRequest:
    return AgentRequest(
        task_id=attempt.task.public.alias or attempt.task.id,
        instruction=attempt.task.public.instruction,
        logs=str(attempt.logs),
        claude_config_dir=None if sandbox is None else str(sandbox / "claude-config" / "default"),
        sandbox=None if sandbox is None else str(sandbox),
        own_login=context.own_login,
        model=context.model,
        max_turns=context.max_turns,
        wall_seconds=context.limits.wall_seconds or attempt.task.public.limits.wall_seconds,
        session_id=str(uuid.uuid5(_SESSION_NAMESPACE, _trial_label(context, attempt))),
    )


def _attempt_environment_spec(context: RunContext, task: Task, spec: EnvironmentSpec) -> EnvironmentSpec:
    """The benchmark's room, with the gateway's door and the run's limits."""
    wanted, own = context.limits, task.public.limits
    return msgspec.structs.replace(
        spec,
        network=context.network or spec.network,
        model_socket=context.model_socket,
        image=context.image or spec.image,
        build=None if context.image else spec.build,
        limits=msgspec.structs.replace(
            own,
            wall_seconds=None,  # the agent's clock is its own; the room must outlive it to be collected from
            memory_mb=wanted.memory_mb or own.memory_mb,
            processes=wanted.processes or own.processes,
            cpus=wanted.cpus or own.cpus,
            disk_mb=wanted.disk_mb or own.disk_mb,
        ),
        labels={**spec.labels, "run": context.run_id, "task": task.id},
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
