"""The server's side: requests are read whole, answers leave piece by piece."""

import asyncio
import resource
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

import httptools

from proctor.gateway.http.heads import add_header, response_head
from proctor.gateway.http.reading import Reading, new_buffer

LONGEST_HEAD: Final = 64 * 1024
MOST_HELD: Final = 1024 * 1024 * 1024
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINGER_SECONDS: Final = 5.0
_MOST_CONNECTIONS: Final = 4096
_AROUND_HEADER: Final = len(": \r\n")
_NO_BODY: Final = frozenset({204, 304})


class Request(NamedTuple):
    """A whole request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class Answer:
    """The way back to the client, for one request. A client that has left cancels whoever writes to it."""

    def __init__(self, connection: "_Connection", *, with_body: bool, chunks: bool, keep: bool) -> None:
        self.begun = False
        self._connection = connection
        self._with_body = with_body
        self._chunked = chunks
        self._can_chunk = chunks
        self._keep = keep

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head. Without a `content-length` the body may be of any length."""
        self.begun = True
        self._connection.let_go()
        sent = dict(headers)
        if status in _NO_BODY:
            self._with_body = False
        self._chunked = False
        if self._with_body and "content-length" not in sent:
            if self._can_chunk:
                self._chunked = True
                sent["transfer-encoding"] = "chunked"
            else:
                self._keep = False
        if not self._keep:
            sent["connection"] = "close"
        self._connection.transport.write(response_head(status, sent))

    async def write(self, data: bytes) -> None:
        """Send some of the body; waits while the client does not take what it was sent before."""
        if not data or not self._with_body:
            return
        transport = self._connection.transport
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        if self._connection.full is not None:
            await self._connection.full

    def end(self) -> None:
        """The answer is complete."""
        if self._chunked:
            self._connection.transport.write(b"0\r\n\r\n")
        if not self._keep:
            self._connection.transport.close()

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole answer."""
        self.begin(status, {**headers, "content-length": str(len(body))})
        if body and self._with_body:
            self._connection.transport.write(body)
        self.end()

    def hang_up(self, *, reset: bool) -> None:
        """End the connection without the rest of the answer."""
        transport = self._connection.transport
        if not reset:
            transport.close()
            return
        raw = transport.get_extra_info("socket")
        with suppress(OSError):  # a unix socket has no reset; it just ends
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


Handler = Callable[[Request, Answer], Coroutine[Any, Any, None]]


class Server:
    """Listens anywhere and hands every request to its handler, in a task of its own.

    Args:
        handler: answers, and raises nothing but `CancelledError`.
        longest_body: a longer one is refused with 413.
        most_connections: where there would be more, the one that has asked for nothing for the longest time is ended;
            as many as the process can have if not given.
        most_held: so many bytes of requests that nothing was answered to are kept; what would be more is refused
            with 503.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        longest_body: int,
        most_connections: int | None = None,
        most_held: int = MOST_HELD,
    ) -> None:
        self.handler = handler
        self.longest_body = longest_body
        self.most_held = most_held
        self.held = 0
        self.buffer = new_buffer()
        self.connections: set[_Connection] = set()
        self._most_connections = _affordable_connections() if most_connections is None else most_connections
        self._listeners: list[asyncio.Server] = []
        self._closed = False

    async def listen(self, host: str, port: int, *, backlog: int) -> int:
        """Listen on an address; gives the port."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: _Connection(self), host, port, backlog=backlog)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def listen_unix(self, path: str, *, backlog: int) -> None:
        """Listen on a unix socket."""
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_unix_server(lambda: _Connection(self), path, backlog=backlog))

    async def close(self) -> None:
        """Listen no more and end what is under way."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for listening in (place for listener in self._listeners for place in listener.sockets):
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)  # asyncio loses a connection that it accepted in the turn in which it stops to listen
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        for connection in list(self.connections):
            connection.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # one turn, in which connections learn of their end

    def opened(self, connection: "_Connection") -> None:
        """A client is there."""
        self.connections.add(connection)
        if self._closed:
            connection.transport.abort()  # it was let in just before the door was shut
        elif len(self.connections) > self._most_connections:
            idle = (other for other in self.connections if other.task is None)
            longest = min(idle, key=lambda other: other.since)
            self.connections.discard(longest)
            longest.transport.abort()

    def lost(self, connection: "_Connection") -> None:
        """A client is no more there."""
        self.connections.discard(connection)


