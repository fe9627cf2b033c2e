"""A pod of agents that h2 runs, for one task: launch it, send the task, poll it, collect its logs, stop it."""

import asyncio
import itertools
import math
import time
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from proctor.agents.claude_code import DEFAULTS, PINNED, PROGRAM, check_env, claude_program, machine_of
from proctor.agents.claude_outcome import FAULTS
from proctor.agents.h2 import adapter
from proctor.agents.h2.adapter import LaunchedAgent
from proctor.agents.h2.events import AgentActivity, PodEvent, SentMessage
from proctor.agents.h2.pod_environment import LOGS, PodEnvironment
from proctor.agents.h2.pod_state import (
    PodAgentState,
    PodAssessment,
    PodState,
    PodStatus,
    PodTimeouts,
    agents_to_look_at,
    agents_with_unsubmitted_message,
    assess,
    dialog_failure,
)
from proctor.agents.h2.screen import find_dialog, lines_of, screen_of
from proctor.agents.h2.template import PodTemplate, load_template
from proctor.agents.h2.timeline import TIMELINE_FILE, Timeline, build_timeline, metrics_of
from proctor.agents.outcomes import CauseAndDetail, not_started_outcome, write_outcome
from proctor.core.agent import KEY_PLACEHOLDER, Agent, AgentOutcome, AgentRequest, AgentSetup, ProgressCallback
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, Mount, Network
from proctor.core.errors import InfrastructureError, LimitReached, ProctorError, UsageError
from proctor.core.formatting import truncate_line
from proctor.core.model_aliases import MODEL_ALIASES
from proctor.core.programs import find_h2, first_line, resolve_program
from proctor.core.record import to_json
from proctor.core.result import AgentMetrics
from proctor.sandboxes.first_run_dialogs import VARIABLES as UNATTENDED
from proctor.sandboxes.layout import MARKER

