"""Any program as an agent: it gets the instruction in a file and on its input, and the gateway in its environment."""

import asyncio
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from proctor.agents.outcomes import write_outcome
from proctor.agents.supervisor import ExitReason, ProcessExit, Supervisor
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, AgentSetup, ProgressCallback
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, Mount
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.formatting import sanitize_argument, truncate_line
from proctor.core.result import AgentMetrics, Member

PROGRAM_PATH: Final = "/proctor/agent"
OUTPUT: Final = "stdout.log"
_PLACEHOLDER: Final = "placeholder-the-gateway-has-the-key"
_TAIL: Final = 20
# As in sysexits.h: how a program says that it is not to blame.
_EXIT_CODE_CAUSES: Final = {
    75: (Cause.PROVIDER_ERROR, "it says that the trouble may pass (exit code 75)"),
    77: (Cause.BAD_LOGIN, "it says that its login was refused (exit code 77)"),
}
_FAULTS: Final = {
    "missing": "the command is not in the room; show it there with `program`, or name one that is",
    "no_shell": "there is no sh in the room, so nothing can be started in it",
    "state": "the room has no place for the instruction",
}

# Arguments: the gateway's host, then the command. Our own variables have been set.
_LAUNCH: Final = r"""
host=$1
shift
fault() { printf '{"fault":"%s"}\n' "$1"; exit 1; }
state=${TMPDIR:-/tmp}/proctor
export PROCTOR_INSTRUCTION_FILE="$state/instruction.md"
mkdir -p "$state" && cat >"$PROCTOR_INSTRUCTION_FILE" || fault state
command -v "$1" >/dev/null || fault missing
[ -z "$host" ] || export NO_PROXY="${NO_PROXY:+$NO_PROXY,}$host" no_proxy="${no_proxy:+$no_proxy,}$host"
printf '{"pid":%s}\n' "$$"
exec "$@" <"$PROCTOR_INSTRUCTION_FILE"
"""


class CommandAgent(Agent):
    """Runs a command of the user's in the workspace; what it changes there is its answer.

    Args:
        setup: `command` is what to run in the room. `program`, a file or a folder of this machine, is shown there
            at `PLACE`; without a `command` it is what is run.
        grace_seconds: how long it has to exit once it has been interrupted.
    """

    name = "command"
    needs_sandbox = False
    needs_model = False

    def __init__(self, setup: AgentSetup | None = None, *, grace_seconds: float = 5.0) -> None:
        super().__init__(setup)
        if not self._setup.command and self._setup.program is None:
            raise UsageError("the agent `command` needs a command to run")
        self._grace = grace_seconds

    def versions(self) -> dict[str, str]:
        """Its words: nothing else is known of it."""
        return {"command": " ".join(self._argv())}

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:  # noqa: ARG002 - see Agent
        """Show the user's program in the room, read-only."""
        if self._setup.program is None:
            return spec
        program = Path(self._setup.program).absolute()
        if not program.exists() or not (self._setup.command or os.access(program, os.X_OK)):
            raise InfrastructureError("this is no program that could be run", where=program)
        return msgspec.structs.replace(
            spec, mounts=(*spec.mounts, Mount(source=str(program), target=self._program_path()))
        )

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Run it."""
        follower = _CommandOutputHandler(on_progress)
        supervisor = Supervisor(environment, Path(request.logs), follower, stdout=OUTPUT, grace_seconds=self._grace)
        host = urlsplit(environment.model_url or "").hostname or ""
        try:
            ended = await supervisor.run(
                _LAUNCH,
                [host, *self._argv()],
                stdin=request.instruction.encode("utf-8", "replace"),
                variables=self._variables(request, environment),
                wall_seconds=request.wall_seconds,
            )
        except asyncio.CancelledError:
            if supervisor.process_exit is not None:
                write_outcome(request, follower.outcome(supervisor.process_exit))
            raise
        return write_outcome(request, follower.outcome(ended))

    def _argv(self) -> list[str]:
        return list(self._setup.command) or [self._program_path()]

    def _program_path(self) -> str:
        in_place = self._setup.in_place and self._setup.program is not None
        return str(Path(self._setup.program or "").absolute()) if in_place else PROGRAM_PATH

    def _variables(self, request: AgentRequest, environment: Environment) -> dict[str, str]:
        """What it is told; nothing that is not known."""
        briefing = self._setup.agent_options
        told = {
            "PROCTOR_AGENT": None if self._setup.program is None else self._program_path(),
            "PROCTOR_ALLOWED_TOOLS": ",".join(briefing.allowed_tools) or None,
            "PROCTOR_APPEND_SYSTEM_PROMPT": briefing.append_system_prompt,
            "PROCTOR_MAX_TURNS": str(request.max_turns),
            "PROCTOR_MODEL": request.model,
            "PROCTOR_SYSTEM_PROMPT": briefing.system_prompt,
            "PROCTOR_TASK_ID": request.task_id,
            "PROCTOR_WALL_SECONDS": None if request.wall_seconds is None else f"{request.wall_seconds:g}",
        }
        if environment.model_url is not None:
            url = environment.model_url + (request.model_path or "")
            told |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": None if request.own_login else _PLACEHOLDER}
        return {**briefing.env, **{name: sanitize_argument(value) for name, value in told.items() if value is not None}}


class _CommandOutputHandler:
    """Remembers the last lines."""

    idle = False

    def __init__(self, on_progress: ProgressCallback) -> None:
        self._on_progress = on_progress
        self._lines: list[str] = []

    def handle_line(self, line: bytes) -> None:
        text = line[:2000].decode("utf-8", "replace")
        if text.strip():
            self._lines = [*self._lines[1 - _TAIL :], text]
            self._on_progress(truncate_line(text))

    def on_interrupt(self) -> None:
        """Nothing changes."""

    def outcome(self, process_exit: ProcessExit) -> AgentOutcome:
        cause, detail = classify_exit(process_exit)
        text = "\n".join(self._lines)
        # Nothing is known of when it works and when it waits.
        metrics = AgentMetrics(members=(Member(name="command", active_seconds=round(process_exit.seconds, 3)),))
        return AgentOutcome(cause=cause, detail=detail, seconds=process_exit.seconds, metrics=metrics, final_text=text)


def classify_exit(process_exit: ProcessExit) -> tuple[Cause | None, str]:
    """Why it ended (None: it finished), and one sentence on it."""
    said = truncate_line(process_exit.stderr[-2000:], 300)
    because = f": {said}" if said else ""
    match process_exit.reason:
        case _ if process_exit.fault:
            return Cause.MISSING_PROGRAM, _FAULTS.get(process_exit.fault, process_exit.fault) + because
        case ExitReason.CANCELLED:
            return Cause.INTERRUPTED, "it was stopped from outside"
        case ExitReason.ENVIRONMENT_LIMIT:
            cause = Cause.AGENT_TIMEOUT if "wall clock" in process_exit.limit else Cause.AGENT_CRASHED
            return cause, f"the room ended it: {process_exit.limit}"
        case ExitReason.WALL_CLOCK:
            return Cause.AGENT_TIMEOUT, f"it was not done after {process_exit.seconds:.0f} s and was stopped"
    if process_exit.exit_code == 0:
        return None, "it finished"
    if process_exit.exit_code in _EXIT_CODE_CAUSES:
        cause, what = _EXIT_CODE_CAUSES[process_exit.exit_code]
        return cause, what + because
    return Cause.AGENT_CRASHED, process_exit.summary + because
