"""Claude Code, run once per task, with everything fixed that could differ between two runs."""

import asyncio
import json
import math
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from proctor.agents.claude_outcome import classify_exit
from proctor.agents.claude_stream import ClaudeStream, ClaudeStreamSummary
from proctor.agents.outcomes import not_started_outcome, write_outcome
from proctor.agents.supervisor import ExitReason, ProcessExit, Supervisor
from proctor.core.agent import KEY_PLACEHOLDER, Agent, AgentOutcome, AgentRequest, AgentSetup, ProgressCallback
from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, Mount, Network
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.formatting import sanitize_argument
from proctor.core.programs import find_claude, first_line, resolve_program
from proctor.core.record import to_json
from proctor.core.result import AgentMetrics, Member
from proctor.core.task import McpServer

# Not under /opt or /usr, which a local environment shows read-only as they are on the host.
PROGRAM: Final = "/proctor/claude"
CONFIG: Final = "/proctor/config"
STREAM_FILE: Final = "stream.jsonl"
SUMMARY_FILE: Final = "stream-summary.json"
LONGEST_INSTRUCTION: Final = 10_000_000
_LONGEST_ARGUMENT: Final = 131_000
_CREDENTIALS: Final = ".credentials.json"
# The id of the machine in every request: the same everywhere, so that a recording fits.
_SEED: Final = '{"userID":"' + 64 * "0" + '"}'
_MACHINES: Final = {62: "x86_64", 183: "aarch64"}
_ELF: Final = b"\x7fELF"

