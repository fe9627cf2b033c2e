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

from proctor.gateway.http.headers import add_header, response_head
from proctor.gateway.http.shared_buffer import SharedBufferProtocol, new_buffer

MAX_REQUEST_HEAD_BYTES: Final = 64 * 1024
MAX_BUFFERED_BYTES: Final = 1024 * 1024 * 1024
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINGER_SECONDS: Final = 5.0
_MAX_CONNECTIONS: Final = 4096
_HEADER_OVERHEAD: Final = len(": \r\n")
_NO_BODY: Final = frozenset({204, 304})


class HttpRequest(NamedTuple):
    """A whole request; header names are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


class HttpResponseWriter:
    """The way back to the client, for one request. A client that has left cancels whoever writes to it."""

    def __init__(self, connection: "_ServerConnection", *, with_body: bool, chunked: bool, keep_alive: bool) -> None:
        self.started = False
        self._connection = connection
        self._with_body = with_body
        self._chunked = chunked
        self._can_chunk = chunked
        self._keep_alive = keep_alive

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head. Without a `content-length` the body may be of any length."""
        self.started = True
        self._connection.release_request()
        sent = dict(headers)
        if status in _NO_BODY:
            self._with_body = False
        self._chunked = False
        if self._with_body and "content-length" not in sent:
            if self._can_chunk:
                self._chunked = True
                sent["transfer-encoding"] = "chunked"
            else:
                self._keep_alive = False
        if not self._keep_alive:
            sent["connection"] = "close"
        self._connection.transport.write(response_head(status, sent))

    async def write(self, data: bytes) -> None:
        """Send some of the body; waits while the client does not take what it was sent before."""
        if not data or not self._with_body:
            return
        transport = self._connection.transport
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        if self._connection.write_paused is not None:
            await self._connection.write_paused

    def end(self) -> None:
        """The answer is complete."""
        if self._chunked:
            self._connection.transport.write(b"0\r\n\r\n")
        if not self._keep_alive:
            self._connection.transport.close()

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole answer."""
        self.start(status, {**headers, "content-length": str(len(body))})
        if body and self._with_body:
            self._connection.transport.write(body)
        self.end()

    def abort(self, *, reset: bool) -> None:
        """End the connection without the rest of the answer."""
        transport = self._connection.transport
        if not reset:
            transport.close()
            return
        raw = transport.get_extra_info("socket")
        with suppress(OSError):  # a unix socket has no reset; it just ends
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


Handler = Callable[[HttpRequest, HttpResponseWriter], Coroutine[Any, Any, None]]


class HttpServer:
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
        max_body_bytes: int,
        max_connections: int | None = None,
        max_buffered_bytes: int = MAX_BUFFERED_BYTES,
    ) -> None:
        self.handler = handler
        self.max_body_bytes = max_body_bytes
        self.max_buffered_bytes = max_buffered_bytes
        self.buffered_bytes = 0
        self.buffer = new_buffer()
        self.connections: set[_ServerConnection] = set()
        self._max_connections = _connection_limit() if max_connections is None else max_connections
        self._listeners: list[asyncio.Server] = []
        self._closed = False

    async def listen(self, host: str, port: int, *, backlog: int) -> int:
        """Listen on an address; gives the port."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: _ServerConnection(self), host, port, backlog=backlog)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def listen_unix(self, path: str, *, backlog: int) -> None:
        """Listen on a unix socket."""
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_unix_server(lambda: _ServerConnection(self), path, backlog=backlog))

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

    def connection_opened(self, connection: "_ServerConnection") -> None:
        """A client is there."""
        self.connections.add(connection)
        if self._closed:
            connection.transport.abort()  # it was let in just before the door was shut
        elif len(self.connections) > self._max_connections:
            idle = (other for other in self.connections if other.task is None)
            longest = min(idle, key=lambda other: other.idle_since)
            self.connections.discard(longest)
            longest.transport.abort()

    def connection_closed(self, connection: "_ServerConnection") -> None:
        """A client is no more there."""
        self.connections.discard(connection)


