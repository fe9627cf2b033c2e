"""The client's side: one place to ask, connections that are kept, answers read as they come."""

import asyncio
import ssl
import zlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from proctor.gateway.http.heads import add_header, request_head
from proctor.gateway.http.proxy import Proxy, proxy_for
from proctor.gateway.http.reading import Reading, new_buffer

# An idle connection is not trusted for longer: whatever stands between here and there may have forgotten it.
KEPT_SECONDS: Final = 60.0
CONNECT_SECONDS: Final = 30.0
LONGEST_HEAD: Final = 256 * 1024
# A connection that was kept and ends so soon after a request, without a word, was ended before the request was there.
CROSSING_SECONDS: Final = 1.0
# So much of an answer is held for a reader that is slow; then the other side has to wait.
_HELD: Final = 256 * 1024
_FIRST_FINAL: Final = 200
_GZIP_OR_ZLIB: Final = 32 + zlib.MAX_WBITS
_PORTS: Final = {"http": 80, "https": 443}


class Broken(Exception):
    """The connection failed, or what came through it is not HTTP."""


class _Crossed(Broken):
    """The other side ended the connection while the request was on its way."""


class Client:
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
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"{base_url!r} does not begin with http:// or https:// and a host's name")
        self._host = parts.hostname
        self._port = parts.port or _PORTS[parts.scheme]
        self._encrypted = parts.scheme == "https"
        self._trusted: ssl.SSLContext | None = None
        self._named = parts.netloc.rpartition("@")[2]
        self._path = parts.path.rstrip("/")
        self._proxy = proxy_for(parts.scheme, self._host, environ or {})
        self._idle_seconds = idle_seconds
        self.buffer = new_buffer()
        self._free: list[_Connection] = []
        self._all: set[_Connection] = set()

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> "Response":
        """Ask; gives the answer as soon as its head is there.

        Raises:
            Broken: there is no connection, or none that holds.
        """
        sent = {"host": self._named, **headers}
        if body or method not in {"GET", "HEAD"}:
            sent["content-length"] = str(len(body))
        target = self._path + path
        if not target.startswith("/"):
            target = f"/{target}"
        if self._proxy is not None and not self._encrypted:
            sent |= self._proxy.headers
            target = f"http://{self._named}{target}"
        head = request_head(method, target, sent)
        with_body = method != "HEAD"
        if (kept := self._kept()) is not None:
            with suppress(_Crossed):
                return await kept.ask(head, body, with_body=with_body)
        return await (await self._connect()).ask(head, body, with_body=with_body)

    async def close(self) -> None:
        """End all connections."""
        for connection in list(self._all):
            connection.abort()
        self._free.clear()
        await asyncio.sleep(0)  # one turn, in which connections learn of their end

    def _kept(self) -> "_Connection | None":
        self._forget_old()
        while self._free:
            connection = self._free.pop()
            if connection.alive:
                return connection
        return None

    async def _connect(self) -> "_Connection":
        if self._encrypted and self._trusted is None:
            self._trusted = _trust()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._proxy is not None and self._trusted is not None:
                    return await self._through(self._proxy, self._trusted)
                host, port = (self._host, self._port) if self._proxy is None else self._proxy[:2]
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(self, self._idle_seconds),
                    host,
                    port,
                    ssl=self._trusted,
                    happy_eyeballs_delay=0.25,
                )
        except TimeoutError as error:
            raise Broken(f"no connection to {self._named} in {CONNECT_SECONDS:g} s") from error
        except OSError as error:
            raise Broken(f"no connection to {self._named}: {error}") from error
        return connection

    async def _through(self, proxy: Proxy, trusted: ssl.SSLContext) -> "_Connection":
        tunnel = await proxy.tunnel(self._host, self._port)
        connection = _Connection(self, self._idle_seconds)
        try:
            transport = await asyncio.get_running_loop().start_tls(
                tunnel, connection, trusted, server_hostname=self._host
            )
        except BaseException:
            tunnel.abort()
            raise
        if transport is None:
            raise ConnectionError("the proxy ended the connection")
        connection.connection_made(transport)
        return connection

    def opened(self, connection: "_Connection") -> None:
        """A connection stands."""
        self._all.add(connection)

    def lost(self, connection: "_Connection") -> None:
        """A connection is no more."""
        self._all.discard(connection)

    def keep(self, connection: "_Connection") -> None:
        """A connection may be used again."""
        self._free.append(connection)
        self._forget_old()

    def _forget_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        while self._free and self._free[0].since < oldest:
            self._free.pop(0).abort()


