"""One attempt at a trial: the environment is prepared, the agent works, the submission is collected."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from proctor.agents import read_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest
from proctor.core.causes import CONSEQUENCES, Cause
from proctor.core.disk_names import disk_name
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.errors import AgentFailure, ProctorError, UsageError
from proctor.core.evaluation import Prediction
from proctor.core.formatting import plural
from proctor.core.record import time_now, to_json
from proctor.core.request import Mode
from proctor.core.result import AgentMetrics, AlteredRequests, ModelUsage, StepResult, WebUse
from proctor.core.run import Trial
from proctor.core.submission import PatchKind
from proctor.core.verdict import Finding
from proctor.gateway import (
    BudgetLimitHit,
    ExchangeFinished,
    GatewayEvent,
    GatewayFailure,
    GatewaySession,
    GatewaySessionSpec,
    Redactor,
)
from proctor.gateway.backend import RecordingGate
from proctor.gateway.model_call import Role
from proctor.results.attempt_record import ATTEMPT_FILE, RECORDING_FILE, SUBMISSION_FILES, AttemptRecord
from proctor.runner.errors import (
    CRASH_LOG,
    cause_of,
    collecting_cause,
    crash_log,
    error_text,
    failure_of,
    reraise_if_cancelled,
)
from proctor.runner.member_usage import add_member_usage
from proctor.runner.redacted_environment import RedactedEnvironment, redact_submission
from proctor.runner.run_resources import RunResources
from proctor.runner.scratch import scratch_dir
from proctor.runner.step_parts import owned_by, unused_parts, usage_between
from proctor.workspaces import InvalidSubmission

# Sessions keep their ids when an attempt is repeated: what was paid for before can then be replayed to it.
_SESSION_NAMESPACE: Final = uuid.UUID("6f1d8b1e-5a58-4f3a-9a54-0d7a3b0a6c11")
_HTTP_OK: Final = 200
_HTTP_NOT_FOUND: Final = 404
# The gateway has tried each of these requests several times: a program that still asks would go on for hours.
_MAX_FAILED_REQUESTS: Final = 4
_SERVER_ERROR: Final = 500
_STATUS_CAUSES: Final = {
    401: Cause.BAD_LOGIN,
    402: Cause.BAD_LOGIN,
    403: Cause.BAD_LOGIN,
    408: Cause.PROVIDER_ERROR,
    429: Cause.RATE_LIMITED,
}
_AGENTS_DOING: Final = (Cause.TOO_LARGE, Cause.UNREADABLE, Cause.RESOURCE_LIMIT)


@dataclass(frozen=True, slots=True)
class AttemptSpec:
    """An attempt to be made.

    Attributes:
        trial: which trial it is an attempt at; `number`: which attempt, counted from 1.
        logs: where it keeps what it leaves behind.
        earlier_recordings: of attempts at the same trial that were cut short. The model's responses there are replayed
            at no cost, as long as the agent sends the same requests.
        spent_usd: what those attempts have cost; the cap on a trial's cost holds for all of them together.
        progress: is told what is being done.
        model_responded: is told that the model has responded to the agent.
        stop_run: is told that no later trial can fare better: the cause, and in words.
    """

    trial: Trial
    number: int
    logs: Path
    earlier_recordings: tuple[Path, ...] = ()
    spent_usd: float = 0.0
    progress: Callable[[str], None] = lambda _: None
    model_responded: Callable[[ExchangeFinished], None] = lambda _: None
    stop_run: Callable[[Cause, str], None] = lambda *_: None


@dataclass(frozen=True, slots=True)
class AttemptOutput:
    """An attempt that has ended; `files` are to be stored among its logs, by name."""

    record: AttemptRecord
    files: dict[str, bytes]


class AttemptRunner:
    """Makes one attempt. What is known of it is filled in as it proceeds, so that an error does not lose it.

    With a `gate`, its recording is copied there, and the model is asked nothing of which the copy has no mark.
    """

    def __init__(self, resources: RunResources, spec: AttemptSpec, gate: RecordingGate | None = None) -> None:
        self._resources = resources
        self._gate = gate
        self._benchmark = resources.benchmark
        self._task = resources.tasks[spec.trial.task_id]
        self._spec = spec
        self._files: dict[str, bytes] = {}
        self._redactor = Redactor(resources.secrets)
        self._session: GatewaySession | None = None
        self._outcome: AgentOutcome | None = None
        self._submission: Prediction | None = None
        self._collect_seconds = 0.0
        self._model_closed = asyncio.Event()
        self._responses = 0
        self._provider_error: GatewayFailure | None = None
        self._last_exchange: ExchangeFinished | None = None
        self._failed_requests = 0
        self._ends_by_gateway = False
        self._fatal = False
        self._agent: Agent | None = None
        self._steps: list[StepResult] = []
        self._shared_folders: tuple[str, ...] = ()

    async def run(self) -> AttemptOutput:
        """Let the agent work on the task once. Nothing that it does, and no mistake of a plugin, raises out of here.

        Raises:
            UsageError: no attempt at any task can be made in this way.
        """
        started_at, clock = time_now(), time.monotonic()
        try:
            async with AsyncExitStack() as stack:
                folder, agent, request, environment = await self._prepare(stack)
                async with (
                    self._benchmark.serve(self._task, environment, folder),
                    self._model_session(environment, agent) as path,
                ):
                    request = msgspec.structs.replace(request, model_path=path)
                    async with aclosing(self._instructions(request, environment, folder)) as instructions:
                        async for given in instructions:
                            user = await self._benchmark.agent_user(self._task, given.step, environment)
                            redacted = RedactedEnvironment(environment, self._redactor, user)
                            async with owned_by(environment, user, self._shared_folders):
                                solving = asyncio.create_task(agent.solve(given, redacted, self._report), name="agent")
                                self._outcome = await self._wait_for_agent(solving, Path(given.logs))
                cause, _ = self._end_cause()
                if cause is None or CONSEQUENCES[cause].graded:
                    self._report("collecting")
                    started = time.monotonic()
                    self._submission = await self._collect(environment, folder)
                    self._collect_seconds = time.monotonic() - started
            cause, detail = self._end_cause()
        except AgentFailure as failure:
            cause, detail = self._end_cause()
            if cause is not Cause.RESOURCE_LIMIT:
                cause, detail = cause_of(failure), str(failure)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - a plugin's mistake costs its task, not the run
            reraise_if_cancelled(error)
            cause, detail = failure_of(error, cause_of)
            if (crashed := crash_log(error)) is not None:
                self._files[CRASH_LOG] = self._redactor.redact_bytes(crashed)
        record = self._record(cause, detail, started_at, time.monotonic() - clock)
        return AttemptOutput(record, self._files)

    @property
    def spent_usd(self) -> float:
        """What the attempt has cost so far, as the budget was charged."""
        return 0.0 if self._session is None else self._session.spent_usd

    async def _prepare(self, stack: AsyncExitStack) -> tuple[Path, Agent, AgentRequest, Environment]:
        run, task = self._resources, self._task
        folder = await stack.enter_async_context(scratch_dir(run.scratch))
        self._report("preparing")
        agent = run.make_agent(task)
        self._agent = agent
        self._ends_by_gateway = agent.ends_by_gateway
        spec = await self._benchmark.prepare(task, folder)
        sandbox = await stack.enter_async_context(run.sandboxes.acquire()) if run.sandboxes else None
        request = self._agent_request(sandbox)
        spec = agent.prepare_spec(self._environment_spec(spec), request)
        self._shared_folders = tuple(mount.target for mount in spec.mounts if mount.writable)
        self._report("starting the environment")
        environment = await stack.enter_async_context(await run.provider.start(spec))
        return folder, agent, request, environment

    async def _instructions(
        self, request: AgentRequest, environment: Environment, folder: Path
    ) -> AsyncGenerator[AgentRequest, None]:
        """What the agent is given, one after the other: the task's instruction, or those of its steps.

        Steps are given as long as the benchmark begins the next one.
        """
        task, config = self._task, self._resources.config
        if not task.public.steps:
            yield request
            return
        for number, step in enumerate(task.public.steps, start=1):
            self._report(f"step {number} of {len(task.public.steps)}: {step.name}")
            if not await self._benchmark.begin_step(task, step.name, environment, folder):
                return
            logs = self._spec.logs / "steps" / disk_name(step.name)
            logs.mkdir(parents=True, exist_ok=True)
            label = self._label if config.one_conversation else f"{self._label}/{step.name}"
            before, clock = self._usage(), time.monotonic()
            yield msgspec.structs.replace(
                request,
                step=step.name,
                instruction=step.instruction,
                logs=str(logs),
                wall_seconds=config.timeout or step.wall_seconds,
                session_id=str(uuid.uuid5(_SESSION_NAMESPACE, label)),
                continues=config.one_conversation and number > 1,
            )
            cause, detail = self._end_cause()
            seconds = self._outcome.seconds if self._outcome else time.monotonic() - clock
            usage = usage_between(before, self._usage())
            done = StepResult(name=step.name, seconds=round(seconds, 3), usage=usage, cause=cause, detail=detail)
            self._steps.append(done)
            if cause is not None and not CONSEQUENCES[cause].graded:
                return
            clock = time.monotonic()
            with self._session.paused() if self._session is not None else nullcontext():
                goes_on = await self._benchmark.finish_step(
                    task, step.name, environment, folder, self._resources.grade_options
                )
            seconds = round(time.monotonic() - clock, 3)
            self._steps[-1] = msgspec.structs.replace(done, verify_seconds=seconds)
            if not goes_on or self._model_closed.is_set():
                return

    def _usage(self) -> tuple[ModelUsage, ...]:
        return self._session.usage.models if self._session is not None else ()

    async def _collect(self, environment: Environment, folder: Path) -> Prediction:
        """What the agent has left, as a submission.

        Raises:
            InvalidSubmission: it left what cannot be read, or is too much: its own failure.
        """
        try:
            return await self._benchmark.collect_with(self._task, environment, folder, self._resources.grade_options)
        except (ProctorError, OSError) as error:
            reraise_if_cancelled(error)
            cause = collecting_cause(error)
            if cause not in _AGENTS_DOING or isinstance(error, AgentFailure):
                raise
            raise InvalidSubmission(cause, f"the workspace cannot be collected: {error_text(error)}") from error

    def _agent_request(self, sandbox: Path | None) -> AgentRequest:
        config, public = self._resources.config, self._task.public
        return AgentRequest(
            task_id=public.alias or self._task.id,
            instruction=public.instruction,
            logs=str(self._spec.logs),
            claude_config_dir=None if sandbox is None else str(sandbox / "claude-config" / "default"),
            sandbox=None if sandbox is None else str(sandbox),
            own_login=self._resources.login is not None,
            model=self._resources.model_id,
            dialects=self._resources.dialects,
            max_turns=config.max_turns,
            wall_seconds=config.timeout or public.limits.wall_seconds,
            session_id=str(uuid.uuid5(_SESSION_NAMESPACE, self._label)),
            mcp_servers=public.mcp_servers,
            skills_dir=public.skills_dir,
        )

    def _environment_spec(self, spec: EnvironmentSpec) -> EnvironmentSpec:
        """The benchmark's environment, with the gateway's socket and the run's settings."""
        config = self._resources.config
        if config.image is not None and not self._benchmark.builds_on_image:
            spec = msgspec.structs.replace(spec, image=config.image, build=None)
        if config.network is not None:
            spec = msgspec.structs.replace(spec, network=config.network, allowed_hosts=(), changes_network=False)
        return msgspec.structs.replace(
            spec,
            model_socket=self._resources.model_socket,
            # The agent has its own clock; the environment must outlive it to be collected from.
            limits=msgspec.structs.replace(config.agent_limits(self._task.public.limits), wall_seconds=None),
            labels={**spec.labels, "run": config.run_id, "task": self._task.id},
        )

    @asynccontextmanager
    async def _model_session(self, environment: Environment, agent: Agent) -> AsyncIterator[str | None]:
        """The attempt's own path at the gateway; closed for good before anything is collected."""
        if self._resources.gateway is None:
            yield None
            return
        self._report("waiting for its reservation of the budget")
        config, number = self._resources.config, str(self._spec.trial.number)
        spec = GatewaySessionSpec(
            task_id=self._task.id,
            label=self._label,
            cap_usd=config.max_cost_per_task,
            spent_usd=self._spec.spent_usd,
            model=self._resources.model_id if agent.pins_model else None,
            max_turns=None if config.mode is Mode.H2 else config.max_turns,
            refusal_status=agent.refusal_status,
            web=config.web,
            recording=self._spec.logs / RECORDING_FILE,
            earlier_recordings=self._spec.earlier_recordings,
            # `sample` is what scripts called the trial before.
            values={"workspace": environment.workdir, "task": self._task.id, "trial": number, "sample": number},
        )
        async with self._resources.gateway.session(
            spec, on_event=self._on_session_event, gate=self._gate
        ) as self._session:
            self._redactor.add(self._session.token)
            self._report("starting the agent")
            yield self._session.path

    def _on_session_event(self, event: GatewayEvent) -> None:
        match event:
            case ExchangeFinished():
                if event.role is Role.MAIN:
                    self._last_exchange = event
                if event.status == _HTTP_OK and event.cut is None:
                    self._responses += 1
                    self._failed_requests = 0
                    if not self._fatal:
                        self._provider_error = None  # whatever it was, the agent recovered
                elif self._ends_by_gateway and event.role is Role.MAIN:
                    self._failed_requests += 1
                    if self._failed_requests >= _MAX_FAILED_REQUESTS:
                        self._model_closed.set()
                self._spec.model_responded(event)
            case BudgetLimitHit():
                self._model_closed.set()
            # An agent that has a model may ask for what there is none of; that is its own doing.
            case GatewayFailure() if not self._fatal and not (event.status == _HTTP_NOT_FOUND and self._responses):
                self._provider_error = event
                # A login that has worked may be refused for one model only; the agent then sees for itself.
                refused = event.cause is Cause.BAD_LOGIN and self._responses > 0
                if CONSEQUENCES[event.cause].stops_run and not refused:
                    self._fatal = True
                    self._model_closed.set()
                    self._spec.stop_run(event.cause, event.message)

    async def _wait_for_agent(self, solving: "asyncio.Task[AgentOutcome]", logs: Path) -> AgentOutcome | None:
        """How the agent ended. Once the gateway is closed to it, it is cancelled if it does not end by itself."""
        closed = asyncio.create_task(self._model_closed.wait())
        try:
            await asyncio.wait({solving, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not solving.done():
                await asyncio.wait({solving}, timeout=self._resources.grace_seconds)
        finally:
            closed.cancel()
            if not solving.done():
                solving.cancel()
                await asyncio.wait({solving})
                if not solving.cancelled():
                    solving.exception()  # retrieved here: the caller may have been cancelled
        if solving.cancelled():
            return await asyncio.to_thread(read_outcome, logs)
        return solving.result()

    def _end_cause(self) -> tuple[Cause | None, str]:
        """Why the agent ended. What the gateway knows outweighs what the agent made of it."""
        session, outcome = self._session, self._outcome
        unfinished = outcome is None or outcome.cause is not None
        # A response that used a budget up may have been the last that the agent needed.
        if session is not None and session.limit is not None and (unfinished or session.usage.refused):
            return session.limit.cause, session.limit.message
        if session is not None and session.divergence is not None:
            return Cause.REPLAY_DIVERGED, session.divergence.message
        if self._provider_error is not None and unfinished:
            return self._provider_error.cause, self._provider_error.message
        if outcome is None:
            return Cause.AGENT_CRASHED, "it left no outcome"
        ended_by_us = self._failed_requests >= _MAX_FAILED_REQUESTS and outcome.cause is Cause.INTERRUPTED
        if self._ends_by_gateway and (ended_by_us or outcome.cause in {None, Cause.AGENT_CRASHED}):
            failure = _exchange_failure(
                self._last_exchange, gave_up=outcome.cause is not None, responses=self._responses
            )
            return failure or (outcome.cause, outcome.detail)
        return outcome.cause, outcome.detail

    def _record(self, cause: Cause | None, detail: str, started_at: str, seconds: float) -> AttemptRecord:
        outcome, submission = self._outcome, self._submission
        findings: tuple[Finding, ...] = ()
        file = None
        if submission is not None:
            file = SUBMISSION_FILES[submission.patch_kind]
            content, findings = redact_submission(
                submission.content,
                self._resources.secrets,
                file,
                same_size=submission.patch_kind is PatchKind.ARTIFACTS,
            )
            self._files[file] = content
        record = AttemptRecord(
            number=self._spec.number,
            started_at=started_at,
            ended_at=time_now(),
            cause=cause,
            detail=detail,
            seconds=round(self._agent_seconds(seconds), 3),
            usage=self._session.usage.models if self._session else (),
            metrics=self._metrics(),
            final_text=outcome.final_text if outcome else "",
            submission=file,
            patch_kind=submission.patch_kind if submission else PatchKind.UNIFIED_DIFF,
            collect_seconds=round(self._collect_seconds, 3),
            findings=(*findings, *unused_parts(self._task, self._agent, self._resources.config)),
            web=self._web_use(),
            altered=self._altered_requests(),
            steps=tuple(self._steps),
        )
        self._files[ATTEMPT_FILE] = self._redactor.redact_bytes(to_json(record))
        return record

    def _agent_seconds(self, seconds: float) -> float:
        """How long the agent worked, in all its steps; `seconds`: that the attempt took, for one that did not end."""
        if self._steps:
            return sum(step.seconds for step in self._steps)
        return self._outcome.seconds if self._outcome else seconds

    def _web_use(self) -> WebUse | None:
        if self._session is None:
            return None
        usage = self._session.usage
        return WebUse(allowed=self._resources.config.web, refused=usage.web_refused, searches=usage.web_searches)

    def _altered_requests(self) -> AlteredRequests | None:
        usage = None if self._session is None else self._session.usage
        if usage is None or not (usage.pinned or usage.unsupported or usage.dropped):
            return None
        return AlteredRequests(pinned=usage.pinned, refused=usage.unsupported, dropped=usage.dropped)

    def _metrics(self) -> AgentMetrics:
        """The agent's own numbers; turns and compactions as the gateway saw them, where there was one."""
        own = self._outcome.metrics if self._outcome else AgentMetrics(agents=0)
        if self._session is None or not self._session.usage.requests:
            return own
        usage = self._session.usage
        return msgspec.structs.replace(
            own,
            turns=usage.turns,
            compactions=max(usage.compactions, own.compactions),
            members=add_member_usage(own.members, usage),
        )

    def _report(self, message: str) -> None:
        self._spec.progress(message)

    @property
    def _label(self) -> str:
        return f"{self._resources.config.run_id}/{self._task.id}/{self._spec.trial.number}"


def _exchange_failure(last: ExchangeFinished | None, *, gave_up: bool, responses: int) -> tuple[Cause, str] | None:
    """Why an agent ended whose last request to the model failed; None when it did not.

    A response with events that are no JSON has failed if the agent gave up at it: others ignore them. An agent whose
    every request was refused has not been tested; `responses`: how many it has had.
    """
    if last is None:
        return None
    if last.status == _HTTP_OK and last.cut is None:
        if not (gave_up and last.malformed):
            return None
        return (
            Cause.PROVIDER_ERROR,
            f"the last response was malformed: {plural(last.malformed, 'event')} of it not JSON",
        )
    if last.status == _HTTP_OK or last.status is None:
        return Cause.PROVIDER_ERROR, f"the last response cannot be used: {last.cut or 'there was none'}"
    cause = _STATUS_CAUSES.get(last.status)
    if cause is None:
        is_agents = responses > 0 and last.status < _SERVER_ERROR
        cause = Cause.AGENT_CRASHED if is_agents else Cause.PROVIDER_ERROR
    return cause, f"the model's provider answered its last request with status {last.status}"