class _ServerConnection(SharedBufferProtocol):
    """One client. Its requests are answered one after the other."""

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server.buffer)
        self.write_paused: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.idle_since = 0.0
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._pending: deque[tuple[HttpRequest, HttpResponseWriter]] = deque()
        self._body: bytes | bytearray = b""
        self._length = 0
        self._request_bytes = 0
        self._unframed_bytes = 0
        self._rejected = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.idle_since = self._loop.time()
        self._server.connection_opened(self)

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - all ends are alike
        self._server.connection_closed(self)
        self._discard_pending()
        self._rejected = True
        if self.task is not None:
            self.task.cancel()
        self.resume_writing()

    def release_request(self) -> None:
        """The request under way is needed no more."""
        self._server.buffered_bytes -= self._request_bytes
        self._request_bytes = 0

    def _discard_pending(self) -> None:
        """Let go of what was not begun to be answered."""
        self._server.buffered_bytes -= self._length + sum(len(request.body) for request, _ in self._pending)
        self._length = 0
        self._body = b""
        self._pending.clear()

    def pause_writing(self) -> None:
        if self.write_paused is None:
            self.write_paused = self._loop.create_future()

    def resume_writing(self) -> None:
        if self.write_paused is not None:
            if not self.write_paused.done():
                self.write_paused.set_result(None)
            self.write_paused = None
        if self.task is None:
            self._serve_next()

    def on_data(self, data: memoryview) -> None:
        if self._rejected:
            return
        self._unframed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reject(400)
        if self._unframed_bytes > MAX_REQUEST_HEAD_BYTES:
            self._reject(431)  # a head without an end, or what stands behind a body

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._trailers = False
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + _HEADER_OVERHEAD
        if self._head_bytes > MAX_REQUEST_HEAD_BYTES:
            self._reject(431)
        elif not self._trailers:
            add_header(self._headers, name, value)

    def on_headers_complete(self) -> None:
        self._trailers = True
        if self._rejected:
            return
        length = self._headers.get("content-length", "0")
        if self._parser.should_upgrade():
            self._reject(400)  # nothing else is spoken here
        elif int(length) > self._server.max_body_bytes:
            self._reject(413)
        elif self._headers.get("expect", "").lower() == "100-continue" and self.task is None:
            self.transport.write(_CONTINUE)

    def on_body(self, data: bytes) -> None:
        self._unframed_bytes = 0
        if self._rejected:
            return
        if not self._body:
            self._body = data
        else:
            # Not a list of pieces: those of a body that comes two by two bytes would take twenty times its length.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        self._length += len(data)
        self._server.buffered_bytes += len(data)
        if self._length > self._server.max_body_bytes:
            self._reject(413)
        elif self._server.buffered_bytes > self._server.max_buffered_bytes:
            self._reject(503)

    def on_message_complete(self) -> None:
        self._unframed_bytes = 0
        if self._rejected:
            return
        method = self._parser.get_method().decode("latin-1")
        request = HttpRequest(method, self._url.decode("latin-1"), self._headers, bytes(self._body))
        self._body = b""
        self._length = 0
        answer = HttpResponseWriter(
            self,
            with_body=method != "HEAD",
            chunked=self._parser.get_http_version() == "1.1",
            keep_alive=self._parser.should_keep_alive(),
        )
        if self.task is None:
            self._serve(request, answer)
        else:
            # One that asks before it was answered has to wait, and to be read no further.
            self._pending.append((request, answer))
            self.transport.pause_reading()

    def _serve(self, request: HttpRequest, response: HttpResponseWriter) -> None:
        self._request_bytes = len(request.body)
        self.task = self._loop.create_task(self._server.handler(request, response))
        self.task.add_done_callback(self._on_handler_done)

    def _on_handler_done(self, task: asyncio.Task[None]) -> None:
        self.task = None
        self.idle_since = self._loop.time()
        self.release_request()
        if task.cancelled():
            self.transport.abort()  # what is left of the answer is not the whole of it, and may be waited for for ever
        else:
            self._serve_next()

    def _serve_next(self) -> None:
        """Turn to the next request, unless the client has yet to take what it was answered before."""
        if self.write_paused is not None or self.transport.is_closing():
            self.transport.pause_reading()
        elif self._pending:
            self._serve(*self._pending.popleft())
        else:
            self.transport.resume_reading()

    def _reject(self, status: int) -> None:
        """Turn down what cannot be read, and whatever may follow it."""
        if self._rejected:
            return
        self._rejected = True
        self._discard_pending()
        if self.task is not None:
            self.transport.close()
            return
        self.transport.write(response_head(status, {"content-length": "0", "connection": "close"}))
        self.transport.write_eof()
        # To close while the client still sends would take the answer back from it.
        self._loop.call_later(_LINGER_SECONDS, self.transport.abort)


def _connection_limit() -> int:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    # An answer may take three: the client's, the provider's, and a file for what it says.
    return min(_MAX_CONNECTIONS, descriptors // 3)