class Response:
    """An answer, of which at least the head has come when it is handed out; header names are in lower case."""

    def __init__(self, connection: "_Connection", *, with_body: bool) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.with_body = with_body
        self.complete = False
        self.error: Broken | None = None
        self._connection = connection
        self._pending: list[bytes] = []
        self._held = 0
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
            raise Broken(f"the answer is packed as {packed}, which was not asked for")
        unpack = zlib.decompressobj(_GZIP_OR_ZLIB)
        try:
            while data := await self._read():
                while plain := unpack.decompress(data, _HELD):
                    yield plain
                    data = unpack.unconsumed_tail
        except zlib.error as error:
            raise Broken(f"the answer cannot be unpacked: {error}") from error
        if self.with_body and not unpack.eof:
            raise Broken("the answer ended too early")

    def close(self) -> None:
        """Done with it: a connection on which more of it would come is ended."""
        if not self.complete:
            self._connection.abort()

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits for more of it now."""
        return self._waiter is not None

    async def begun(self) -> None:
        """Wait for the head."""
        while not self.status:
            await self._more()

    async def _read(self) -> bytes:
        while not self._pending:
            if self.complete:
                return b""
            await self._more()
        data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending.clear()
        if self._held > _HELD and not self.complete:
            self._connection.hold(held=False)
        self._held = 0
        return data

    async def _more(self) -> None:
        if self.error is not None:
            raise self.error
        self._waiter = self._connection.expect()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def add(self, data: bytes) -> None:
        """Some of the body has come."""
        self._pending.append(data)
        self._held += len(data)
        if self._held > _HELD:
            self._connection.hold(held=True)
        self.wake()

    def fail(self, error: Broken) -> None:
        """No more will come, though more was to come."""
        if not self.complete and self.error is None:
            self.error = error
        self.wake()

    def wake(self) -> None:
        """Let whoever waits look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Connection(Reading):
    """One connection, with at most one answer under way."""

    def __init__(self, client: Client, idle_seconds: float) -> None:
        super().__init__(client.buffer)
        self.alive = False
        self.since = 0.0
        self._client = client
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._current: Response | None = None

    async def ask(self, head: bytes, body: bytes, *, with_body: bool) -> Response:
        """Send a request and wait for the head of its answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._unused = 0
        self._current = response = Response(self, with_body=with_body)
        self._asked = self._loop.time()
        self._transport.writelines((head, body) if body else (head,))
        try:
            await response.begun()
        except BaseException:
            self.abort()
            raise
        return response

    def abort(self) -> None:
        """End the connection at once."""
        self.alive = False
        self._transport.abort()

    def hold(self, *, held: bool) -> None:
        """Have the other side wait, or go on."""
        if held:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def expect(self) -> asyncio.Future[None]:
        """Something to wait on; the wait must not last longer than the other side may be silent."""
        self.since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self.since + self._idle_seconds, self._look)
        return self._loop.create_future()

    def _look(self) -> None:
        """Has it been silent for too long? Only time in which somebody waited counts."""
        self._timer = None
        if self._current is None or not self._current.waited_for:
            return
        if self._loop.time() >= self.since + self._idle_seconds:
            self._fail(Broken(f"nothing came for {self._idle_seconds:g} s"))
        else:
            self._timer = self._loop.call_at(self.since + self._idle_seconds, self._look)

    def _fail(self, error: Broken) -> None:
        if self._current is not None:
            self._current.fail(error)
            self._current = None
        self.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.alive = True
        self._client.opened(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._client.lost(self)
        if (response := self._current) is None:
            return
        framed = "content-length" in response.headers or "transfer-encoding" in response.headers
        if response.status and not framed and error is None:
            self._end(keep=False)  # where nothing tells the length, the end of the connection is the end
            return
        what = "the answer broke off" if response.status else "the connection ended without an answer"
        crossed = not self._unused and not response.status and self._loop.time() < self._asked + CROSSING_SECONDS
        self._fail((_Crossed if crossed else Broken)(f"{what}: {error}" if error else what))

    def read(self, data: memoryview) -> None:
        response = self._current
        if response is None:
            self.abort()  # nobody asked
            return
        self._unused += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(Broken("the answer changes the protocol, which was not asked for"))
        except httptools.HttpParserError as error:
            self._fail(Broken(f"the answer is not HTTP: {error}"))
        if self._unused > LONGEST_HEAD and self._current is response:
            self._fail(Broken("the headers of the answer have no end"))

    def on_message_begin(self) -> None:
        if self._current is None:
            self.abort()  # one more answer than there were requests
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        add_header(self._headers, name, value)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self._current is None or status < _FIRST_FINAL:
            return  # told on the way; the answer itself is still to come
        # What stands behind the body looks like headers too, and comes when these have been looked at, or not yet.
        self._current.headers, self._headers = self._headers, {}
        self._current.status = status
        self._current.wake()
        if not self._current.with_body:
            self._end(keep=False)  # its head may announce a body that never comes: not fit to be used again

    def on_body(self, data: bytes) -> None:
        self._unused = 0
        if self._current is not None:
            self._current.add(data)

    def on_message_complete(self) -> None:
        if self._current is not None and self._current.status:
            self._end(keep=self._parser.should_keep_alive())

    def _end(self, *, keep: bool) -> None:
        if self._current is not None:
            self._current.complete = True
            self._current.wake()
            self._current = None
        if self._transport.get_write_buffer_size():
            self.abort()  # answered before it had heard all: whether it listens to the rest, nobody knows
        elif keep and self.alive:
            self._transport.resume_reading()
            self.since = self._loop.time()
            self._client.keep(self)
        else:
            self.alive = False
            self._transport.close()


def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
