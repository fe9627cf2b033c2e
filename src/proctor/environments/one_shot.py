"""A local environment for one command: bubblewrap starts the command itself, and no process of ours is in there with
it.
"""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, closing, nullcontext, suppress
from typing import Any, Final

import msgspec

from proctor.core.environment import ExecResult, Limits, OneShotCommand, OneShotResult
from proctor.core.errors import RetryableError
from proctor.core.record import Record
from proctor.environments.bubblewrap import EnvironmentLayout, OneShotDescriptors, one_shot_argv
from proctor.environments.environment_process import EnvironmentNotStarted, EnvironmentProcess, filled_pipe
from proctor.environments.limit_monitor import LimitMonitor
from proctor.environments.limits import CommandLimits, limits_for_command
from proctor.environments.output_buffer import HeadTailBuffer
from proctor.environments.seccomp import filter_program
from proctor.environments.streams import PipeReader, PipeWriter

_KILL_SECONDS: Final = 30


async def run_one_shot(
    command: OneShotCommand,
    layout: EnvironmentLayout,
    process: EnvironmentProcess,
    *,
    variables: Mapping[str, str],
    cwd: str,
    limits: Limits,
    permit: AbstractAsyncContextManager[object] | None,
) -> OneShotResult:
    """Run the command in an environment whose folder is there already.

    Raises:
        EnvironmentNotStarted: bubblewrap could not make the environment.
        LimitReached: a limit of the whole environment ended it.
        RetryableError: something could not be killed.
    """
    keep = limits.output_bytes if command.output_bytes is None else command.output_bytes
    output, report = HeadTailBuffer(2 * keep), HeadTailBuffer(command.report_bytes)
    with ExitStack() as stack:
        pumps = [stack.enter_context(closing(PipeReader(kept, None, _unused_future()))) for kept in (output, report)]
        feeds = [stack.enter_context(closing(PipeWriter(data))) for data in command.inputs]
        own = [*(feed.read_fd for feed in feeds), pumps[1].write_fd]
        environment = stack.enter_context(closing(_OneShotProcess()))
        try:
            argv = [*command.argv, *map(str, own)]
            environment.start(lambda gates: one_shot_argv(layout, gates, variables, cwd, argv), pumps[0].write_fd, own)
        finally:
            for descriptor in (pumps[0].write_fd, *own):
                os.close(descriptor)
        watches = LimitMonitor(limits, process.used_bytes, environment.terminate)
        try:
            await environment.apply_limits(
                limits_for_command(limits, process.controllers, isolated=True), process.cgroup_fds
            )
            async with permit or nullcontext():
                started = time.monotonic()
                environment.start_command()
                timed_out = not await environment.wait(command.timeout)
                seconds = time.monotonic() - started
        finally:
            await asyncio.shield(environment.terminate())
            await watches.stop()
        for pump in pumps:
            pump.drain()
    watches.check()
    exit_code = environment.exit_code
    if not timed_out and not environment.command_started:
        exit_code = _not_run_exit_code(output.value())
    return OneShotResult(
        exec_result=ExecResult(
            exit_code=exit_code,
            stdout=output.value(),
            stderr=b"",
            seconds=seconds,
            timed_out=timed_out,
            truncated=output.truncated,
        ),
        report=report.value(),
        report_truncated=report.truncated,
    )


class _BubblewrapStatus(Record, rename="kebab"):
    """A status line of bubblewrap: the environment's first process, then the command's exit code if it came to
    run.
    """

    child_pid: int | None = None
    exit_code: int | None = None


