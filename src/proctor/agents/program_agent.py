"""The base of agents that are one program, run once per task: mounted read-only, configured by files and variables.

A subclass says which program it is and where it is found, what it is started with, and how its output is read. It
reaches nothing but the gateway, whose address it gets in its configuration.
"""

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Final
from urllib.parse import urlsplit

import msgspec

from proctor.agents.outcomes import CauseAndDetail, not_started_outcome, write_outcome
from proctor.agents.supervisor import ProcessExit, Supervisor
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, AgentSetup, ProgressCallback
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, Mount, Network
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.formatting import truncate_line
from proctor.core.programs import find_program, first_line, native_program, resolve_program
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, Member, ModelUsage

STREAM_FILE: Final = "stream.jsonl"
# Of one variable, in which a file's content comes into the environment, or of one argument.
_LONGEST_FILE: Final = 131_000
# The models whose provider has a dialect of its own. All others are asked as most servers understand it.
_OWN_DIALECTS: Final = (
    (re.compile(r"claude-"), "messages"),
    (re.compile(r"gpt-[5-9]|codex-|o\d"), "responses"),
    (re.compile(r"gemini-"), "gemini"),
)
_FAULTS: Final = {
    "no_bash": "the environment has no bash, which the agent's program needs; install bash in the image",
    "no_shell": "there is no sh in the environment, so nothing can be started in it",
    "state": "the folder for the program's configuration cannot be written in the environment",
    "cannot_run": "the agent's program does not run in the environment",
}

# Arguments: the gateway's host, the patterns of variables that an image may not set, the names of our own, the
# variables that name a folder below the program's own, as NAME=FOLDER, the number of files; the program; its arguments.
# Shared libraries that are the program's own are in AGENT_LIBRARIES; it finds there what the variable for them was.
# AGENT_PROBE has variables with which the program is tried first.
_LAUNCH: Final = r"""
set -f
host=$1 foreign=$2 own=$3 folders=$4 files=$5 program=$6
shift 6
fault() { printf '{"fault":"%s"}\n' "$1"; exit 1; }
for name in $(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p'); do
  for pattern in $foreign; do
    case "$name" in
      $pattern) case " $own " in *" $name "*) ;; *) unset "$name" ;; esac ;;
    esac
  done
done
state=$(mktemp -d "${TMPDIR:-/tmp}/proctor-agent.XXXXXX") || fault state
[ -w "${HOME:-/nonexistent}" ] || export HOME="$state"
for pair in $folders; do
  export "${pair%%=*}=$state/${pair#*=}"
  mkdir -p "$state/${pair#*=}" || fault state
done
number=0
while [ "$number" -lt "$files" ]; do
  eval "path=\$AGENT_FILE_${number}_PATH text=\$AGENT_FILE_${number}_TEXT"
  mkdir -p "$(dirname "$state/$path")" && printf %s "$text" >"$state/$path" || fault state
  unset "AGENT_FILE_${number}_PATH" "AGENT_FILE_${number}_TEXT"
  number=$((number + 1))
done
SHELL=$(command -v bash) || fault no_bash
export SHELL
if [ "$AGENT_LIBRARIES" ]; then
  export AGENT_LIBRARIES="$LD_LIBRARY_PATH" LD_LIBRARY_PATH="$AGENT_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
env $AGENT_PROBE "$program" --version >/dev/null 2>&1 </dev/null || fault cannot_run
unset AGENT_PROBE
export NO_PROXY="${NO_PROXY:+$NO_PROXY,}$host" no_proxy="${no_proxy:+$no_proxy,}$host"
printf '{"pid":%s}\n' "$$"
exec "$program" "$@"
"""


class MountedProgram(Record):
    """An agent's program, and what must be in the environment for it.

    Attributes:
        path: the program on this machine.
        root: the folder or the file that is mounted; the program is in it.
        companions: what else it needs, by name; each is mounted beside the program.
    """

    path: Path
    root: Path
    companions: dict[str, Path] = msgspec.field(default_factory=dict)

    def path_in(self, target: str) -> str:
        """The program's path where its root is mounted at `target`."""
        return target if self.root == self.path else f"{target}/{self.path.relative_to(self.root)}"