H2_PROGRAM: Final = "/proctor/h2"
HOME: Final = "/proctor/home"
_ACCOUNT: Final = ("claude-config", "default", ".claude.json")
_POLLS_PER_STATUS_QUERY: Final = 5
_DIALOG_STAYS_SECONDS: Final = 1.0
_SHOWN_LINES: Final = 12
# What would be booked as the agents' failure.
_AGENT_FAILURES: Final = frozenset({Cause.AGENT_CRASHED, Cause.AGENT_TIMEOUT})
# What an interactive Claude Code does with a model while it waits for its user: nobody reads it, and an Enter could be
# taken for its confirmation.
_NO_SUGGESTIONS: Final = {"CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "0", "CLAUDE_CODE_ENABLE_AWAY_SUMMARY": "0"}
_FAULTS: Final = {
    **FAULTS,
    "no_git": "the environment has no git, which h2 needs; install git in the image",
    "no_h2": "h2 does not run in the environment; build it for its processor and C library (CGO_ENABLED=0)",
}
_UNSUPPORTED_WORKDIR: Final = (
    "h2 cannot follow Claude Code in the folder {}: it finds transcripts only for a real path of letters, digits, "
    "dashes and slashes; give the task another workdir"
)


class H2Pod(Agent):
    """Works on a task with a pod of agents.

    Args:
        setup: `program` is Claude Code, `h2_program` is h2; `pod_template` and `pod_variables` say what the pod is.
        timeouts: how long what is waited for; the start of the pod as long as the setup says.
    """

    name = "h2_pod"
    dialects = ("messages",)

    def __init__(self, setup: AgentSetup | None = None, *, timeouts: PodTimeouts | None = None) -> None:
        super().__init__(setup)
        check_env(self._setup.agent_options.env)
        self._timeouts = timeouts or PodTimeouts(ready=self._setup.pod_start_timeout)

    def versions(self) -> dict[str, str]:
        """The versions of h2 and of Claude Code on this machine."""
        h2 = adapter.h2_version(h2_program(self._setup))
        claude = claude_program(self._setup)
        try:
            return {"h2": h2, "claude": first_line([claude, "--version"])}
        except OSError as error:
            raise InfrastructureError(f"Claude Code does not run: {error}", where=claude) from error

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        """Mount h2 and Claude Code, read-only, and the whole sandbox, writable.

        Raises:
            InfrastructureError: a program or the sandbox is not on this machine, or cannot be mounted.
            UsageError: the request cannot be met.
        """
        if spec.network is Network.NONE:
            raise UsageError(
                "a pod cannot reach a model from an environment without network", fix="use --network model"
            )
        sandbox = _sandbox(request)
        programs = (claude_program(self._setup), PROGRAM), (h2_program(self._setup), H2_PROGRAM)
        for program, _ in programs:
            if not self._setup.in_place and not machine_of(program) and not zipfile.is_zipfile(program):
                raise InfrastructureError(
                    "this is not a Linux program in one file, so it cannot be mounted in an environment", where=program
                )
        template = self._template(sandbox)
        files = {
            sandbox / "bin" / "claude": adapter.CLAUDE_SCRIPT.encode(),
            sandbox / "bin" / "h2": adapter.H2_SCRIPT.encode(),
            sandbox / "pods" / f"{template.name}.yaml.tmpl": template.text.encode(),
            **{sandbox / "roles" / name: content for name, content in template.roles.items()},
        }
        for path, content in files.items():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755 if path.parent.name == "bin" else 0o644)
        mounts = [
            Mount(source=str(program), target=self._environment_path(program, place)) for program, place in programs
        ]
        mounts.append(Mount(source=str(sandbox), target=self._environment_path(sandbox, HOME), writable=True))
        return msgspec.structs.replace(spec, mounts=(*spec.mounts, *mounts))

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Let the pod work on the task until all of its agents are done."""
        if not request.instruction.strip():
            return write_outcome(request, not_started_outcome(Cause.INVALID_TASK, "the instruction is empty"))
        if environment.model_url is None:
            raise InfrastructureError("the environment cannot reach the model gateway")
        if not adapter.SUPPORTED_WORKDIR.fullmatch(environment.workdir):
            why = _UNSUPPORTED_WORKDIR.format(environment.workdir)
            return write_outcome(request, not_started_outcome(Cause.NOT_RUNNABLE_HERE, why))
        sandbox = _sandbox(request)
        account = sandbox.joinpath(*_ACCOUNT)
        known = account.read_bytes() if account.exists() else None
        account.write_bytes(adapter.trust_workspace(known, environment.workdir, KEY_PLACEHOLDER))
        claude = claude_program(self._setup)
        home = self._environment_path(sandbox, HOME)
        pod_environment = PodEnvironment(
            environment,
            home=home,
            variables=self._variables(request, environment.model_url, home),
            isolated=not self._setup.in_place,
        )
        template = self._template(sandbox)
        attempt = _PodAttempt(pod_environment, request, sandbox, self._timeouts, on_progress)
        values = template.values(self._setup.pod_variables, working_dir=environment.workdir, model=request.model)
        cancelled = False
        try:
            cause, detail = await attempt.run(machine_of(claude), template.name, values)
        except asyncio.CancelledError:
            cancelled, cause, detail = True, Cause.INTERRUPTED, "it was stopped from outside"
        except LimitReached as error:
            cause = Cause.AGENT_TIMEOUT if error.kind.startswith("wall") else Cause.RESOURCE_LIMIT
            detail = f"the environment ended the pod: {error.sentence}"
        outcome = write_outcome(request, await attempt.finish(cause, detail))
        if cancelled:
            raise asyncio.CancelledError
        return outcome

    def _template(self, sandbox: Path) -> PodTemplate:
        pods = {f"pods/{file.name}": file.read_bytes() for file in (sandbox / "pods").iterdir() if file.is_file()}
        return load_template(self._setup.pod_template, pods)

    def _environment_path(self, path: Path, environment_path: str) -> str:
        return str(path) if self._setup.in_place else environment_path

    def _variables(self, request: AgentRequest, model_url: str, home: str) -> dict[str, str]:
        variables = {
            **DEFAULTS,
            **_NO_SUGGESTIONS,
            **self._setup.agent_options.env,
            **PINNED,
            **UNATTENDED,
            **adapter.variables(home),
        }
        host = urlsplit(model_url).hostname or ""
        no_proxy = ",".join(dict.fromkeys(["127.0.0.1", "localhost", host]))
        variables |= {
            "PROCTOR_CLAUDE": self._environment_path(claude_program(self._setup), PROGRAM),
            "PROCTOR_H2": self._environment_path(h2_program(self._setup), H2_PROGRAM),
            "PROCTOR_MODEL_URL": model_url + (request.model_path or ""),
            "NO_PROXY": no_proxy,
            "no_proxy": no_proxy,
            # A role may say `haiku`; it means the same in every version of Claude Code.
            **{f"ANTHROPIC_DEFAULT_{name.upper()}_MODEL": MODEL_ALIASES[name] for name in ("haiku", "opus", "sonnet")},
        }
        if not request.own_login:
            variables["ANTHROPIC_API_KEY"] = KEY_PLACEHOLDER
        return variables


def h2_program(setup: AgentSetup) -> Path:
    """H2: the program that the setup names, or the one of this machine.

    Raises:
        InfrastructureError: there is none, or it is not executable.
    """
    fix = "build it from its repository, and name it with --h2-bin or H2_BIN"
    return resolve_program(setup.h2_program, find_h2, missing="h2 is not installed here", fix=fix)


def _sandbox(request: AgentRequest) -> Path:
    if request.sandbox is None or not Path(request.sandbox, MARKER).is_file():
        raise InfrastructureError("a pod needs a sandbox", where=request.sandbox)
    return Path(request.sandbox)


class _PodAttempt:
    """One pod from its launch to its end."""

    def __init__(
        self,
        environment: PodEnvironment,
        request: AgentRequest,
        sandbox: Path,
        timeouts: PodTimeouts,
        on_progress: ProgressCallback,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._request = request
        self._sandbox = sandbox
        self._timeouts = timeouts
        self._on_progress = on_progress
        self._clock = clock
        self._started_at = clock()
        self._deadline = math.inf if request.wall_seconds is None else self._started_at + request.wall_seconds
        self._launched: tuple[LaunchedAgent, ...] = ()
        self._agents: dict[str, PodAgentState] = {}
        self._prepared = False
        self._ended_at = 0.0

    async def run(self, machine: str, template: str, values: dict[str, str]) -> CauseAndDetail:
        """Launch the pod, send the task, and wait until it is done or has failed."""
        self._on_progress("starting the pod")
        fault = await self._environment.prepare(machine)
        if fault == "link":
            return Cause.NOT_RUNNABLE_HERE, _UNSUPPORTED_WORKDIR.format(
                "of this task, which is reached through a symlink"
            )
        if fault:
            return Cause.MISSING_PROGRAM, _FAULTS.get(fault, fault)
        self._prepared = True
        try:
            self._launched = await self._environment.launch(template, values, seconds=self._timeouts.ready)
            lead = adapter.lead_of(self._launched)
            now = self._clock()
            self._agents = {
                agent.name: PodAgentState(name=agent.name, activity_since=now, last_event_at=now)
                for agent in self._launched
            }
            assessment = await self._poll_until_decided(lead, launched=now, sent=None)
            if assessment.status is PodStatus.READY:
                await self._environment.send_task(lead, self._request.instruction)
                assessment = await self._poll_until_decided(lead, launched=now, sent=self._clock())
        except InfrastructureError as error:
            if error.retryable:
                raise  # the environment is gone
            return error.cause or Cause.ENVIRONMENT_FAILED, error.what
        return await self._with_screen(assessment)

    async def finish(self, cause: Cause | None, detail: str) -> AgentOutcome:
        """Stop the pod, collect its logs, and describe its end."""
        self._ended_at = time.time()
        seconds = self._clock() - self._started_at
        if self._prepared:
            self._on_progress("stopping the pod")
            names = list(self._agents) or await self._listening_agents()
            problems = []
            steps: tuple[Callable[[], Awaitable[None]], ...] = (
                lambda: self._environment.stop(names, seconds=self._timeouts.stop),
                lambda: self._environment.collect_logs(Path(self._request.logs, LOGS)),
            )
            for step in steps:
                try:
                    await step()
                except ProctorError as error:
                    problems.append(str(error))
            # An environment that reached a limit, or broke, has ended the pod, too.
            if problems and cause is None:
                cause, detail = Cause.ENVIRONMENT_FAILED, f"the pod was done and could not be stopped: {problems[0]}"
        timeline = await asyncio.to_thread(self._timeline)
        if cause is None and timeline is not None:
            # Without the time in which we waited to be sure that it was done.
            seconds = min(seconds, timeline.started_at + timeline.seconds - (self._ended_at - seconds))
        metrics = self._metrics(timeline)
        lead = adapter.lead_of(self._launched) if self._launched else ""
        texts = [agent.final_text for agent in timeline.agents if agent.name == lead] if timeline else []
        return AgentOutcome(
            cause=cause,
            detail=detail,
            seconds=round(max(0.0, seconds), 3),
            metrics=metrics,
            final_text=texts[0] if texts else "",
        )

    async def _poll_until_decided(self, lead: str, *, launched: float, sent: float | None) -> PodAssessment:
        """Poll the pod until it is ready, done or failed."""

        def state() -> PodState:
            return PodState(
                agents=tuple(self._agents.values()), lead=lead, now=self._clock(), launched_at=launched, sent_at=sent
            )

        for poll in itertools.count(1):
            self._agents = await self._environment.poll_events(self._agents, self._clock)
            # A status query takes a process for each agent, and h2's files have nearly everything. But a dead daemon
            # writes nothing, and a decision needs what is in no file: the queue, and the text of an error.
            if poll % _POLLS_PER_STATUS_QUERY == 0 or assess(state(), self._timeouts).status is not PodStatus.WAITING:
                self._agents = await self._environment.query_status(
                    self._agents, self._clock, seconds=self._timeouts.status
                )
            pod = state()
            assessment, now = assess(pod, self._timeouts), pod.now
            late = now >= self._deadline
            if assessment.status is PodStatus.READY:
                # What is typed at a dialog answers it.
                return await self._find_dialog(list(self._agents)) or assessment
            if assessment.status is not PodStatus.WAITING:
                return assessment
            unsure = (
                [name for name, agent in self._agents.items() if agent.activity is not AgentActivity.IDLE]
                if late
                else agents_to_look_at(pod, self._timeouts)
            )
            if (dialog := await self._find_dialog(unsure)) is not None:
                return dialog
            if late:
                self._keep_screens(await self._read_screens(unsure))
                waited = f"the pod was not done after {self._request.wall_seconds:g} s and was stopped"
                return PodAssessment(status=PodStatus.FAILED, cause=Cause.AGENT_TIMEOUT, detail=waited)
            if waiting := agents_with_unsubmitted_message(pod, self._timeouts):
                self._agents = await self._environment.press_enter(self._agents, waiting, self._clock)
            self._on_progress(_progress_line(pod))
            await asyncio.sleep(min(self._timeouts.poll, max(0.05, self._deadline - now)))
        raise AssertionError("the loop ends with a decision")

    async def _find_dialog(self, names: Sequence[str]) -> PodAssessment | None:
        """The decision on a pod of which one of these agents waits at a dialog; None when none does."""
        screens = await self._read_screens(names)
        suspects = [name for name, screen in screens.items() if find_dialog(screen) is not None]
        if suspects:
            # Hooks answer some dialogs: only one that stays is nobody's.
            await asyncio.sleep(_DIALOG_STAYS_SECONDS)
            screens = await self._read_screens(suspects)
        for name in suspects:
            if find_dialog(screens[name]) is not None:
                return dialog_failure(name, screens[name])
        return None

    async def _read_screens(self, names: Sequence[str]) -> dict[str, str]:
        screens = await asyncio.gather(*(asyncio.to_thread(screen_of, self._sandbox, name) for name in names))
        at = self._clock()
        for name in names:
            self._agents[name] = msgspec.structs.replace(self._agents[name], screen_read_at=at)
        path = self._request.model_path
        redacted = [screen.replace(path, "/[redacted]") if path else screen for screen in screens]
        return dict(zip(names, redacted, strict=True))

    def _keep_screens(self, screens: Mapping[str, str]) -> None:
        for name, screen in screens.items():
            Path(self._request.logs, f"screen-{name}.txt").write_text(screen + "\n", encoding="utf-8")

    async def _with_screen(self, assessment: PodAssessment) -> CauseAndDetail:
        """A decision with what is on the screen of the agent that it is about, which is kept, too."""
        if assessment.agent is None:
            return assessment.cause, assessment.detail
        screen = assessment.screen or (await self._read_screens([assessment.agent]))[assessment.agent]
        if not screen:
            return assessment.cause, assessment.detail
        self._keep_screens({assessment.agent: screen})
        dialog = find_dialog(screen)
        if dialog is not None and assessment.cause in _AGENT_FAILURES:
            assessment = dialog_failure(assessment.agent, screen)
        shown = truncate_line(dialog or " / ".join(lines_of(screen)[-_SHOWN_LINES:]), 400)
        return assessment.cause, f"{assessment.detail}; on its screen: {shown}"

    async def _listening_agents(self) -> list[str]:
        """Who is running of a pod that could not be launched as a whole."""
        folder = self._sandbox / "sockets"
        found = await asyncio.to_thread(lambda: [path.name for path in folder.glob("agent.*.sock")])
        return [adapter.agent_of_socket(name) for name in found]

    def _timeline(self) -> Timeline | None:
        if not self._launched:
            return None
        logs = Path(self._request.logs)
        agents = {agent.name: agent.role for agent in self._agents_by_index()}
        events: dict[str, list[PodEvent]] = {
            name: list(adapter.read_events(_lines(logs / LOGS / "sessions" / name / "events.jsonl"))) for name in agents
        }
        sent: list[SentMessage] = list(adapter.read_sent_messages(_lines(logs / LOGS / "logs" / "sent.log")))
        timeline = build_timeline(agents, events, sent, lead=adapter.lead_of(self._launched), ended_at=self._ended_at)
        if timeline is not None:
            (logs / TIMELINE_FILE).write_bytes(to_json(timeline))
        return timeline

    def _metrics(self, timeline: Timeline | None) -> AgentMetrics:
        folder = Path(self._request.logs, LOGS, "messages")
        # One of them is the task.
        messages = max(0, sum(1 for _ in folder.glob("*/*.md")) - 1) if folder.is_dir() else 0
        return metrics_of(timeline, {agent.name: agent.role for agent in self._agents_by_index()}, messages=messages)

    def _agents_by_index(self) -> list[LaunchedAgent]:
        return sorted(self._launched, key=lambda agent: agent.index)


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines() if file.is_file() else []


def _progress_line(pod: PodState) -> str:
    """The progress of a pod, in a few words."""
    if pod.sent_at is None:
        ready = sum(agent.activity is AgentActivity.IDLE for agent in pod.agents)
        return f"{ready} of {len(pod.agents)} agents are ready"
    busy = [agent.name for agent in pod.agents if agent.activity is not AgentActivity.IDLE]
    return f"running: {', '.join(busy)}" if busy else "all agents are idle"
