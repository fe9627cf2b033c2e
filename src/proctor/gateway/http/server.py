"""The HTTP server: requests are read whole, responses are sent in pieces."""

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
    """Writes the response to one request. When the client disconnects, the task that writes is cancelled."""

    def __init__(self, connection: "_ServerConnection", *, with_body: bool, chunked: bool, keep_alive: bool) -> None:
        self.started = False
        self._connection = connection
        self._with_body = with_body
        self._chunked = chunked
        self._can_chunk = chunked
        self._keep_alive = keep_alive
        self._head = b""

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
        # Sent with the first of the body where that is there at once: each send wakes the client.
        self._head = response_head(status, sent)
        self._connection.loop.call_soon(self._send, b"")

    async def write(self, data: bytes) -> None:
        """Send some of the body; waits while the client does not read what was sent before."""
        if not data or not self._with_body:
            return
        self._send(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        if self._connection.write_paused is not None:
            await self._connection.write_paused

    def end(self) -> None:
        """The response is complete."""
        self._send(b"0\r\n\r\n" if self._chunked else b"")
        if not self._keep_alive:
            self._connection.transport.close()

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a whole response."""
        self.start(status, {**headers, "content-length": str(len(body))})
        if body and self._with_body:
            self._send(body)
        self.end()

    def abort(self, *, reset: bool) -> None:
        """End the connection without the rest of the response."""
        self._send(b"")
        transport = self._connection.transport
        if not reset:
            transport.close()
            return
        raw = transport.get_extra_info("socket")
        with suppress(OSError):  # a unix socket has no reset; it is closed
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    def _send(self, data: bytes) -> None:
        head, self._head = self._head, b""
        if head or data:
            self._connection.transport.write(head + data if head else data)


Handler = Callable[[HttpRequest, HttpResponseWriter], Coroutine[Any, Any, None]]


class HttpServer:
    """Listens on any number of addresses and calls its handler for every request, in a task of its own.

    Args:
        handler: responds, and raises nothing but `CancelledError`.
        max_body_bytes: a longer body is refused with 413.
        max_connections: beyond it, the connection that has been idle for the longest time is closed; by default, as
            many as the process can have.
        max_buffered_bytes: of all requests without a response yet; what exceeds it is refused with 503.
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
        """Listen on an address; returns the port."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: _ServerConnection(self), host, port, backlog=backlog)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def listen_unix(self, path: str, *, backlog: int) -> None:
        """Listen on a unix socket."""
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_unix_server(lambda: _ServerConnection(self), path, backlog=backlog))

    async def close(self) -> None:
        """Stop listening, and cancel the requests that are being handled."""
        self._closed = True
        loop = asyncio.get_running_loop()
        for listening in (sock for listener in self._listeners for sock in listener.sockets):
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)  # asyncio loses a connection accepted in the iteration in which it stops listening
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        for connection in list(self.connections):
            connection.transport.abort()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # one iteration, in which connections are notified

    def connection_opened(self, connection: "_ServerConnection") -> None:
        """A client has connected."""
        self.connections.add(connection)
        if self._closed:
            connection.transport.abort()  # it was accepted just before closing
        elif len(self.connections) > self._max_connections:
            idle = (other for other in self.connections if other.task is None)
            oldest = min(idle, key=lambda other: other.idle_since)
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_closed(self, connection: "_ServerConnection") -> None:
        """A client has disconnected."""
        self.connections.discard(connection)


class _ServerConnection(SharedBufferProtocol):
    """One client. Its requests are handled one after the other."""

    transport: asyncio.Transport

    def __init__(self, server: HttpServer) -> None:
        super().__init__(server.buffer)
        self.write_paused: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.idle_since = 0.0
        self._server = server
        self.loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._pending: deque[tuple[HttpRequest, HttpResponseWriter]] = deque()
        self._body: bytes | bytearray = b""
        self._length = 0
        self._request_bytes = 0
        self._unframed_bytes = 0
        self._rejected = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.idle_since = self.loop.time()
        self._server.connection_opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connection_closed(self)
        self._discard_pending()
        self._rejected = True
        if self.task is not None:
            self.task.cancel()
        self.resume_writing()

    def release_request(self) -> None:
        """The current request is no longer needed."""
        self._server.buffered_bytes -= self._request_bytes
        self._request_bytes = 0

    def _discard_pending(self) -> None:
        """Drop the requests that are not being handled yet."""
        self._server.buffered_bytes -= self._length + sum(len(request.body) for request, _ in self._pending)
        self._length = 0
        self._body = b""
        self._pending.clear()

    def pause_writing(self) -> None:
        if self.write_paused is None:
            self.write_paused = self.loop.create_future()

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
            self._reject(431)  # an endless head, or endless trailers

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
            # No other protocol is supported; programs that can do without a WebSocket do so after this status.
            self._reject(426 if self._headers.get("upgrade", "").lower() == "websocket" else 400)
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
            # Not a list of pieces: a body that arrives in pieces of two bytes would take twenty times its length.
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
        response = HttpResponseWriter(
            self,
            with_body=method != "HEAD",
            chunked=self._parser.get_http_version() == "1.1",
            keep_alive=self._parser.should_keep_alive(),
        )
        if self.task is None:
            self._serve(request, response)
        else:
            # A pipelined request waits for the response to the one before, and nothing more is read until then.
            self._pending.append((request, response))
            self.transport.pause_reading()

    def _serve(self, request: HttpRequest, response: HttpResponseWriter) -> None:
        self._request_bytes = len(request.body)
        self.task = self.loop.create_task(self._server.handler(request, response))
        self.task.add_done_callback(self._on_handler_done)

    def _on_handler_done(self, task: asyncio.Task[None]) -> None:
        self.task = None
        self.idle_since = self.loop.time()
        self.release_request()
        if task.cancelled():
            self.transport.abort()  # the response is incomplete, and the client may wait for the rest for ever
        else:
            self._serve_next()

    def _serve_next(self) -> None:
        """Handle the next request, unless the client has not read the previous response yet."""
        if self.write_paused is not None or self.transport.is_closing():
            self.transport.pause_reading()
        elif self._pending:
            self._serve(*self._pending.popleft())
        else:
            self.transport.resume_reading()

    def _reject(self, status: int) -> None:
        """Refuse a request that cannot be read, and everything after it."""
        if self._rejected:
            return
        self._rejected = True
        self._discard_pending()
        if self.task is not None:
            self.transport.close()
            return
        self.transport.write(response_head(status, {"content-length": "0", "connection": "close"}))
        self.transport.write_eof()
        # Closing while the client still sends would reset the connection before it has read the response.
        self.loop.call_later(_LINGER_SECONDS, self.transport.abort)


def _connection_limit() -> int:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if descriptors == resource.RLIM_INFINITY:
        return _MAX_CONNECTIONS
    # A response may take three: the client's, the provider's, and a temporary file.
    return min(_MAX_CONNECTIONS, descriptors // 3)