class ProgramReport(Record):
    """What a program has reported on itself.

    Attributes:
        finished: it says that it is done.
        error: the error with which it says that it ended; empty where there was none.
        steps: how many things it has done.
        usage: what it says it has used; a cross-check, as the gateway's meter counts.
    """

    finished: bool = False
    error: str = ""
    final_text: str = ""
    steps: int = 0
    usage: tuple[ModelUsage, ...] = ()


class ProgramReader(ABC):
    """Reads the output of a program, line by line."""

    idle = False

    def __init__(self, on_progress: ProgressCallback, model: str) -> None:
        self._on_progress = on_progress
        self._model = model

    @abstractmethod
    def handle_line(self, line: bytes) -> None:
        """Take one line of output; a line that is not the program's is ignored."""

    def on_interrupt(self) -> None:  # noqa: B027 - most ignore it
        """The program is about to be interrupted."""

    @abstractmethod
    def report(self) -> ProgramReport:
        """What the program has reported so far."""


class ProgramAgent(Agent):
    """Works on a task in one run of a program.

    Attributes:
        title: the program's name in messages.
        command: its name on PATH.
        command_variable: the environment variable that names it instead.
        npm_packages: the packages of npm that may have it, for a folder of commands that is not on PATH.
        python_package: likewise the package that pipx or uv installs it from.
        remedy: how to get it.
        foreign_variables: patterns of variables that configure the program, and that an image may not set.
        reserved_variables: those that Proctor sets by itself, or that would be a login, which would be stored.
        unsupported_options: options of a run that the program has nothing for, with the reason and the fix.
        folders: variables that name folders of the program's own, made anew for each attempt.
        reader: reads the program's output.
        version_line: matches what the program says with --version, and what others say as rarely as possible.

    Args:
        grace_seconds: how long the program has to exit once it has been interrupted; 0: it is killed at once.
    """

    title: ClassVar[str]
    command: ClassVar[str]
    command_variable: ClassVar[str]
    npm_packages: ClassVar[tuple[str, ...]] = ()
    python_package: ClassVar[str | None] = None
    remedy: ClassVar[str]
    foreign_variables: ClassVar[tuple[str, ...]] = ()
    reserved_variables: ClassVar[frozenset[str]] = frozenset()
    unsupported_options: ClassVar[Mapping[str, tuple[str, str]]] = {}
    folders: ClassVar[Mapping[str, str]] = {}
    reader: ClassVar[type[ProgramReader]]
    version_line: ClassVar[re.Pattern[str]] = re.compile(r"v?\d+\.\d+\.\d+\S*")
    needs_sandbox = False
    pins_model = True
    ends_by_gateway = True
    grace_seconds: float = 5.0

    def __init__(self, setup: AgentSetup | None = None) -> None:
        super().__init__(setup)
        taken = sorted(self.reserved_variables & self._setup.agent_options.env.keys())
        if taken:
            raise UsageError(
                f"Proctor sets {', '.join(taken)} for {self.title} by itself", fix="leave these variables out"
            )
        for option, (why, fix) in self.unsupported_options.items():
            if getattr(self._setup.agent_options, option) not in (None, ()):
                raise UsageError(why, fix=fix)

    @abstractmethod
    def find_program(self) -> MountedProgram:
        """The program on this machine.

        Raises:
            InfrastructureError: there is none, it is not executable, or it is another agent's.
        """

    @abstractmethod
    def arguments(self, request: AgentRequest) -> list[str]:
        """What the program is started with; the instruction comes on its standard input."""

    def files(self, request: AgentRequest, environment: Environment, url: str) -> dict[str, str]:
        """The configuration: texts by their paths below the program's own folder; `url` is the gateway's."""
        return {}

    def variables(self, request: AgentRequest, url: str) -> dict[str, str]:
        """The variables of the program; `url` is the gateway's."""
        return {}

    def versions(self) -> dict[str, str]:
        """The version of the program on this machine."""
        program = self.find_program().path
        return {self.name: self.ask_version(program, [program, "--version"])}

    def ask_version(self, program: Path, argv: Sequence[str | Path]) -> str:
        """What the program says of its version.

        Raises:
            InfrastructureError: it does not run, or is another.
        """
        try:
            line = first_line(argv)
        except OSError as error:
            raise InfrastructureError(f"{self.title} does not run: {error}", where=program) from error
        if not self.version_line.fullmatch(line):
            raise InfrastructureError(
                f"this is not {self.title}: with --version it says {truncate_line(line, 80)!r}",
                where=program,
                fix=self.remedy,
            )
        return line

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        """Mount the program, read-only.

        Raises:
            InfrastructureError: it is not on this machine.
            UsageError: the environment cannot reach a model.
        """
        if spec.network is Network.NONE:
            raise UsageError(
                f"{self.title} cannot reach a model from an environment without network", fix="use --network model"
            )
        if self._setup.in_place:
            return spec
        program = self.find_program()
        mounts = [Mount(source=str(program.root), target=self._target)]
        mounts += [
            Mount(source=str(path), target=self.companion_path(program, name))
            for name, path in program.companions.items()
        ]
        return msgspec.structs.replace(spec, mounts=(*spec.mounts, *mounts))

    def find_command(self) -> Path:
        """The program, or its launcher: the one that the user names, or else this machine's.

        Raises:
            InfrastructureError: there is none, it is not executable, or it is another agent's.
        """
        found = partial(
            find_program,
            self.command,
            variable=self.command_variable,
            npm_packages=self.npm_packages,
            python_package=self.python_package,
        )
        missing = f"{self.title} is not installed here"
        program = resolve_program(self._setup.program, found, missing=missing, fix=self.remedy)
        _check_package(program, self.command, title=self.title, fix=self.remedy)
        return program

    def find_native(self, patterns: Sequence[str]) -> Path:
        """The native program, also where npm has put a launcher in front of it.

        Raises:
            InfrastructureError: there is none.
        """
        found = self.find_command()
        native = native_program(found, patterns)
        if native is None:
            raise InfrastructureError(
                f"there is no native {self.title} beside this launcher", where=found, fix=self.remedy
            )
        return native

    def executable(self, program: MountedProgram) -> str:
        """What is started in the environment: the program, or what runs it."""
        return str(program.path) if self._setup.in_place else program.path_in(self._target)

    def companion_path(self, program: MountedProgram, name: str) -> str:
        """Where a companion of the program is in the environment."""
        return str(program.companions[name]) if self._setup.in_place else f"{self._target}-{name}"

    @classmethod
    def dialects_for(cls, model: str, spoken: Sequence[str]) -> tuple[str, ...]:
        """The one dialect in which it asks this model."""
        usable = super().dialects_for(model, spoken)
        return (choose_dialect(model, usable),) if usable else ()

    def _dialect(self, request: AgentRequest) -> str:
        """The dialect in which the program asks the run's model, where it knows several.

        Raises:
            UsageError: the run names no model.
        """
        if request.model is None:
            raise UsageError(f"{self.title} requires --model")
        chosen = self.dialects_for(request.model, request.dialects or self.dialects)
        if not chosen:
            raise UsageError(f"{self.title} cannot ask in {', '.join(request.dialects)}, as the model's provider does")
        return chosen[0]

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Run the program on the task's instruction."""
        if not request.instruction.strip():
            detail = f"the instruction is empty, and {self.title} does nothing without one"
            return write_outcome(request, not_started_outcome(Cause.INVALID_TASK, detail))
        if environment.model_url is None:
            raise InfrastructureError("the environment cannot reach the model gateway")
        url = environment.model_url + (request.model_path or "")
        files = self.files(request, environment, url)
        variables = {**self._setup.agent_options.env, **self.variables(request, url)}
        program = self.find_program()
        arguments = [
            urlsplit(environment.model_url).hostname or "",
            " ".join(self.foreign_variables),
            " ".join(variables),
            " ".join(f"{name}={folder}" for name, folder in self.folders.items()),
            str(len(files)),
            self.executable(program),
            *self.arguments(request),
        ]
        reader = self.reader(on_progress, request.model or "")
        logs = Path(request.logs)
        supervisor = Supervisor(environment, logs, reader, stdout=STREAM_FILE, grace_seconds=self.grace_seconds)
        try:
            process_exit = await supervisor.run(
                _LAUNCH,
                arguments,
                stdin=request.instruction.encode("utf-8", "replace"),
                variables={**variables, **_file_variables(files)},
                wall_seconds=request.wall_seconds,
            )
        except asyncio.CancelledError:
            if supervisor.process_exit is not None:
                write_outcome(request, self._outcome(reader.report(), supervisor.process_exit))
            raise
        return write_outcome(request, self._outcome(reader.report(), process_exit))

    @property
    def _target(self) -> str:
        return f"/proctor/{self.name}"

    def _outcome(self, report: ProgramReport, process_exit: ProcessExit) -> AgentOutcome:
        cause, detail = classify_exit(report, process_exit)
        member = Member(name=self.name, active_seconds=round(process_exit.seconds, 3))
        return AgentOutcome(
            cause=cause,
            detail=detail,
            seconds=process_exit.seconds,
            metrics=AgentMetrics(steps=report.steps, members=(member,)),
            final_text=report.final_text,
            claimed=report.usage,
        )


