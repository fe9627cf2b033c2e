"""A TCP server of this host: each connection has a task, and all of them end with it."""

import asyncio
import socket
from abc import ABC, abstractmethod
from typing import Final

_MAX_BUFFERED: Final = 64 * 1024  # bytes that a reader holds, such as the head of a request


class StreamServer(ABC):
    """Serves a socket until it is closed.

    Attributes:
        url: where it listens; empty before it does.
    """

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._running: set[asyncio.Task[None]] = set()
        self.url = ""

    async def serve(self, listener: socket.socket) -> None:
        """Serve a socket that listens already."""
        address, port = listener.getsockname()[:2]
        self._server = await asyncio.start_server(self._accept, sock=listener, limit=_MAX_BUFFERED)
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

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._handle(reader, writer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    @abstractmethod
    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, to its end."""
