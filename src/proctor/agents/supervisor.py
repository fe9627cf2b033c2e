"""Runs an agent's program in an environment: reads and logs its output, and ends it when it must end.

The program starts through a few lines of shell, whose first line of output is its process id. Signals are sent to that
id: environments have no other way, and a file could be changed by the agent.
"""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import msgspec

from proctor.agents.outcomes import CauseAndDetail
from proctor.core.causes import Cause
from proctor.core.environment import Environment, ExecResult
from proctor.core.errors import LimitReached, ProctorError
from proctor.core.record import Record

LONGEST_LINE: Final = 64_000_000
MAX_LOG_BYTES: Final = 256_000_000  # of each stream: an agent may print without end
_LOG_CUT: Final = b"\n[the rest was not kept]\n"
_LONGEST_FIRST_LINE: Final = 10_000
_STDERR_TAIL_BYTES: Final = 20_000
_OUTPUT_TAIL_BYTES: Final = 1_000
_SIGNAL_SECONDS: Final = 10.0
_SIGNAL: Final = 128
_NOT_STARTED: Final = (126, 127)

# Adds to the processes in `tree` all that descends from them. Claude Code runs each command in a session of its own, so
# a process group is not enough.
_FIND_DESCENDANTS: Final = """
more=1
while [ "$more" ]; do
  more=
  for stat in /proc/[0-9]*/stat; do
    { read -r line <"$stat"; } 2>/dev/null || continue
    pid=${line%% *}
    set -- ${line##*) }
    case " $tree " in *" $pid "*) continue ;; esac
    case " $tree " in *" $2 "*) tree="$tree $pid" more=1 ;; esac
  done
done
"""
# Prints each process with the time when it started, and interrupts the first: once that has exited, nothing tells any
# more what was its own.
_INTERRUPT: Final = f"""
leader=$1 tree=$1
{_FIND_DESCENDANTS}
for pid in $tree; do
  {{ read -r line <"/proc/$pid/stat"; }} 2>/dev/null || continue
  set -- ${{line##*) }}
  echo "$pid:${{20}}"
done
kill -INT "$leader"
"""
# Kills what it is given as PROCESS:STARTED, and its descendants. They are stopped first: a stopped process starts no
# more, and its children stay its children. What had left the program before is not its own any more.
_KILL: Final = f"""
tree=
for known; do
  pid=${{known%:*}}
  {{ read -r line <"/proc/$pid/stat"; }} 2>/dev/null || continue
  set -- ${{line##*) }}
  case $known in *: | *:"${{20}}") ;; *) continue ;; esac
  kill -STOP "$pid" 2>/dev/null && tree="$tree $pid"
done
[ "$tree" ] || exit 0
{_FIND_DESCENDANTS}
kill -KILL $tree 2>/dev/null
"""


class ExitReason(StrEnum):
    """What ended a program."""

    EXITED = "exited"
    WALL_CLOCK = "wall clock"
    LINGERED = "lingered"
    ENVIRONMENT_LIMIT = "environment limit"
    CANCELLED = "cancelled"


class ProcessExit(Record):
    """How a program ended.

    Attributes:
        exit_code: 128 + N for a signal N; None when it was never learned.
        fault: why the program was not started, by the name that the script gave it; ``no_shell``: there is no shell.
        stderr: the end of what it wrote there.
        limit: the environment's limit that ended it.
    """

    reason: ExitReason
    seconds: float
    exit_code: int | None = None
    fault: str = ""
    stderr: str = ""
    limit: str = ""

    @property
    def summary(self) -> str:
        """Its exit, in words."""
        if self.exit_code is None:
            return "it disappeared"
        if self.exit_code > _SIGNAL:
            return f"it was killed by signal {self.exit_code - _SIGNAL}"
        return f"it exited with code {self.exit_code}"

    @property
    def forced_end(self) -> CauseAndDetail | None:
        """Why the program was ended by us or by its environment; None when it ended by itself or was done."""
        match self.reason:
            case ExitReason.CANCELLED:
                return Cause.INTERRUPTED, "it was stopped from outside"
            case ExitReason.ENVIRONMENT_LIMIT:
                if self.limit.startswith("depth"):  # its tree is nested so deeply that nobody can measure it
                    return Cause.TOO_LARGE, f"the environment ended it: {self.limit}"
                cause = Cause.AGENT_TIMEOUT if "wall clock" in self.limit else Cause.RESOURCE_LIMIT
                return cause, f"the environment ended it: {self.limit}"
            case ExitReason.WALL_CLOCK:
                return Cause.AGENT_TIMEOUT, f"it was not done after {self.seconds:.0f} s and was stopped"
        return None


