"""The HTTP client: a pool of connections to one host, responses read as they arrive."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from proctor.gateway.http.headers import add_header, request_head
from proctor.gateway.http.proxy import Proxy, proxy_for
from proctor.gateway.http.shared_buffer import SharedBufferProtocol, new_buffer

# An idle connection is not used for longer: a proxy or firewall on the way may have dropped it.
KEEP_ALIVE_SECONDS: Final = 60.0
CONNECT_TIMEOUT_SECONDS: Final = 30.0
MAX_RESPONSE_HEAD_BYTES: Final = 256 * 1024
# A pooled connection that ends this soon after a request, without a byte, was closed before the request arrived.
STALE_CONNECTION_SECONDS: Final = 1.0
# Up to this much of a response is buffered for a slow reader; then reading from the connection pauses.
_MAX_BUFFERED_BYTES: Final = 256 * 1024
# What the system may hold of a response that was not read: so many chunks at most, each there at once.
_MAX_UNREAD_CHUNKS: Final = 32
_UNREAD_SECONDS: Final = 0.01
_FIRST_FINAL_STATUS: Final = 200
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_GZIP_START: Final = b"\x1f"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class HttpConnectionError(Exception):
    """The connection failed, or what was received is not HTTP."""


class NotConnectedError(HttpConnectionError):
    """There was no connection, so nothing was sent."""


class _StaleConnectionError(HttpConnectionError):
    """The server closed the connection while the request was on its way."""


class HttpClient:
    """A client for one host.

    Args:
        base_url: the address; the path of a request is appended.
        idle_seconds: after this long without an expected byte, the connection counts as broken.
        environ: may name a proxy.

    Raises:
        ValueError: the address, or the proxy's, is invalid.
    """

    def __init__(self, base_url: str, *, idle_seconds: float, environ: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f"{base_url!r} does not begin with http:// or https:// and a host's name")
        self._host = parts.hostname
        self._port = parts.port or _DEFAULT_PORTS[parts.scheme]
        self._encrypted = parts.scheme == "https"
        self._tls: ssl.SSLContext | None = None
        self._host_header = parts.netloc.rpartition("@")[2]
        self._path = parts.path.rstrip("/")
        self._proxy = proxy_for(parts.scheme, self._host, environ or {})
        self._idle_seconds = idle_seconds
        self.buffer = new_buffer()
        self._idle: list[_ClientConnection] = []
        self._connections: set[_ClientConnection] = set()

    async def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        before_resend: Callable[[], Awaitable[None]] | None = None,
    ) -> "HttpResponse":
        """Send a request; returns the response as soon as its head has arrived.

        A connection from the pool that ends at that moment is replaced by a new one, and the request sent again.

        Raises:
            HttpConnectionError: there is no connection, or it broke.
        """
        sent = {"host": self._host_header, **headers}
        if body or method not in {"GET", "HEAD"}:
            sent["content-length"] = str(len(body))
        target = self._path + path
        if not target.startswith("/"):
            target = f"/{target}"
        if self._proxy is not None and not self._encrypted:
            sent |= self._proxy.headers
            target = f"http://{self._host_header}{target}"
        head = request_head(method, target, sent)
        with_body = method != "HEAD"
        if (pooled := self._idle_connection()) is not None:
            try:
                return await pooled.send_request(head, body, with_body=with_body)
            except _StaleConnectionError:
                if before_resend is not None:
                    await before_resend()
        return await (await self._connect()).send_request(head, body, with_body=with_body)

    async def close(self) -> None:
        """Close all connections."""
        for connection in list(self._connections):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # one iteration, in which connections are notified

    def _idle_connection(self) -> "_ClientConnection | None":
        self._close_expired()
        while self._idle:
            connection = self._idle.pop()
            if connection.alive:
                return connection
        return None

    async def _connect(self) -> "_ClientConnection":
        if self._encrypted and self._tls is None:
            self._tls = _ssl_context()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                if self._proxy is not None and self._tls is not None:
                    return await self._connect_through_proxy(self._proxy, self._tls)
                host, port = (self._host, self._port) if self._proxy is None else self._proxy[:2]
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _ClientConnection(self, self._idle_seconds),
                    host,
                    port,
                    ssl=self._tls,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError as error:
            raise NotConnectedError(f"no connection to {self._host_header} in {CONNECT_TIMEOUT_SECONDS:g} s") from error
        except OSError as error:
            raise NotConnectedError(f"no connection to {self._host_header}: {error}") from error
        return connection

    async def _connect_through_proxy(self, proxy: Proxy, tls: ssl.SSLContext) -> "_ClientConnection":
        tunnel = await proxy.tunnel(self._host, self._port)
        connection = _ClientConnection(self, self._idle_seconds)
        try:
            transport = await asyncio.get_running_loop().start_tls(tunnel, connection, tls, server_hostname=self._host)
        except BaseException:
            tunnel.abort()
            raise
        if transport is None:
            raise ConnectionError("the proxy ended the connection")
        connection.connection_made(transport)
        return connection

    def connection_opened(self, connection: "_ClientConnection") -> None:
        """A connection was made."""
        self._connections.add(connection)

    def connection_closed(self, connection: "_ClientConnection") -> None:
        """A connection was lost."""
        self._connections.discard(connection)

    def return_to_pool(self, connection: "_ClientConnection") -> None:
        """A connection can be used again."""
        self._idle.append(connection)
        self._close_expired()

    def _close_expired(self) -> None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_SECONDS
        while self._idle and self._idle[0].last_active < oldest:
            self._idle.pop(0).abort()


class HttpResponse:
    """A response, of which at least the head has arrived when a caller gets it; header names are in lower case."""

    def __init__(self, connection: "_ClientConnection", *, with_body: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.with_body = with_body
        self.complete = False
        self.error: HttpConnectionError | None = None
        self._connection = connection
        self._pending: list[bytes] = []
        self._buffered = 0
        self._waiter: asyncio.Future[None] | None = None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body as it arrives, decompressed.

        Raises:
            HttpConnectionError: it broke off, or cannot be decompressed.
        """
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding == "identity":
            while data := await self._read():
                yield data
            return
        if encoding not in {"gzip", "x-gzip", "deflate"}:
            raise HttpConnectionError(f"the response is encoded as {encoding}, which was not requested")
        unpacker = _BodyUnpacker()
        try:
            while data := await self._read():
                for plain in unpacker.feed(data):
                    yield plain
        except zlib.error as error:
            raise HttpConnectionError(f"the response cannot be decompressed: {error}") from error
        if self.with_body and not unpacker.complete:
            raise HttpConnectionError("the response ended too early")

    async def unread_chunks(self) -> AsyncGenerator[bytes, None]:
        """What of the body was sent and not read, as far as it has arrived at this machine; of a plain body only."""
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            return
        for _ in range(_MAX_UNREAD_CHUNKS):
            if not self._pending and not self.complete:
                # On a busy machine the time may be over before what is there was read: that counts, not the time.
                with suppress(TimeoutError, HttpConnectionError):
                    async with asyncio.timeout(_UNREAD_SECONDS):
                        await self._wait_for_more()
            if not self._pending:
                return
            yield await self._read()

    def close(self) -> None:
        """Done with it: a connection on which more of it would arrive is aborted."""
        if not self.complete:
            self._connection.abort()

    @property
    def is_awaited(self) -> bool:
        """Whether a reader is waiting for more of it."""
        return self._waiter is not None

    async def wait_for_head(self) -> None:
        """Wait for the head."""
        while not self.status:
            await self._wait_for_more()

    async def _read(self) -> bytes:
        while not self._pending:
            if self.complete:
                return b""
            await self._wait_for_more()
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending.clear()
        if self._buffered > _MAX_BUFFERED_BYTES and not self.complete:
            self._connection.set_paused(paused=False)
        self._buffered = 0
        return data

    async def _wait_for_more(self) -> None:
        if self.error is not None:
            raise self.error
        self._waiter = self._connection.new_waiter()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def add(self, data: bytes) -> None:
        """Some of the body has arrived."""
        self._pending.append(data)
        self._buffered += len(data)
        if self._buffered > _MAX_BUFFERED_BYTES:
            self._connection.set_paused(paused=True)
        self.wake()

    def fail(self, error: HttpConnectionError) -> None:
        """The rest will not arrive."""
        if not self.complete and self.error is None:
            self.error = error
        self.wake()

    def wake(self) -> None:
        """Wake the waiting reader."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _BodyUnpacker:
    """Decompresses a body, which may consist of several members."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP_OR_ZLIB)

    @property
    def complete(self) -> bool:
        return self._member.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes make, in pieces of limited length."""
        while True:
            plain = self._member.decompress(data, _MAX_BUFFERED_BYTES)
            if plain:
                yield plain
            data = self._member.unconsumed_tail
            if self._member.unused_data[:1] == _GZIP_START:
                data, self._member = self._member.unused_data, zlib.decompressobj(_GZIP_OR_ZLIB)
            elif not plain:
                return


class _ClientConnection(SharedBufferProtocol):
    """One connection, with at most one response at a time."""

    def __init__(self, client: HttpClient, idle_seconds: float) -> None:
        super().__init__(client.buffer)
        self.alive = False
        self.last_active = 0.0
        self._client = client
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._current: HttpResponse | None = None

    async def send_request(self, head: bytes, body: bytes, *, with_body: bool) -> HttpResponse:
        """Send a request and wait for the head of its response."""
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._unframed_bytes = 0
        self._current = response = HttpResponse(self, with_body=with_body)
        self._sent_at = self._loop.time()
        self._transport.writelines((head, body) if body else (head,))
        try:
            await response.wait_for_head()
        except BaseException:
            self.abort()
            raise
        return response

    def abort(self) -> None:
        """Close the connection at once."""
        self.alive = False
        self._transport.abort()

    def set_paused(self, *, paused: bool) -> None:
        """Stop reading, or continue."""
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def new_waiter(self) -> asyncio.Future[None]:
        """A future for the next bytes; it fails when none arrive within `idle_seconds`."""
        self.last_active = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self.last_active + self._idle_seconds, self._check_idle)
        return self._loop.create_future()

    def _check_idle(self) -> None:
        """Fail when nothing has arrived for too long while a reader was waiting."""
        self._timer = None
        if self._current is None or not self._current.is_awaited:
            return
        if self._loop.time() >= self.last_active + self._idle_seconds:
            self._fail(HttpConnectionError(f"nothing was received for {self._idle_seconds:g} s"))
        else:
            self._timer = self._loop.call_at(self.last_active + self._idle_seconds, self._check_idle)

    def _fail(self, error: HttpConnectionError) -> None:
        if self._current is not None:
            self._current.fail(error)
            self._current = None
        self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.alive = True
        self._client.connection_opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._client.connection_closed(self)
        if (response := self._current) is None:
            return
        framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        if response.status and not framed and error is None:
            self._end(keep_alive=False)  # without a length, the end of the connection is the end of the body
            return
        what = "the response broke off" if response.status else "the connection ended without a response"
        crossed = (
            not self._unframed_bytes
            and not response.status
            and self._loop.time() < self._sent_at + STALE_CONNECTION_SECONDS
        )
        self._fail((_StaleConnectionError if crossed else HttpConnectionError)(f"{what}: {error}" if error else what))

    def on_data(self, data: memoryview) -> None:
        response = self._current
        if response is None:
            self.abort()  # bytes without a request
            return
        self._unframed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(HttpConnectionError("the response changes the protocol, which was not requested"))
        except httptools.HttpParserError as error:
            self._fail(HttpConnectionError(f"the response is not HTTP: {error}"))
        if self._unframed_bytes > MAX_RESPONSE_HEAD_BYTES and self._current is response:
            self._fail(HttpConnectionError("the headers of the response are too long"))

    def on_message_begin(self) -> None:
        if self._current is None:
            self.abort()  # more responses than requests
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        add_header(self._headers, name, value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._current is None or status < _FIRST_FINAL_STATUS:
            return  # informational; the final response is still to come
        # Trailers arrive through the same callback, before or after these headers have been read.
        self._current.headers, self._headers = self._headers, {}
        self._current.status = status
        self._current.wake()
        if not self._current.with_body:
            self._end(keep_alive=False)  # its head may announce a body that never arrives: not reusable

    def on_body(self, data: bytes) -> None:
        self._unframed_bytes = 0
        if self._current is not None:
            self._current.add(data)

    def on_message_complete(self) -> None:
        if self._current is not None and self._current.status:
            self._end(keep_alive=self._parser.should_keep_alive())

    def _end(self, *, keep_alive: bool) -> None:
        if self._current is not None:
            self._current.complete = True
            self._current.wake()
            self._current = None
        if self._transport.get_write_buffer_size():
            self.abort()  # it responded before it had received all of the request, and may not read the rest
        elif keep_alive and self.alive:
            self._transport.resume_reading()
            self.last_active = self._loop.time()
            self._client.return_to_pool(self)
        else:
            self.alive = False
            self._transport.close()


def _ssl_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
