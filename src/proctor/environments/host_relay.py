"""Carries TCP connections that reach this host from its containers to the unix socket of the model gateway."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from proctor.core.errors import InfrastructureError

_BACKLOG: Final = 128
_CHUNK: Final = 64 * 1024


class HostRelay:
    """Listens, once its address is set, and connects each caller with the unix socket at `path`.

    Attributes:
        url: where it answers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()
        self.url: str | None = None

    async def listen(self, address: str) -> None:
        """Listen on a free port of an address of this host.

        Raises:
            InfrastructureError: that address is not this machine's.
        """
        try:
            listener = socket.create_server((address, 0), backlog=_BACKLOG)
        except OSError as error:
            raise InfrastructureError(
                f"containers cannot reach the model gateway through {address}: {error.strerror}",
                fix="use a Docker engine on this machine",
            ) from error
        await self.serve(listener)

    async def serve(self, listener: socket.socket) -> None:
        """Serve a socket that listens already."""
        address, port = listener.getsockname()
        self._server = await asyncio.start_server(self._serve, sock=listener)
        self.url = f"http://{address}:{port}"

    async def close(self) -> None:
        """Stop listening, and cut what is connected."""
        if self._server is None:
            return
        self._server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(_bridge(reader, writer, self._path))
        self._running.add(task)
        task.add_done_callback(self._running.discard)


async def _bridge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: Path) -> None:
    try:
        far_reader, far_writer = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()
        return
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(copy_stream(reader, far_writer))
            both.create_task(copy_stream(far_reader, writer))
    except* OSError:
        pass  # one side has gone; the other is closed below
    finally:
        for one in (writer, far_writer):
            one.close()
            with suppress(OSError):
                await one.wait_closed()


async def copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the reader ends, and pass its end on."""
    while piece := await reader.read(_CHUNK):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