class _LaunchReport(Record):
    pid: int | None = None
    fault: str = ""


class OutputHandler(Protocol):
    """Takes the output of a program, line by line."""

    @property
    def idle(self) -> bool:
        """Whether the program has reported that it is done, so that it should exit soon."""
        ...

    def handle_line(self, line: bytes) -> None:
        """Take one line, without its end. A line that is longer than `LONGEST_LINE` is cut there."""
        ...

    def on_interrupt(self) -> None:
        """Called before the program is interrupted; what it prints from now on is about that."""
        ...


class Supervisor:
    """Runs one program, once.

    Args:
        logs: a folder on the host; what the program prints is kept there, up to `MAX_LOG_BYTES`.
        stdout: the name of the file for its standard output.
        grace_seconds: how long it has to exit once it has been interrupted; 0: it is killed at once.
        linger_seconds: how long it may run on after it has reported that it is done.
    """

    def __init__(
        self,
        environment: Environment,
        logs: Path,
        handler: OutputHandler,
        *,
        stdout: str,
        grace_seconds: float,
        linger_seconds: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._logs = logs
        self._handler = handler
        self._stdout = stdout
        self._grace = grace_seconds
        self._linger = linger_seconds
        self._clock = clock
        self._pid: int | None = None
        self._fault = ""
        self._awaiting_first_line = True
        self._partial = bytearray()
        self._stderr = bytearray()
        self._idle_since: float | None = None
        self._changed = asyncio.Event()
        self._write_error: OSError | None = None
        self.process_exit: ProcessExit | None = None

    async def run(
        self,
        script: str,
        arguments: Sequence[str],
        *,
        stdin: bytes,
        variables: Mapping[str, str],
        wall_seconds: float | None,
    ) -> ProcessExit:
        """Run the shell `script`, which prints ``{"pid": …}`` or ``{"fault": …}`` and becomes the program.

        When the caller is cancelled, the program is ended as if its time were up, `process_exit` says what is known of
        it, and the cancellation continues.

        Raises:
            InfrastructureError: the environment broke.
            OSError: what it prints cannot be kept, for instance because the disk is full.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / self._stdout).open("wb") as out, (self._logs / "stderr.log").open("wb") as err:
            started = self._clock()
            running = asyncio.create_task(
                self._environment.exec(
                    ["sh", "-c", script, "sh", *arguments],
                    stdin=stdin,
                    variables=variables,
                    on_stdout=lambda data: self._on_stdout(data, out),
                    on_stderr=lambda data: self._on_stderr(data, err),
                    output_bytes=_OUTPUT_TAIL_BYTES,
                )
            )
            ending = ExitReason.CANCELLED
            try:
                ending = await self._wait_for_exit(
                    running, math.inf if wall_seconds is None else started + wall_seconds
                )
                if ending is not ExitReason.EXITED:
                    await self._terminate(running, keep_children=ending is ExitReason.LINGERED)
            except asyncio.CancelledError:
                await self._terminate(running)
                raise
            finally:
                if not running.done():
                    running.cancel()
                    await asyncio.wait({running})
                if self._partial:
                    self._handle_line(bytes(self._partial))
                self.process_exit = self._describe(running, ending, self._clock() - started)
        if self._write_error is not None:
            raise self._write_error
        return self.process_exit

    async def _wait_for_exit(self, running: "asyncio.Task[ExecResult]", deadline: float) -> ExitReason:
        """Wait until the program has exited, or must be ended."""
        while not running.done():
            leave = math.inf if self._idle_since is None else self._idle_since + self._linger
            wait = min(deadline, leave) - self._clock()
            if self._write_error is not None:
                return ExitReason.CANCELLED
            if wait <= 0:
                return ExitReason.WALL_CLOCK if deadline < leave else ExitReason.LINGERED
            self._changed.clear()
            changed = asyncio.create_task(self._changed.wait())
            try:
                timeout = None if wait == math.inf else wait
                await asyncio.wait({running, changed}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
        return ExitReason.EXITED

    async def _terminate(self, running: "asyncio.Task[ExecResult]", *, keep_children: bool = False) -> None:
        """Interrupt the program, so that it can still report its result; then kill it with all that it started.

        Where a program that had done its work exits at the interrupt, what it leaves is part of that work.
        """
        if running.done():
            return
        self._handler.on_interrupt()
        if self._pid is None:
            return
        processes = [f"{self._pid}:"]
        if self._grace:
            processes = (await self._signal(_INTERRUPT, [str(self._pid)])).split() or processes
            done, _ = await asyncio.wait({running}, timeout=self._grace)
            if done and (keep_children or len(processes) == 1):
                return
        await self._signal(_KILL, processes)
        await asyncio.wait({running}, timeout=_SIGNAL_SECONDS)

    async def _signal(self, script: str, arguments: Sequence[str]) -> str:
        """Run a script beside the program; what it prints."""
        # An environment that cannot run this is gone, or will be soon, and the program with it.
        with contextlib.suppress(ProctorError):
            result = await self._environment.exec(["sh", "-c", script, "sh", *arguments], timeout=_SIGNAL_SECONDS)
            return result.stdout.decode("ascii", "replace")
        return ""

    def _describe(self, running: "asyncio.Task[ExecResult]", reason: ExitReason, seconds: float) -> ProcessExit:
        limit, code = "", None
        if not running.cancelled():
            error = running.exception()
            if isinstance(error, LimitReached):
                reason, limit = ExitReason.ENVIRONMENT_LIMIT, error.sentence
            elif error is not None and reason is ExitReason.EXITED:
                raise error
            elif error is None:
                code, limit = running.result().exit_code, running.result().limit
                if limit and reason is ExitReason.EXITED:
                    reason, limit = ExitReason.ENVIRONMENT_LIMIT, f"limit reached: {limit}"
        stderr = self._stderr.decode("utf-8", "replace")
        fault = "no_shell" if self._awaiting_first_line and code in _NOT_STARTED else self._fault
        return ProcessExit(reason=reason, seconds=seconds, exit_code=code, fault=fault, stderr=stderr, limit=limit)

    def _on_stdout(self, data: bytes, file: BinaryIO) -> None:
        if self.process_exit is not None:
            return  # from something that the program has left behind
        if self._awaiting_first_line:
            data = self._read_launch_report(data)
        self._write_log(data, file)
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._partial += line[: LONGEST_LINE - len(self._partial)]
            self._handle_line(bytes(self._partial))
            self._partial.clear()
        self._partial += rest[: LONGEST_LINE - len(self._partial)]

    def _read_launch_report(self, data: bytes) -> bytes:
        """Read our own shell's line off the front; what follows it is the program's."""
        self._partial += data
        line, end, rest = bytes(self._partial).partition(b"\n")
        if not end and len(line) < _LONGEST_FIRST_LINE:
            return b""
        self._awaiting_first_line = False
        self._partial.clear()
        try:
            report = msgspec.json.decode(line, type=_LaunchReport)
        except msgspec.DecodeError:
            # Not our script's line: it belongs to the handler.
            return line + end + rest
        self._pid, self._fault = report.pid, report.fault
        return rest

    def _handle_line(self, line: bytes) -> None:
        self._handler.handle_line(line)
        idle = self._handler.idle
        if idle != (self._idle_since is not None):
            self._idle_since = self._clock() if idle else None
            self._changed.set()

    def _on_stderr(self, data: bytes, file: BinaryIO) -> None:
        self._write_log(data, file)
        self._stderr += data
        del self._stderr[:-_STDERR_TAIL_BYTES]

    def _write_log(self, data: bytes, file: BinaryIO) -> None:
        if self._write_error is not None or self.process_exit is not None:
            return
        space = MAX_LOG_BYTES - file.tell()
        if space <= 0:
            return
        try:
            file.write(data if len(data) < space else data[:space] + _LOG_CUT)
            file.flush()
        except OSError as error:
            self._write_error = error
            self._changed.set()
