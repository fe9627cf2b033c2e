"""Commands in a container. The engine's API starts them and streams them, but cannot kill them: we do.

A shell prints its process number, which is ours to strip from the output, and becomes the command. The engine makes
every such process the leader of a session, so the number is enough to find all that is still the command's own.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiodocker.containers import DockerContainer
from aiodocker.execs import Exec
from aiodocker.stream import Stream

from proctor.core.environment import OutputCallback
from proctor.environments.output_buffer import HeadTailBuffer

ROOT: Final = "0:0"
SHELL: Final = "/bin/sh"
_STDOUT: Final = 1
_STDIN_CHUNK: Final = 1 << 16
_END_SECONDS: Final = 10
_FIRST_POLL_SECONDS: Final = 0.1
_MAX_POLL_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 2.0
# Without it the engine starts everything where the image says, and nothing once something else stands there.
_ALWAYS_THERE: Final = "/"
_START_SCRIPT: Final = 'echo $$; cd -- "$1" || exit 126; shift; unset PWD OLDPWD; exec "$@"'
# As `inside.processes` does it, with nothing but a shell: stop all that belong to the leader, then kill them.
_KILL_SCRIPT: Final = r"""
leader=$1 stopped=" " pass=0
while [ "$pass" -lt 20 ]; do
  family=" $leader " grown=1 fresh=
  while [ -n "$grown" ]; do
    grown=
    for file in /proc/[0-9]*/stat; do
      read -r line <"$file" || continue
      process=${line%% *}
      case $family in *" $process "*) continue ;; esac
      set -- ${line##*)}
      [ "$1" = Z ] && continue
      case $family in *" $2 "*) ;; *) [ "$3" = "$leader" ] || [ "$4" = "$leader" ] || continue ;; esac
      family="$family$process " grown=1
    done
  done
  for process in $family; do
    case $stopped in *" $process "*) ;; *) kill -STOP "$process"; stopped="$stopped$process " fresh=1 ;; esac
  done
  [ -n "$fresh" ] || break
  pass=$((pass + 1))
