"""Any program as an agent: it gets the instruction in a file and on its standard input, the gateway in variables."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from proctor.agents.outcomes import CauseAndDetail, write_outcome
from proctor.agents.supervisor import ProcessExit, Supervisor
from proctor.core.agent import (
    EFFORTS,
    KEY_PLACEHOLDER,
    PROGRAM_VERSION_KEY,
    Agent,
    AgentOutcome,
    AgentRequest,
    AgentSetup,
    ProgressCallback,
)
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, Mount
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.formatting import sanitize_argument, truncate_line
from proctor.core.result import AgentMetrics, Member

PROGRAM_PATH: Final = "/proctor/agent"
OUTPUT: Final = "stdout.log"
# What is no part of a program, and changes by itself.
_UNUSED_DIRS: Final = frozenset({".git", "__pycache__"})
_SYSTEM_DIRS: Final = ("/bin/", "/usr/bin/", "/lib")
_TAIL: Final = 20
# As in sysexits.h: failures that are not the agent's.
_EXIT_CODE_CAUSES: Final = {
    75: (Cause.PROVIDER_ERROR, "it reports a temporary failure (exit code 75)"),
    77: (Cause.BAD_LOGIN, "it reports a refused login (exit code 77)"),
}
_FAULTS: Final = {
    "missing": "the command is not in the environment; add it with `program`, or name one that is there",
    "no_shell": "there is no sh in the environment, so nothing can be started in it",
    "state": "the instruction cannot be written in the environment",
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
    """Runs a command of the user's in the workspace; what it changes there is its submission.

    Args:
        setup: `command` is what to run in the environment. `program`, a file or a folder of this machine, is shown
            there at `PROGRAM_PATH`; without a `command` it is what is run.
        grace_seconds: how long it has to exit once it has been interrupted.
    """

    name = "command"
    needs_sandbox = False
    needs_model = False
    efforts = EFFORTS
    keeps_program = True

    def __init__(self, setup: AgentSetup | None = None, *, grace_seconds: float = 5.0) -> None:
        super().__init__(setup)
        if not self._setup.command and self._setup.program is None:
            raise UsageError("the agent `command` needs a command to run")
        self._grace = grace_seconds

    def versions(self) -> dict[str, str]:
        """The command itself, which has no known version, and the digests of the files that are run.

        Raises:
            InfrastructureError: there is no such program on this machine.
        """
        found = {"command": " ".join(self._argv())}
        if self._setup.program is not None:
            found[PROGRAM_VERSION_KEY] = _digest(self._program())
        if self._setup.in_place:
            # Words that name files of this machine, where the command runs on it; a system's own have their versions.
            files = [Path(word) for word in self._setup.command if word.startswith("/") and Path(word).is_file()]
            own = [file for file in files if not str(file).startswith(_SYSTEM_DIRS)]
            found |= {f"{PROGRAM_VERSION_KEY} {file}": _digest(file) for file in own}
        return found

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        """Show the user's program in the environment, read-only."""
        if self._setup.program is None:
            return spec
        return msgspec.structs.replace(
            spec, mounts=(*spec.mounts, Mount(source=str(self._program()), target=self._program_path()))
        )

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Run it."""
        handler = _CommandOutputHandler(on_progress)
        supervisor = Supervisor(environment, Path(request.logs), handler, stdout=OUTPUT, grace_seconds=self._grace)
        host = urlsplit(environment.model_url or "").hostname or ""
        try:
            process_exit = await supervisor.run(
                _LAUNCH,
                [host, *self._argv()],
                stdin=request.instruction.encode("utf-8", "replace"),
                variables=self._variables(request, environment),
                wall_seconds=request.wall_seconds,
            )
        except asyncio.CancelledError:
            if supervisor.process_exit is not None:
                write_outcome(request, handler.outcome(supervisor.process_exit))
            raise
        return write_outcome(request, handler.outcome(process_exit))

    def _program(self) -> Path:
        """What is shown in the environment.

        Raises:
            InfrastructureError: it is not there, or is to be run and cannot be.
        """
        program = Path(self._setup.program or "").absolute()
        if not program.exists():
            raise InfrastructureError("there is no such program", where=program, fix="say where it is with --agent-bin")
        if not self._setup.command and not (program.is_file() and os.access(program, os.X_OK)):
            raise InfrastructureError("this is not an executable program", where=program)
        return program

    def _argv(self) -> list[str]:
        return list(self._setup.command) or [self._program_path()]

    def _program_path(self) -> str:
        in_place = self._setup.in_place and self._setup.program is not None
        return str(Path(self._setup.program or "").absolute()) if in_place else PROGRAM_PATH

    def _variables(self, request: AgentRequest, environment: Environment) -> dict[str, str]:
        """The variables that describe the task; those without a value are left out."""
        options = self._setup.agent_options
        described = {
            "PROCTOR_AGENT": None if self._setup.program is None else self._program_path(),
            "PROCTOR_ALLOWED_TOOLS": ",".join(options.allowed_tools) or None,
            "PROCTOR_EFFORT": options.effort,
            "PROCTOR_APPEND_SYSTEM_PROMPT": options.append_system_prompt,
            "PROCTOR_MAX_TURNS": str(request.max_turns),
            "PROCTOR_MODEL": request.model,
            "PROCTOR_SYSTEM_PROMPT": options.system_prompt,
            "PROCTOR_TASK_ID": request.task_id,
            "PROCTOR_WALL_SECONDS": None if request.wall_seconds is None else f"{request.wall_seconds:g}",
        }
        if environment.model_url is not None:
            url = environment.model_url + (request.model_path or "")
            described |= {
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": None if request.own_login else KEY_PLACEHOLDER,
                "OPENAI_BASE_URL": f"{url}/v1",
                "OPENAI_API_BASE": f"{url}/v1",
                "OPENAI_API_KEY": KEY_PLACEHOLDER,
                "GOOGLE_GEMINI_BASE_URL": url,
                "GEMINI_API_KEY": KEY_PLACEHOLDER,
            }
        return {
            **options.env,
            **{name: sanitize_argument(value) for name, value in described.items() if value is not None},
        }


class _CommandOutputHandler:
    """Keeps the last lines."""

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
        # Its waiting is not known from its working.
        metrics = AgentMetrics(members=(Member(name="command", active_seconds=round(process_exit.seconds, 3)),))
        return AgentOutcome(cause=cause, detail=detail, seconds=process_exit.seconds, metrics=metrics, final_text=text)


def _digest(program: Path) -> str:
    """Identifies a file, or the files of a folder, by their names and bytes, and by whether they can be run.

    Raises:
        InfrastructureError: it cannot be read.
    """
    whole = hashlib.sha256()
    try:
        for file in sorted(program.rglob("*")) if program.is_dir() else [program]:
            name = file.relative_to(program)
            if not file.is_file() or _UNUSED_DIRS & set(name.parts):
                continue
            with file.open("rb") as stream:
                content = hashlib.file_digest(stream, "sha256").hexdigest()
            path = os.fsencode(name)
            whole.update(b"%d:%s%d%s" % (len(path), path, os.access(file, os.X_OK), content.encode()))
    except OSError as error:
        raise InfrastructureError(f"the program cannot be read: {error}", where=program) from error
    return f"sha256:{whole.hexdigest()}"


def classify_exit(process_exit: ProcessExit) -> CauseAndDetail:
    """Why it ended."""
    message = truncate_line(process_exit.stderr[-2000:], 300)
    suffix = f": {message}" if message else ""
    if process_exit.fault:
        return Cause.MISSING_PROGRAM, _FAULTS.get(process_exit.fault, process_exit.fault) + suffix
    if process_exit.forced_end is not None:
        return process_exit.forced_end
    if process_exit.exit_code == 0:
        return None, "it finished"
    if process_exit.exit_code in _EXIT_CODE_CAUSES:
        cause, what = _EXIT_CODE_CAUSES[process_exit.exit_code]
        return cause, what + suffix
    return Cause.AGENT_CRASHED, process_exit.summary + suffix