# A user may override these.
DEFAULTS: Final = {
    # Takes `run_in_background` from the Bash tool and makes sub-agents wait for each other: one turn, one result.
    # Otherwise the program may wait ten minutes for a forgotten job, and continues when the job ends.
    "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
    # The gateway retries provider errors itself; ten more retries of three minutes would add nothing.
    "CLAUDE_CODE_MAX_RETRIES": "2",
    # Otherwise a response that takes 300 s to begin is dropped and requested again.
    "API_FORCE_IDLE_TIMEOUT": "0",
}
PINNED: Final = {
    # Also decides which tools the model is offered.
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    # Lets it skip permission prompts as root.
    "IS_SANDBOX": "1",
}
# Sub-agents have a model of their own, and the model may ask for another by its short name.
_MODELS: Final = (
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_WORKFLOW_SUBAGENT_MODEL",
)
_RESERVED_VARIABLES: Final = frozenset(
    {
        *PINNED,
        *_MODELS,
        *("ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL", "CLAUDE_CODE_SUBAGENT_MODEL_FORCE"),
        *("CLAUDE_CONFIG_DIR", "CLAUDE_CODE_TMPDIR"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    }
)

# Arguments: the names of our variables, the program, its processor, the seed, the gateway's host, a folder of skills;
# then the program's.
_LAUNCH: Final = r"""
keep=$1 program=$2 machine=$3 seed=$4 host=$5 skills=$6
shift 6
fault() { printf '{"fault":"%s"}\n' "$1"; exit 1; }
for name in $(env | sed -n -e 's/^\(ANTHROPIC[A-Z0-9_]*\)=.*/\1/p' -e 's/^\(CLAUDE[A-Z0-9_]*\)=.*/\1/p'); do
  case " $keep " in *" $name "*) ;; *) unset "$name" ;; esac
done
state=${TMPDIR:-/tmp}/proctor
export HOME="${HOME:-$state}" CLAUDE_CODE_TMPDIR="$state/tmp" CLAUDE_CONFIG_DIR="${CLAUDE_CONFIG_DIR:-$state/config}"
mkdir -p "$CLAUDE_CODE_TMPDIR" "$CLAUDE_CONFIG_DIR" && [ -w "$CLAUDE_CONFIG_DIR" ] || fault config
[ -s "$CLAUDE_CONFIG_DIR/.claude.json" ] || printf %s "$seed" >"$CLAUDE_CONFIG_DIR/.claude.json" || fault config
if [ -n "$skills" ] && [ -d "$skills" ]; then
  mkdir -p "$CLAUDE_CONFIG_DIR/skills" && cp -R "$skills/." "$CLAUDE_CONFIG_DIR/skills/" || fault config
fi
SHELL=$(command -v bash) || fault no_bash
[ -z "$machine" ] || [ "$machine" = "$(uname -m)" ] || fault machine
"$program" --version >/dev/null </dev/null
case $? in 0) ;; 127) fault no_loader ;; *) fault cannot_run ;; esac
export SHELL NO_PROXY="${NO_PROXY:+$NO_PROXY,}$host" no_proxy="${no_proxy:+$no_proxy,}$host"
printf '{"pid":%s}\n' "$$"
exec "$program" "$@"
"""


class ClaudeCode(Agent):
    """Works on a task in one run of ``claude --print``.

    Args:
        setup: `program` names the program to use; `in_place` uses it and the configuration at their host paths.
        grace_seconds: how long the program has to write its result once it has been interrupted.
        linger_seconds: how long it may stay after its result, for instance for a job in the background.
    """

    name = "claude_code"
    dialects = ("messages",)
    efforts = ("low", "medium", "high", "xhigh", "max")
    uses_mcp_servers = True
    uses_skills = True
    resumes = True

    def __init__(
        self, setup: AgentSetup | None = None, *, grace_seconds: float = 5.0, linger_seconds: float = 10.0
    ) -> None:
        super().__init__(setup)
        check_env(self._setup.agent_options.env)
        _check_prompts(self._setup.agent_options)
        self._grace = grace_seconds
        self._linger = linger_seconds

    def versions(self) -> dict[str, str]:
        """The version of the program on this machine."""
        program = claude_program(self._setup)
        try:
            return {"claude": first_line([program, "--version"])}
        except OSError as error:
            raise InfrastructureError(f"Claude Code does not run: {error}", where=program) from error

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        """Mount the program, read-only, and the sandbox's configuration, writable.

        Raises:
            InfrastructureError: the program or the home is not on this machine, or cannot be mounted in an environment.
            UsageError: the environment cannot reach a model.
        """
        if spec.network is Network.NONE:
            raise UsageError(
                "Claude Code cannot reach a model from an environment without network", fix="use --network model"
            )
        program = claude_program(self._setup)
        mounts = [Mount(source=str(program), target=self._program_path(program))]
        if not self._setup.in_place and not machine_of(program):
            raise InfrastructureError(
                "this is not a Linux program for x86-64 or ARM, so it cannot be mounted in an environment",
                where=program,
                fix="install the native Claude Code (pip install claude-agent-sdk), or name it with CLAUDE_BIN",
            )
        if request.claude_config_dir is not None:
            mounts += self._home_mounts(request.claude_config_dir, request)
        return msgspec.structs.replace(spec, mounts=(*spec.mounts, *mounts))

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Run the program on the task's instruction."""
        instruction = _instruction(request.instruction)
        if isinstance(instruction, str):
            return write_outcome(request, not_started_outcome(Cause.INVALID_TASK, instruction))
        if environment.model_url is None:
            raise InfrastructureError("the environment cannot reach the model gateway")
        handler = _ClaudeOutputHandler(on_progress)
        supervisor = Supervisor(
            environment,
            Path(request.logs),
            handler,
            stdout=STREAM_FILE,
            grace_seconds=self._grace,
            linger_seconds=self._linger,
        )
        program = claude_program(self._setup)
        variables = self._variables(request, environment.model_url)
        arguments = [
            " ".join(variables),
            self._program_path(program),
            machine_of(program),
            _SEED,
            urlsplit(environment.model_url).hostname or "",
            request.skills_dir or "",
            *command_line(request, self._setup.agent_options),
        ]
        try:
            process_exit = await supervisor.run(
                _LAUNCH, arguments, stdin=instruction, variables=variables, wall_seconds=request.wall_seconds
            )
        except asyncio.CancelledError:
            if supervisor.process_exit is not None:
                self._write_outcome(request, handler, supervisor.process_exit)
            raise
        return self._write_outcome(request, handler, process_exit)

    def _write_outcome(
        self, request: AgentRequest, handler: "_ClaudeOutputHandler", process_exit: ProcessExit
    ) -> AgentOutcome:
        summary, process_exit = handler.finish(process_exit)
        (Path(request.logs) / SUMMARY_FILE).write_bytes(to_json(summary))
        return write_outcome(request, _outcome(summary, process_exit))

    def _program_path(self, program: Path) -> str:
        return str(program) if self._setup.in_place else PROGRAM

    def _home_mounts(self, home: str, request: AgentRequest) -> list[Mount]:
        if not Path(home).is_dir():
            raise InfrastructureError("the agent's configuration directory does not exist", where=home)
        mounts = [Mount(source=home, target=home if self._setup.in_place else CONFIG, writable=True)]
        if not request.own_login and not self._setup.in_place and (Path(home) / _CREDENTIALS).exists():
            empty = Path(request.logs) / "no-login"
            empty.parent.mkdir(parents=True, exist_ok=True)
            empty.write_bytes(b"")
            mounts.append(Mount(source=str(empty), target=f"{CONFIG}/{_CREDENTIALS}"))
        return mounts

    def _variables(self, request: AgentRequest, model_url: str) -> dict[str, str]:
        variables = {**DEFAULTS, **self._setup.agent_options.env, **PINNED}
        variables["ANTHROPIC_BASE_URL"] = model_url + (request.model_path or "")
        if not request.own_login:
            variables["ANTHROPIC_API_KEY"] = KEY_PLACEHOLDER
        if request.model is not None:
            # The last one keeps the model from overruling us call by call.
            variables |= {**dict.fromkeys(_MODELS, request.model), "CLAUDE_CODE_SUBAGENT_MODEL_FORCE": "1"}
        if request.claude_config_dir is not None:
            variables["CLAUDE_CONFIG_DIR"] = request.claude_config_dir if self._setup.in_place else CONFIG
        return variables


def claude_program(setup: AgentSetup) -> Path:
    """Claude Code: the program that the setup names, or the one of this machine.

    Raises:
        InfrastructureError: there is none, or it is not executable.
    """
    fix = "pip install claude-agent-sdk, or set CLAUDE_BIN"
    return resolve_program(setup.program, find_claude, missing="Claude Code is not installed here", fix=fix)


class _ClaudeOutputHandler:
    """Reads the stream as it arrives."""

    def __init__(self, on_progress: ProgressCallback) -> None:
        self._on_progress = on_progress
        self._stream = ClaudeStream()
        self._summary_at_interrupt: ClaudeStreamSummary | None = None

    @property
    def idle(self) -> bool:
        return self._stream.idle

    def handle_line(self, line: bytes) -> None:
        words = self._stream.feed(line, time.monotonic())
        if words is not None:
            self._on_progress(words)

    def on_interrupt(self) -> None:
        # It was done already: what it prints about the interruption is ignored.
        if self._stream.idle:
            self._summary_at_interrupt = self._stream.summary(time.monotonic())

    def finish(self, process_exit: ProcessExit) -> tuple[ClaudeStreamSummary, ProcessExit]:
        if self._summary_at_interrupt is not None:
            return self._summary_at_interrupt, msgspec.structs.replace(process_exit, reason=ExitReason.LINGERED)
        return self._stream.summary(time.monotonic()), process_exit


def command_line(request: AgentRequest, options: AgentOptions) -> list[str]:
    """The arguments of the program. The instruction is not among them: flags that take lists would swallow it."""
    words = ["--print", "--output-format", "stream-json", "--verbose"]
    session = request.session_id or str(uuid.uuid4())
    words += ["--resume" if request.continues else "--session-id", session, "--max-turns", str(request.max_turns)]
    # The task's repository is trusted by --print: without these two its hooks run and its servers are started.
    words += ["--setting-sources", "user", "--strict-mcp-config"]
    if request.mcp_servers:
        words += ["--mcp-config", _mcp_config(request.mcp_servers)]
    if request.model is not None:
        words += ["--model", request.model]
    names = [tool.partition("(")[0] for tool in options.allowed_tools]
    if names:
        words.append(f"--tools={','.join(dict.fromkeys(names))}")
    if names == list(options.allowed_tools):
        words.append("--permission-mode=bypassPermissions")
    else:
        # Rules such as Bash(git *) mean nothing to a mode that asks for no permission.
        words += ["--permission-mode=dontAsk", f"--allowed-tools={','.join(options.allowed_tools)}"]
    # With "=": a prompt may begin with a dash.
    if options.system_prompt is not None:
        words.append(f"--system-prompt={sanitize_argument(options.system_prompt)}")
    if options.effort is not None:
        words.append(f"--effort={options.effort}")
    if options.append_system_prompt is not None:
        words.append(f"--append-system-prompt={sanitize_argument(options.append_system_prompt)}")
    return words


def _mcp_config(servers: Sequence[McpServer]) -> str:
    """The servers of tools that a task brings, as the program is told of them."""
    known = {}
    for server in servers:
        if server.transport == "stdio":
            known[server.name] = {"type": "stdio", "command": server.command or "", "args": list(server.args)}
        else:
            kind = "sse" if server.transport == "sse" else "http"
            known[server.name] = {"type": kind, "url": server.url or ""}
    return json.dumps({"mcpServers": known})


def check_env(env: Mapping[str, str]) -> None:
    """See that Claude Code can be given these variables.

    Raises:
        UsageError: one is not a run's to set. A login among them would be written down with the run.
    """
    taken = sorted(_RESERVED_VARIABLES & env.keys())
    if taken:
        raise UsageError(f"Proctor sets {', '.join(taken)} for Claude Code by itself", fix="leave these variables out")


def _check_prompts(options: AgentOptions) -> None:
    for prompt in (options.system_prompt, options.append_system_prompt):
        if prompt is not None and len(prompt.encode("utf-8", "replace")) > _LONGEST_ARGUMENT:
            raise UsageError(f"a system prompt cannot be longer than {_LONGEST_ARGUMENT} bytes")


def _instruction(text: str) -> bytes | str:
    """What goes to the program's input, or why nothing can."""
    if not text.strip():
        return "the instruction is empty, and Claude Code does nothing without one"
    # A text that begins like a slash command would be taken for one, and never reach the model.
    data = (f"\n{text}" if text.startswith("/") else text).encode("utf-8", "replace")
    if len(data) > LONGEST_INSTRUCTION:
        return f"the instruction is too long for Claude Code ({len(data)} bytes, {LONGEST_INSTRUCTION} are taken)"
    return data


def machine_of(program: Path) -> str:
    """The processor that a Linux program is built for, as `uname -m` says it; empty for anything else."""
    with program.open("rb") as file:
        head = file.read(20)
    if not head.startswith(_ELF):
        return ""
    return _MACHINES.get(int.from_bytes(head[18:20], "little"), "")


def _outcome(summary: ClaudeStreamSummary, process_exit: ProcessExit) -> AgentOutcome:
    cause, detail = classify_exit(summary, process_exit)
    share = summary.active_seconds / process_exit.seconds if process_exit.seconds > 0 else math.nan
    return AgentOutcome(
        cause=cause,
        detail=detail,
        seconds=process_exit.seconds,
        metrics=AgentMetrics(
            turns=summary.turns,
            steps=summary.steps,
            compactions=summary.compactions,
            active_share=min(1.0, share) if summary.started and math.isfinite(share) else None,
            members=(
                Member(
                    name="claude_code",
                    active_seconds=round(summary.active_seconds, 3),
                    idle_seconds=round(max(0.0, process_exit.seconds - summary.active_seconds), 3),
                    turns=summary.turns,
                    compactions=summary.compactions,
                ),
            ),
        ),
        final_text=summary.final_text,
        claimed=summary.result.usage if summary.result else (),
        claimed_cost_usd=summary.result.cost_usd if summary.result else None,
    )
