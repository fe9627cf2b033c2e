"""A local room for one command: bubblewrap starts the command itself, and no process of ours is in there with it."""

import asyncio
import errno
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, closing, suppress
from typing import Any, Final

import msgspec

from proctor.core.environment import Errand, ErrandResult, ExecResult, Limits
from proctor.core.errors import RetryableError
from proctor.core.record import Record
from proctor.environments.body import Body, NotStarted, filled_pipe
from proctor.environments.bubblewrap import Gates
from proctor.environments.limits import Rules, rules_for
from proctor.environments.output import Kept
from proctor.environments.seccomp import filter_program
from proctor.environments.streams import Feed, Pump
from proctor.environments.watches import Watches

_END_SECONDS: Final = 30

# From what bubblewrap inherits and the words of the command, its own command line.
Command = Callable[[Gates, Sequence[str]], list[str]]


async def run(
    errand: Errand, command: Command, limits: Limits, body: Body, turn: AbstractAsyncContextManager[object]
) -> ErrandResult:
    """Run the errand in a room whose folder is there already.

    Raises:
        NotStarted: bubblewrap could not make the room.
        LimitReached: a limit of the whole room ended it.
        RetryableError: something could not be killed.
    """
    keep = limits.output_bytes if errand.output_bytes is None else errand.output_bytes
    output, report = Kept(2 * keep), Kept(errand.report_bytes)
    with ExitStack() as stack:
        pumps = [stack.enter_context(closing(Pump(kept, None, _unheard()))) for kept in (output, report)]
        feeds = [stack.enter_context(closing(Feed(data))) for data in errand.inputs]
        own = [*(feed.reading for feed in feeds), pumps[1].writing]
        room = stack.enter_context(closing(_Room()))
        try:
            room.start(lambda gates: command(gates, [*errand.argv, *map(str, own)]), pumps[0].writing, own)
        finally:
            for descriptor in (pumps[0].writing, *own):
                os.close(descriptor)
        watches = Watches(limits, body.used_bytes, room.end)
        try:
            await room.furnish(rules_for(limits, body.controllers, isolated=True), body.joins)
            async with turn:
                started = time.monotonic()
                room.let_go()
                timed_out = not await room.ends_within(errand.timeout)
                seconds = time.monotonic() - started
        finally:
            await asyncio.shield(room.end())
            await watches.stop()
        for pump in pumps:
            pump.finish()
    watches.check()
    exit_code = room.exit_code
    if not timed_out and not room.has_become_the_command:
        exit_code = _not_run(output.value())
    return ErrandResult(
        ended=ExecResult(
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


class _Told(Record, rename="kebab"):
    """A line of what bubblewrap tells: the room's first process, then the command's exit code if it came to run."""

    child_pid: int | None = None
    exit_code: int | None = None


class _Room:
    """Bubblewrap, from its start to the end of every process in the room."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._first: asyncio.Future[int] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._told = b""
        self._telling = Pump(Kept(0), self._hear, _unheard())
        self._waiting, self._go = os.pipe()
        self._process: subprocess.Popen[bytes] | None = None
        self._handle: int | None = None
        self._inside: int | None = None
        self.has_become_the_command = False
        self.exit_code = 0

    def start(self, command: Callable[[Gates], list[str]], output: int, own: Sequence[int]) -> None:
        """Start bubblewrap, by this thread: the room dies with the thread that made it."""
        try:
            with filled_pipe(filter_program()) as filtering:
                gates = Gates(status=self._telling.writing, go=self._waiting, filter=filtering)
                self._process = subprocess.Popen(
                    command(gates),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={},
                    cwd="/",
                    pass_fds=[gates.status, gates.go, gates.filter, *own],
                    start_new_session=True,
                )
            self._handle = os.pidfd_open(self._process.pid)
            self._loop.add_reader(self._handle, self._reap)
        finally:
            os.close(self._telling.writing)
            os.close(self._waiting)

    async def furnish(self, rules: Rules, joins: Sequence[int]) -> None:
        """Lay the limits on the room's first process, from which all others have them."""
        either: set[asyncio.Future[Any]] = {self._first, self._ended}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._first.done():
            return
        first = self._first.result()
        with suppress(ProcessLookupError):  # the room could not be made: its end tells
            if joins:
                # In a thread: to enter a control group may take the kernel some milliseconds.
                await asyncio.to_thread(_join, joins, first)
            for kind, value in rules.resources.items():
                resource.prlimit(first, kind, (value, value))
            if rules.processors:
                os.sched_setaffinity(first, rules.processors)

    def let_go(self) -> None:
        """Let the command begin."""
        with suppress(BrokenPipeError):  # as above
            os.write(self._go, b".")

    async def ends_within(self, seconds: float | None) -> bool:
        """Wait for the end; whether it came in time."""
        done, _ = await asyncio.wait({self._ended}, timeout=seconds)
        return bool(done)

    async def end(self) -> None:
        """End every process and see that it is so.

        Raises:
            RetryableError: something could not be killed.
        """
        if self._process is None or self._ended.done():
            return
        # With its first process the kernel kills the whole room.
        with suppress(ProcessLookupError):
            os.kill(self._first.result() if self._first.done() else self._process.pid, signal.SIGKILL)
        if not await self.ends_within(_END_SECONDS):
            raise RetryableError("a room's processes cannot be killed")

    def close(self) -> None:
        """Give the descriptors back."""
        self._telling.close()
        os.close(self._go)
        for handle in (self._handle, self._inside):
            if handle is not None:
                self._loop.remove_reader(handle)
                os.close(handle)

    def _hear(self, piece: bytes) -> None:
        *lines, self._told = (self._told + piece).split(b"\n")
        for line in lines:
            told = msgspec.json.decode(line, type=_Told)
            if told.child_pid is not None and not self._first.done():
                self._first.set_result(told.child_pid)
                with suppress(ProcessLookupError):  # it has ended, and the room with it
                    self._inside = os.pidfd_open(told.child_pid)
            if told.exit_code is not None:
                self.has_become_the_command = True

    def _reap(self) -> None:
        if self._process is None or self._handle is None or self._process.poll() is None:
            return
        self._loop.remove_reader(self._handle)
        self._telling.finish()
        code = self._process.returncode
        self.exit_code = 128 - code if code < 0 else code
        # Bubblewrap ends with the command. The room's first process ends when all others have, which takes a moment.
        if self._inside is None:
            self._ended.set_result(None)
        else:
            self._loop.add_reader(self._inside, self._all_gone)

    def _all_gone(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


def _join(joins: Sequence[int], process: int) -> None:
    for join in joins:
        os.write(join, b"%d" % process)


def _not_run(said: bytes) -> int:
    """What a shell says of a command that is not there, or cannot be run.

    Raises:
        NotStarted: it was not the command that failed, but the room.
    """
    if b": execvp " not in said:
        raise NotStarted(said.decode(errors="replace"))
    return 127 if os.strerror(errno.ENOENT).encode() in said else 126


def _unheard() -> "asyncio.Future[None]":
    """For a pump without a callback, which has no trouble to tell of."""
    return asyncio.get_running_loop().create_future()
