"""The pipes between a command in a local environment and its caller."""

import asyncio
import errno
import fcntl
import os
from contextlib import suppress
from typing import Final

from proctor.core.environment import OutputCallback
from proctor.environments.output_buffer import HeadTailBuffer

_PIPE_BYTES: Final = 256 * 1024
_SET_PIPE_SIZE: Final = getattr(fcntl, "F_SETPIPE_SZ", None)


class PipeReader:
    """Reads one of a command's streams as it comes, so that the command never waits long for its reader."""

    def __init__(
        self, buffer: HeadTailBuffer, callback: OutputCallback | None, callback_error: "asyncio.Future[None]"
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._read_fd, self.write_fd = os.pipe()
        if _SET_PIPE_SIZE is not None:
            with suppress(OSError):  # a user may have only so many pages in pipes
                fcntl.fcntl(self._read_fd, _SET_PIPE_SIZE, _PIPE_BYTES)
        os.set_blocking(self._read_fd, False)
        self._buffer: HeadTailBuffer | None = buffer
        self._callback = callback
        self._callback_error = callback_error
        self.open = True
        self._loop.add_reader(self._read_fd, self._read)

    def drain(self) -> None:
        """Take what the command has written before its end; what others write from now on is thrown away.

        A program left in the background may hold the pipe: its output goes nowhere, but it goes.
        """
        budget = 2 * _PIPE_BYTES
        while self.open and budget > 0:
            taken = self._read()
            if taken == 0:
                break
            budget -= taken
        self._buffer = None
        self._callback = None

    def close(self) -> None:
        """Stop reading."""
        if self.open:
            self.open = False
            self._loop.remove_reader(self._read_fd)
            os.close(self._read_fd)

    def _read(self) -> int:
        try:
            piece = os.read(self._read_fd, _PIPE_BYTES)
        except BlockingIOError:
            return 0
        if not piece:
            self.close()
            return 0
        if self._buffer is not None:
            self._buffer.add(piece)
        if self._callback is not None:
            try:
                self._callback(piece)
            except Exception as error:  # noqa: BLE001 - it is the caller's, and goes back to the caller
                self._callback = None
                if not self._callback_error.done():
                    self._callback_error.set_exception(error)
        return len(piece)


class PipeWriter:
    """Writes a command's input as fast as it is read."""

    def __init__(self, data: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self.read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        self._rest = memoryview(data)
        self._open = True
        self._loop.add_writer(self._write_fd, self._write)

    def _write(self) -> None:
        try:
            self._rest = self._rest[os.write(self._write_fd, self._rest[:_PIPE_BYTES]) :]
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
            self._loop.remove_writer(self._write_fd)
            os.close(self._write_fd)


class CommandStreams:
    """The three streams of one command.

    Attributes:
        inside: the descriptors that the command gets.
        problem: fails when a callback does.
    """

    def __init__(
        self, stdin: bytes, keep_bytes: int, on_stdout: OutputCallback | None, on_stderr: OutputCallback | None
    ) -> None:
        self.callback_error: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.stdout = HeadTailBuffer(keep_bytes)
        self.stderr = HeadTailBuffer(keep_bytes)
        self._stdin_writer = PipeWriter(stdin) if stdin else None
        self._readers = (
            PipeReader(self.stdout, on_stdout, self.callback_error),
            PipeReader(self.stderr, on_stderr, self.callback_error),
        )
        source = self._stdin_writer.read_fd if self._stdin_writer else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self.command_fds = [source, *(pump.write_fd for pump in self._readers)]

    def close_command_fds(self) -> None:
        """Let go of the command's ends, which it has by now."""
        for descriptor in self.command_fds:
            os.close(descriptor)
        self.command_fds = []

    def drain(self) -> list[PipeReader]:
        """Take the rest; the pumps that somebody in the background still writes to."""
        self.close_command_fds()
        if self._stdin_writer is not None:
            self._stdin_writer.close()
        for pump in self._readers:
            pump.drain()
        return [pump for pump in self._readers if pump.open]

    def check(self) -> None:
        """Raise what a callback has raised."""
        if self.callback_error.done():
            self.callback_error.result()

    @property
    def truncated(self) -> bool:
        return self.stdout.truncated or self.stderr.truncated