def classify_exit(report: ProgramReport, process_exit: ProcessExit) -> CauseAndDetail:
    """Why a program ended (None: it finished). What the gateway knows of refusals and errors outweighs it."""
    said = truncate_line(report.error or process_exit.stderr[-2000:], 300)
    suffix = f": {said}" if said else ""
    if process_exit.fault:
        return Cause.MISSING_PROGRAM, _FAULTS.get(process_exit.fault, process_exit.fault) + suffix
    if report.finished and not report.error:
        return None, "it finished" if report.final_text.strip() else "it finished without a message"
    if process_exit.forced_end is not None:
        return process_exit.forced_end
    if report.error:
        return Cause.AGENT_CRASHED, f"it gave up{suffix}"
    if process_exit.exit_code == 0:
        return Cause.AGENT_CRASHED, f"it exited without a result{suffix}"
    return Cause.AGENT_CRASHED, process_exit.summary + suffix


def choose_dialect(model: str, dialects: Sequence[str]) -> str:
    """The one of `dialects` in which to ask this model; the first of them where none is the model's own."""
    for pattern, dialect in _OWN_DIALECTS:
        if pattern.match(model) and dialect in dialects:
            return dialect
    return dialects[0]


def package_version(program: Path) -> str | None:
    """The version of the npm package that a program is in, which takes no start of it; None: it is in no package."""
    package = _package_of(program)
    return package.version or None if package is not None else None


