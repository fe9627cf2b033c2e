"""Carries TCP connections that reach this host from its containers to the unix socket of the model gateway."""

import asyncio
import socket
from contextlib import suppress
from pathlib import Path
from typing import Final

from proctor.core.errors import InfrastructureError
from proctor.environments.stream_server import StreamServer

_BACKLOG: Final = 128
_CHUNK: Final = 64 * 1024


class HostRelay(StreamServer):
    """Listens, once its address is set, and connects each caller with the unix socket at `path`."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

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

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _bridge(reader, writer, self._path)


async def _bridge(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: Path) -> None:
    try:
        far = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()
        return
    await join_streams((reader, writer), far)


async def join_streams(
    near: tuple[asyncio.StreamReader, asyncio.StreamWriter], far: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Copy from each side to the other until both have ended, and close both."""
    (reader, writer), (far_reader, far_writer) = near, far
    try:
        async with asyncio.TaskGroup() as both:
            both.create_task(_copy_stream(reader, far_writer))
            both.create_task(_copy_stream(far_reader, writer))
    except* OSError:
        pass  # one side has gone; the other is closed below
    finally:
        for one in (writer, far_writer):
            one.close()
            with suppress(OSError):
                await one.wait_closed()


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until the reader ends, and pass its end on."""
    while piece := await reader.read(_CHUNK):
        writer.write(piece)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
