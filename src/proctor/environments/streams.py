"""The pipes between a command in a local room and its caller."""

import asyncio
import errno
import fcntl
import os
from contextlib import suppress
from typing import Final

from proctor.core.environment import Output
from proctor.environments.output import Kept

_PIPE_BYTES: Final = 256 * 1024
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)


class Pump:
    """Reads one of a command's streams as it comes, so that the command never waits long for its reader."""

    def __init__(self, kept: Kept, output: Output | None, problem: "asyncio.Future[None]") -> None:
        self._loop = asyncio.get_running_loop()
        self._reading, self.writing = os.pipe()
        if _SET_PIPE_SIZE is not None:
            with suppress(OSError):  # a user may have only so many pages in pipes
                fcntl.fcntl(self._reading, _SET_PIPE_SIZE, _PIPE_BYTES)
        os.set_blocking(self._reading, False)
        self._kept: Kept | None = kept
        self._output = output
        self._problem = problem
        self.open = True
        self._loop.add_reader(self._reading, self._read)

    def finish(self) -> None:
        """Take what the command has written before its end; what others write from now on is thrown away.

        A program left in the background may hold the pipe: its output goes nowhere, but it goes.
        """
        budget = 2 * _PIPE_BYTES
        while self.open and budget > 0:
            taken = self._read()
            if taken == 0:
                break
            budget -= taken
        self._kept = None
        self._output = None

    def close(self) -> None:
        """Stop reading."""
        if self.open:
            self.open = False
            self._loop.remove_reader(self._reading)
            os.close(self._reading)

    def _read(self) -> int:
        try:
            piece = os.read(self._reading, _PIPE_BYTES)
        except BlockingIOError:
            return 0
        if not piece:
            self.close()
            return 0
        if self._kept is not None:
            self._kept.add(piece)
        if self._output is not None:
            try:
                self._output(piece)
            except Exception as error:  # noqa: BLE001 - it is the caller's, and goes back to the caller
                self._output = None
                if not self._problem.done():
                    self._problem.set_exception(error)
        return len(piece)


class Feed:
    """Writes a command's input as fast as it is read."""

    def __init__(self, data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self.reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._rest = memoryview(data)
        self._open = True
        self._loop.add_writer(self._writing, self._write)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._writing, self._rest[:_PIPE_BYTES]) :]
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EPIPE:
                raise
            self._rest = self._rest[:0]  # nobody reads it any more
        if not self._rest:
            self.close()

    def close(self) -> None:
        """Stop writing."""
        if self._open:
            self._open = False
            self._loop.remove_writer(self._writing)
            os.close(self._writing)


class Streams:
    """The three streams of one command.

    Attributes:
        inside: the descriptors that the command gets.
        problem: fails when a callback does.
    """

    def __init__(self, stdin: bytes, keep_bytes: int, on_stdout: Output | None, on_stderr: Output | None) -> None:
        self.problem: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stdout = Kept(keep_bytes)
        self.stderr = Kept(keep_bytes)
        self._feed = Feed(stdin) if stdin else None
        self._pumps = (Pump(self.stdout, on_stdout, self.problem), Pump(self.stderr, on_stderr, self.problem))
        source = self._feed.reading if self._feed else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.inside = [source, *(pump.writing for pump in self._pumps)]

    def close_inside(self) -> None:
        """Let go of the command's ends, which it has by now."""
        for descriptor in self.inside:
            os.close(descriptor)
        self.inside = []

    def finish(self) -> list[Pump]:
        """Take the rest; the pumps that somebody in the background still writes to."""
        self.close_inside()
        if self._feed is not None:
            self._feed.close()
        for pump in self._pumps:
            pump.finish()
        return [pump for pump in self._pumps if pump.open]

    def check(self) -> None:
        """Raise what a callback has raised."""
        if self.problem.done():
            self.problem.result()

    @property
    def truncated(self) -> bool:
        return self.stdout.truncated or self.stderr.truncated