def _check_package(program: Path, command: str, *, title: str, fix: str) -> None:
    """See that a program that npm has installed is this command, and not another agent's.

    Raises:
        InfrastructureError: its package has other commands only.
    """
    package = _package_of(program)
    commands = package.bin if package is not None else None
    names = [package.name.rpartition("/")[2]] if package is not None and isinstance(commands, str) else commands
    if package is not None and names and command not in names:
        raise InfrastructureError(f"this is {package.name or 'another package'}, not {title}", where=program, fix=fix)


class _Package(Record):
    name: str = ""
    version: str = ""
    bin: dict[str, str] | str | None = None


def _package_of(program: Path) -> _Package | None:
    """The npm package that a program is in."""
    described = next((path for folder in program.parents if (path := folder / "package.json").is_file()), None)
    if described is None or "node_modules" not in described.parts:
        return None
    try:
        return msgspec.json.decode(described.read_bytes(), type=_Package)
    except (OSError, msgspec.DecodeError):
        return None


def check_prompt(text: str) -> str:
    """A prompt, or a file with one, that fits into a variable or an argument.

    Raises:
        UsageError: it does not.
    """
    if len(text.encode("utf-8", "replace")) > _LONGEST_FILE:
        raise UsageError(f"a system prompt cannot be longer than {_LONGEST_FILE} bytes")
    return text


def _file_variables(files: Mapping[str, str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for number, (path, text) in enumerate(files.items()):
        variables |= {f"AGENT_FILE_{number}_PATH": path, f"AGENT_FILE_{number}_TEXT": check_prompt(text)}
    return variables