class _OneShotProcess:
    """Bubblewrap, from its start to the end of every process in the environment."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._first_pid: asyncio.Future[int] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._partial_status = b""
        self._status_reader = PipeReader(HeadTailBuffer(0), self._read_status, _unused_future())
        self._start_read_fd, self._start_write_fd = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._bubblewrap_pidfd: int | None = None
        self._first_pidfd: int | None = None
        self.command_started = False
        self.exit_code = 0

    def start(self, build_argv: Callable[[OneShotDescriptors], list[str]], output: int, own: Sequence[int]) -> None:
        """Start bubblewrap, by this thread: the environment dies with the thread that made it."""
        try:
            with filled_pipe(filter_program(keys=False)) as filtering:
                gates = OneShotDescriptors(
                    status_fd=self._status_reader.write_fd, start_fd=self._start_read_fd, seccomp_fd=filtering
                )
                self._process = subprocess.Popen(
                    build_argv(gates),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={},
                    cwd="/",
                    pass_fds=[gates.status_fd, gates.start_fd, gates.seccomp_fd, *own],
                    start_new_session=True,
                )
            self._bubblewrap_pidfd = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._bubblewrap_pidfd, self._reap)
        finally:
            os.close(self._status_reader.write_fd)
            os.close(self._start_read_fd)

    async def apply_limits(self, command_limits: CommandLimits, cgroup_fds: Sequence[int]) -> None:
        """Lay the limits on the environment's first process, from which all others have them."""
        either: set[asyncio.Future[Any]] = {self._first_pid, self._ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._first_pid.done():
            return
        first = self._first_pid.result()
        with suppress(ProcessLookupError):  # the environment could not be made: its exit reports it
            if cgroup_fds:
                # In a thread: to enter a control group may take the kernel some milliseconds.
                await asyncio.to_thread(_join_cgroups, cgroup_fds, first)
            for kind, value in command_limits.rlimits.items():
                resource.prlimit(first, kind, (value, value))
            if command_limits.processors:
                os.sched_setaffinity(first, command_limits.processors)

    def start_command(self) -> None:
        """Let the command begin."""
        with suppress(BrokenPipeError):  # as above
            os.write(self._start_write_fd, b".")

    async def wait(self, seconds: float | None) -> bool:
        """Wait for the end; whether it came in time."""
        done, _ = await asyncio.wait({self._ended}, timeout=seconds)
        return bool(done)

    async def terminate(self) -> None:
        """End every process and see that it is so.

        Raises:
            RetryableError: something could not be killed.
        """
        if self._process is None or self._ended.done():
            return
        # Bubblewrap reports its first process or ends. Killed before that, it could leave one that is not known here.
        either: set[asyncio.Future[Any]] = {self._first_pid, self._ended}
        await asyncio.wait(either, timeout=_KILL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        # With its first process the kernel kills the whole environment.
        with suppress(ProcessLookupError):
            os.kill(self._first_pid.result() if self._first_pid.done() else self._process.pid, signal.SIGKILL)
        if not await self.wait(_KILL_SECONDS):
            raise RetryableError("an environment's processes cannot be killed")

    def close(self) -> None:
        """Give the descriptors back."""
        self._status_reader.close()
        os.close(self._start_write_fd)
        for handle in (self._bubblewrap_pidfd, self._first_pidfd):
            if handle is not None:
                self._loop.remove_reader(handle)
                os.close(handle)

    def _read_status(self, piece: bytes) -> None:
        *lines, self._partial_status = (self._partial_status + piece).split(b"\n")
        for line in lines:
            status = msgspec.json.decode(line, type=_BubblewrapStatus)
            if status.child_pid is not None and not self._first_pid.done():
                self._first_pid.set_result(status.child_pid)
                with suppress(ProcessLookupError):  # it has ended, and the environment with it
                    self._first_pidfd = os.pidfd_open(status.child_pid)
            if status.exit_code is not None:
                self.command_started = True

    def _reap(self) -> None:
        if self._process is None or self._bubblewrap_pidfd is None or self._process.poll() is None:
            return
        self._loop.remove_reader(self._bubblewrap_pidfd)
        self._status_reader.drain()
        code = self._process.returncode
        self.exit_code = 128 - code if code < 0 else code
        # Bubblewrap ends with the command. The environment's first process ends when all others have, which takes a
        # moment.
        if self._first_pidfd is None:
            self._ended.set_result(None)
        else:
            self._loop.add_reader(self._first_pidfd, self._finish)

    def _finish(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


def _join_cgroups(cgroup_fds: Sequence[int], process: int) -> None:
    for join in cgroup_fds:
        os.write(join, b"%d" % process)


def _not_run_exit_code(output: bytes) -> int:
    """What a shell says of a command that is not there, or cannot be run.

    Raises:
        NotStarted: it was not the command that failed, but the environment.
    """
    if b": execvp " not in output:
        raise EnvironmentNotStarted(output.decode(errors="replace"))
    return 127 if os.strerror(errno.ENOENT).encode() in output else 126


def _unused_future() -> "asyncio.Future[None]":
    """For a pump without a callback, which cannot fail."""
    return asyncio.get_running_loop().create_future()
