"""The client's side: one place to ask, connections that are kept, answers read as they come."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from proctor.gateway.http.headers import add_header, request_head
from proctor.gateway.http.proxy import Proxy, proxy_for
from proctor.gateway.http.shared_buffer import SharedBufferProtocol, new_buffer

# An idle connection is not trusted for longer: whatever stands between here and there may have forgotten it.
KEEP_ALIVE_SECONDS: Final = 60.0
CONNECT_TIMEOUT_SECONDS: Final = 30.0
MAX_RESPONSE_HEAD_BYTES: Final = 256 * 1024
# A connection that was kept and ends so soon after a request, without a word, was ended before the request was there.
STALE_CONNECTION_SECONDS: Final = 1.0
# So much of an answer is held for a reader that is slow; then the other side has to wait.
_MAX_BUFFERED_BYTES: Final = 256 * 1024
_FIRST_FINAL_STATUS: Final = 200
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class HttpConnectionError(Exception):
    """The connection failed, or what came through it is not HTTP."""


class _StaleConnectionError(HttpConnectionError):
    """The other side ended the connection while the request was on its way."""


class HttpClient:
    """Asks one place.

    Args:
        base_url: where it is; the path of a request is added behind.
        idle_seconds: after so long without a byte, where one is waited for, an answer counts as broken.
        environ: may name a proxy.

    Raises:
        ValueError: the address is none, or the proxy's.
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

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> "HttpResponse":
        """Ask; gives the answer as soon as its head is there.

        Raises:
            Broken: there is no connection, or none that holds.
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
        if (kept := self._idle_connection()) is not None:
            with suppress(_StaleConnectionError):
                return await kept.send_request(head, body, with_body=with_body)
        return await (await self._connect()).send_request(head, body, with_body=with_body)

    async def close(self) -> None:
        """End all connections."""
        for connection in list(self._connections):
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # one turn, in which connections learn of their end

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
            raise HttpConnectionError(
                f"no connection to {self._host_header} in {CONNECT_TIMEOUT_SECONDS:g} s"
            ) from error
        except OSError as error:
            raise HttpConnectionError(f"no connection to {self._host_header}: {error}") from error
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
        """A connection stands."""
        self._connections.add(connection)

    def connection_closed(self, connection: "_ClientConnection") -> None:
        """A connection is no more."""
        self._connections.discard(connection)

    def return_to_pool(self, connection: "_ClientConnection") -> None:
        """A connection may be used again."""
        self._idle.append(connection)
        self._close_expired()

    def _close_expired(self) -> None:
        oldest = asyncio.get_running_loop().time() - KEEP_ALIVE_SECONDS
        while self._idle and self._idle[0].last_active < oldest:
            self._idle.pop(0).abort()


class HttpResponse:
    """An answer, of which at least the head has come when it is handed out; header names are in lower case."""

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
        """The body as it comes, readable whatever it was packed with.

        Raises:
            Broken: it broke off, or cannot be read.
        """
        packed = self.headers.get("content-encoding", "identity").lower()
        if packed == "identity":
            while data := await self._read():
                yield data
            return
        if packed not in {"gzip", "x-gzip", "deflate"}:
            raise HttpConnectionError(f"the answer is packed as {packed}, which was not asked for")
        unpack = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            while data := await self._read():
                while plain := unpack.decompress(data, _MAX_BUFFERED_BYTES):
                    yield plain
                    data = unpack.unconsumed_tail
        except zlib.error as error:
            raise HttpConnectionError(f"the answer cannot be unpacked: {error}") from error
        if self.with_body and not unpack.eof:
            raise HttpConnectionError("the answer ended too early")

    def close(self) -> None:
        """Done with it: a connection on which more of it would come is ended."""
        if not self.complete:
            self._connection.abort()

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for more of it now."""
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
        """Some of the body has come."""
        self._pending.append(data)
        self._buffered += len(data)
        if self._buffered > _MAX_BUFFERED_BYTES:
            self._connection.set_paused(paused=True)
        self.wake()

    def fail(self, error: HttpConnectionError) -> None:
        """No more will come, though more was to come."""
        if not self.complete and self.error is None:
            self.error = error
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _ClientConnection(SharedBufferProtocol):
    """One connection, with at most one answer under way."""

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
        """Send a request and wait for the head of its answer."""
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
        """End the connection at once."""
        self.alive = False
        self._transport.abort()

    def set_paused(self, *, paused: bool) -> None:
        """Have the other side wait, or go on."""
        if paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def new_waiter(self) -> asyncio.Future[None]:
        """Something to wait on; the wait must not last longer than the other side may be silent."""
        self.last_active = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self.last_active + self._idle_seconds, self._check_idle)
        return self._loop.create_future()

    def _check_idle(self) -> None:
        """Has it been silent for too long? Only time in which somebody waited counts."""
        self._timer = None
        if self._current is None or not self._current.is_awaited:
            return
        if self._loop.time() >= self.last_active + self._idle_seconds:
            self._fail(HttpConnectionError(f"nothing came for {self._idle_seconds:g} s"))
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
            self._end(keep_alive=False)  # where nothing tells the length, the end of the connection is the end
            return
        what = "the answer broke off" if response.status else "the connection ended without an answer"
        crossed = (
            not self._unframed_bytes
            and not response.status
            and self._loop.time() < self._sent_at + STALE_CONNECTION_SECONDS
        )
        self._fail((_StaleConnectionError if crossed else HttpConnectionError)(f"{what}: {error}" if error else what))

    def on_data(self, data: memoryview) -> None:
        response = self._current
        if response is None:
            self.abort()  # nobody asked
            return
        self._unframed_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(HttpConnectionError("the answer changes the protocol, which was not asked for"))
        except httptools.HttpParserError as error:
            self._fail(HttpConnectionError(f"the answer is not HTTP: {error}"))
        if self._unframed_bytes > MAX_RESPONSE_HEAD_BYTES and self._current is response:
            self._fail(HttpConnectionError("the headers of the answer have no end"))

    def on_message_begin(self) -> None:
        if self._current is None:
            self.abort()  # one more answer than there were requests
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        add_header(self._headers, name, value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._current is None or status < _FIRST_FINAL_STATUS:
            return  # told on the way; the answer itself is still to come
        # What stands behind the body looks like headers too, and comes when these have been looked at, or not yet.
        self._current.headers, self._headers = self._headers, {}
        self._current.status = status
        self._current.wake()
        if not self._current.with_body:
            self._end(keep_alive=False)  # its head may announce a body that never comes: not fit to be used again

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
            self.abort()  # answered before it had heard all: whether it listens to the rest, nobody knows
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
