"""Proctor's end of the socket to an environment's first process."""

import asyncio
import itertools
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from proctor.core.record import Record
from proctor.environments.inside import wire

_MAX_DESCRIPTORS: Final = 8
_CLOEXEC: Final = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class ExecSpec(Record):
    """What the first process needs to know of a command, in the order in which it takes it."""

    argv: list[bytes]
    variables: dict[bytes, bytes]
    cwd: bytes
    limits: dict[int, int]
    processors: list[int]


class ChannelClosed(Exception):
    """The environment's first process has ended."""


class Channel:
    """Sends requests and hands each its reply; belongs to one event loop.

    Attributes:
        ready: the port of the model relay, once the environment is up; 0 without one.
    """

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._control = control
        self._loop = asyncio.get_running_loop()
        self._numbers = itertools.count(1)
        self._sending = asyncio.Lock()
        self._unsent = 0  # requests of which something is still to be sent
        self._pending: dict[int, asyncio.Future[int]] = {}
        self._received = bytearray()
        self._descriptors: list[int] = []
        self.ready: asyncio.Future[int] = self._loop.create_future()
        self.closed = asyncio.Event()
        # By number: for a socket, selectors ask the kernel for its addresses each time that they do not know it.
        self._loop.add_reader(control.fileno(), self._read)

    def new_request(self) -> tuple[int, asyncio.Future[int]]:
        """A number for a request, and what its reply will be."""
        number = next(self._numbers)
        future: asyncio.Future[int] = self._loop.create_future()
        self._pending[number] = future
        return number, future

    async def start(self, number: int, command: ExecSpec, descriptors: Sequence[int]) -> None:
        """Start a command with these as its stdin, stdout and stderr; the reply will be its exit code."""
        await self._send((wire.EXEC, number, *msgspec.structs.astuple(command)), descriptors)

    async def kill(self, number: int) -> None:
        """Kill a command and what is still its own; its future then gets its exit code."""
        await self._send((wire.KILL, 0, number))

    async def open_directory(self, path: str, *, make: bool = False) -> int:
        """A descriptor of a directory as it is seen inside.

        Raises:
            OSError: what the environment's first process got when it tried.
        """
        number, future = self.new_request()
        await self._send((wire.OPEN, number, os.fsencode(path), make))
        return await future

    def shutdown(self) -> None:
        """Make the first process end, and with it the environment; `gone` is set when it has."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of the socket."""
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
        self._fail_pending()

    async def _send(self, request: tuple[Any, ...], descriptors: Sequence[int] = ()) -> None:
        await self.send(wire.pack_request(request), descriptors)

    async def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send a request, or the program that will read the requests."""
        rest, attached = memoryview(data), descriptors
        if not self._unsent:
            # Mostly the socket takes all of it at once.
            sent = self._send_some(rest, attached)
            if sent == len(rest):
                return
            if sent:
                rest, attached = rest[sent:], ()
        # Half a request would garble all that follow, and its descriptors must stay open until they are sent.
        self._unsent += 1
        sending = asyncio.ensure_future(self._send_rest(rest, attached))
        try:
            await asyncio.shield(sending)
        except asyncio.CancelledError:
            await asyncio.wait([sending])
            raise

    async def _send_rest(self, data: memoryview, descriptors: Sequence[int]) -> None:
        try:
            async with self._sending:
                sent = self._send_some(data, descriptors)
                while not sent:
                    await asyncio.sleep(0.001)  # full of requests that are being read right now
                    sent = self._send_some(data, descriptors)
                if sent < len(data):
                    await self._loop.sock_sendall(self._control, data[sent:])
        except OSError as error:
            raise ChannelClosed from error
        finally:
            self._unsent -= 1

    def _send_some(self, data: memoryview, descriptors: Sequence[int]) -> int:
        """How much of it was sent, with the descriptors at its start."""
        if self.closed.is_set():
            raise ChannelClosed
        try:
            return socket.send_fds(self._control, [data], list(descriptors))
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelClosed from error

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 65536, _MAX_DESCRIPTORS, _CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        if not data:
            self._loop.remove_reader(self._control.fileno())
            self._fail_pending()
            return
        self._received += data
        while len(self._received) >= wire.REPLY_BYTES:
            reply = wire.unpack_reply(bytes(self._received[: wire.REPLY_BYTES]))
            del self._received[: wire.REPLY_BYTES]
            self._handle_reply(*reply)

    def _handle_reply(self, number: int, kind: int, value: int) -> None:
        if kind == wire.READY:
            if not self.ready.done():
                self.ready.set_result(value)
            return
        result = self._descriptors.pop(0) if kind == wire.OPENED else value
        future = self._pending.pop(number, None)
        if future is None or future.done():
            if kind == wire.OPENED:
                os.close(result)
        elif kind == wire.FAILED:
            future.set_exception(OSError(value, os.strerror(value)))
        else:
            future.set_result(result)

    def _fail_pending(self) -> None:
        self.closed.set()
        for future in (self.ready, *self._pending.values()):
            if not future.done():
                future.set_exception(ChannelClosed())
                future.exception()  # not every one of them is waited for any more
        self._pending.clear()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