class _Connection(Reading):
    """One client. Its requests are answered one after the other."""

    transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        super().__init__(server.buffer)
        self.full: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.since = 0.0
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, Answer]] = deque()
        self._body: bytes | bytearray = b""
        self._length = 0
        self._asked = 0
        self._unused = 0
        self._refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.since = self._loop.time()
        self._server.opened(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - all ends are alike
        self._server.lost(self)
        self._drop()
        self._refused = True
        if self.task is not None:
            self.task.cancel()
        self.resume_writing()

    def let_go(self) -> None:
        """The request under way is needed no more."""
        self._server.held -= self._asked
        self._asked = 0

    def _drop(self) -> None:
        """Let go of what was not begun to be answered."""
        self._server.held -= self._length + sum(len(request.body) for request, _ in self._waiting)
        self._length = 0
        self._body = b""
        self._waiting.clear()

    def pause_writing(self) -> None:
        if self.full is None:
            self.full = self._loop.create_future()

    def resume_writing(self) -> None:
        if self.full is not None:
            if not self.full.done():
                self.full.set_result(None)
            self.full = None
        if self.task is None:
            self._go_on()

    def read(self, data: memoryview) -> None:
        if self._refused:
            return
        self._unused += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._refuse(400)
        if self._unused > LONGEST_HEAD:
            self._refuse(431)  # a head without an end, or what stands behind a body

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._trailers = False
        self._in_head = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._in_head += len(name) + len(value) + _AROUND_HEADER
        if self._in_head > LONGEST_HEAD:
            self._refuse(431)
        elif not self._trailers:
            add_header(self._headers, name, value)

    def on_headers_complete(self) -> None:
        self._trailers = True
        if self._refused:
            return
        length = self._headers.get("content-length", "0")
        if self._parser.should_upgrade():
            self._refuse(400)  # nothing else is spoken here
        elif int(length) > self._server.longest_body:
            self._refuse(413)
        elif self._headers.get("expect", "").lower() == "100-continue" and self.task is None:
            self.transport.write(_CONTINUE)

    def on_body(self, data: bytes) -> None:
        self._unused = 0
        if self._refused:
            return
        if not self._body:
            self._body = data
        else:
            # Not a list of pieces: those of a body that comes two by two bytes would take twenty times its length.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        self._length += len(data)
        self._server.held += len(data)
        if self._length > self._server.longest_body:
            self._refuse(413)
        elif self._server.held > self._server.most_held:
            self._refuse(503)

    def on_message_complete(self) -> None:
        self._unused = 0
        if self._refused:
            return
        method = self._parser.get_method().decode("latin-1")
        request = Request(method, self._url.decode("latin-1"), self._headers, bytes(self._body))
        self._body = b""
        self._length = 0
        answer = Answer(
            self,
            with_body=method != "HEAD",
            chunks=self._parser.get_http_version() == "1.1",
            keep=self._parser.should_keep_alive(),
        )
        if self.task is None:
            self._start(request, answer)
        else:
            # One that asks before it was answered has to wait, and to be read no further.
            self._waiting.append((request, answer))
            self.transport.pause_reading()

    def _start(self, request: Request, answer: Answer) -> None:
        self._asked = len(request.body)
        self.task = self._loop.create_task(self._server.handler(request, answer))
        self.task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self.task = None
        self.since = self._loop.time()
        self.let_go()
        if task.cancelled():
            self.transport.abort()  # what is left of the answer is not the whole of it, and may be waited for for ever
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Turn to the next request, unless the client has yet to take what it was answered before."""
        if self.full is not None or self.transport.is_closing():
            self.transport.pause_reading()
        elif self._waiting:
            self._start(*self._waiting.popleft())
        else:
            self.transport.resume_reading()

    def _refuse(self, status: int) -> None:
        """Turn down what cannot be read, and whatever may follow it."""
        if self._refused:
            return
        self._refused = True
        self._drop()
        if self.task is not None:
            self.transport.close()
            return
        self.transport.write(response_head(status, {"content-length": "0", "connection": "close"}))
        self.transport.write_eof()
        # To close while the client still sends would take the answer back from it.
        self._loop.call_later(_LINGER_SECONDS, self.transport.abort)


def _affordable_connections() -> int:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    # An answer may take three: the client's, the provider's, and a file for what it says.
    return min(_MOST_CONNECTIONS, descriptors // 3)