done
kill -KILL $stopped
pass=0 alive=1
while [ -n "$alive" ] && [ "$pass" -lt 1000 ]; do
  alive= pass=$((pass + 1))
  for process in $stopped; do
    read -r line <"/proc/$process/stat" || continue
    set -- ${line##*)}
    [ "$1" = Z ] || alive=1
  done
done
"""


class ExecNotStarted(Exception):
    """Not even the shell was started. Carries the engine's message."""


class CallbackFailed(Exception):
    """A callback has raised; carries what."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class ContainerCommand:
    """One command, from its start to its end. `shell` is what starts it, and what kills it."""

    def __init__(
        self,
        keep_bytes: int,
        on_stdout: OutputCallback | None,
        on_stderr: OutputCallback | None,
        *,
        shell: str = SHELL,
    ) -> None:
        self._shell = shell
        self.stdout = HeadTailBuffer(keep_bytes)
        self.stderr = HeadTailBuffer(keep_bytes)
        self._on_stdout = on_stdout
        self._on_stderr = on_stderr
        self._leader: int | None = None
        self._first_output = b""
        self._messages_read = 0

    async def run(
        self,
        container: DockerContainer,
        argv: Sequence[str],
        variables: Mapping[str, str],
        cwd: str,
        *,
        stdin: bytes,
        user: str = ROOT,
    ) -> int:
        """Run it to its end as a user of the container; its exit code.

        Raises:
            CallbackFailed: a callback has raised.
            NotStarted: the container had no shell, or no space for one more process.
        """
        self._first_output = b""
        command = [self._shell, "-c", _START_SCRIPT, "sh", cwd, *argv]
        execution = await container.exec(
            command, stdin=bool(stdin), environment=dict(variables), user=user, workdir=_ALWAYS_THERE
        )
        async with execution.start() as stream:
            if stdin:
                await self._write_and_read(execution, stream, stdin)
            else:
                await self._read_output(stream)
        code = await _exit_code(execution)
        if self._leader is None:
            raise ExecNotStarted(self._first_output.decode(errors="replace").strip())
        return code

    async def kill(self, container: DockerContainer) -> None:
        """Kill the command and all that is still its own, wherever it is in its life."""
        for _ in range(100):
            if self._leader is not None:
                break
            await asyncio.sleep(0.05)  # the shell's first words are on their way
        if self._leader is None:
            return
        command = [self._shell, "-c", _KILL_SCRIPT, "sh", str(self._leader)]
        execution = await container.exec(command, stderr=False, user=ROOT, workdir=_ALWAYS_THERE)
        async with execution.start() as stream:
            while await stream.read_out() is not None:
                pass

    @property
    def truncated(self) -> bool:
        return self.stdout.truncated or self.stderr.truncated

    async def _read_output(self, stream: Stream) -> None:
        while (message := await stream.read_out()) is not None:
            self._messages_read += 1
            self._process_message(message.stream, message.data)

    async def _write_and_read(self, execution: Exec, stream: Stream, stdin: bytes) -> None:
        """Listen while the command's input is written.

        The engine ends the stream only when it has passed all input on, which a command that does not read it never
        lets it do. So we look whether the command still runs; when it does not, its output is on its way to us.
        """
        feeding = asyncio.create_task(_write_stdin(stream, stdin))
        listening = asyncio.create_task(self._read_output(stream))
        pause = _FIRST_POLL_SECONDS
        try:
            while not listening.done():
                await asyncio.wait({listening}, timeout=pause)
                pause = min(pause * 1.5, _MAX_POLL_SECONDS)
                if not listening.done() and not (await execution.inspect())["Running"]:
                    await self._drain(listening)
                    break
            if listening.done():
                listening.result()
            else:
                _abort_connection(stream)
        finally:
            feeding.cancel()
            listening.cancel()
            await asyncio.gather(feeding, listening, return_exceptions=True)

    async def _drain(self, reading: "asyncio.Task[None]") -> None:
        """Wait for the last words of a command that has ended: until the stream does, or falls silent."""
        messages_seen = -1
        while messages_seen != self._messages_read and not reading.done():
            messages_seen = self._messages_read
            await asyncio.wait({reading}, timeout=_IDLE_SECONDS)

    def _process_message(self, stream: int, data: bytes) -> None:
        if stream != _STDOUT:
            _deliver(data, self.stderr, self._on_stderr)
            return
        if self._leader is None:
            self._first_output += data
            number, newline, data = self._first_output.partition(b"\n")
            if not newline or not number.isdigit():
                return
            self._leader = int(number)
        if data:
            _deliver(data, self.stdout, self._on_stdout)


def _deliver(data: bytes, buffer: HeadTailBuffer, output: OutputCallback | None) -> None:
    buffer.add(data)
    if output is not None:
        try:
            output(data)
        except Exception as error:
            raise CallbackFailed(error) from error


async def _write_stdin(stream: Stream, data: bytes) -> None:
    try:
        for start in range(0, len(data), _STDIN_CHUNK):
            await stream.write_in(data[start : start + _STDIN_CHUNK])
        _close_stdin(stream)
    except (OSError, RuntimeError):
        return  # the command has ended without reading all of it


def _close_stdin(stream: Stream) -> None:
    """Close the command's stdin and keep listening, for which the library has no call."""
    transport = _transport(stream)
    if transport is not None:
        transport.write_eof()


def _abort_connection(stream: Stream) -> None:
    """Drop the connection with what is still to be written: to close it would be to wait for that."""
    transport = _transport(stream)
    if transport is not None:
        transport.abort()


def _transport(stream: Stream) -> Any:
    connection = stream._resp and stream._resp.connection  # noqa: SLF001 - aiodocker has no public name for it
    return connection and connection.transport


async def _exit_code(execution: Exec) -> int:
    for _ in range(_END_SECONDS * 100):
        state = await execution.inspect()
        if state["ExitCode"] is not None and not state["Running"]:
            return int(state["ExitCode"])
        await asyncio.sleep(0.01)  # the stream ends a moment before the engine has noted how
    raise TimeoutError("the exit status of the command was not recorded")
