"""Connections through an HTTP proxy that the environment names."""

import asyncio
import base64
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from proctor.gateway.http.headers import request_head

_DEFAULT_PORT: Final = 80
_OK: Final = b" 200"
_MAX_HEAD_BYTES: Final = 64 * 1024


class Proxy(NamedTuple):
    """A proxy that is reached over plain HTTP."""

    host: str
    port: int
    headers: Mapping[str, str]

    @classmethod
    def parse(cls, address: str) -> Self:
        """Read `[http://][USER:PASSWORD@]HOST[:PORT]`.

        Raises:
            ValueError: it has another form.
        """
        parts = urlsplit(address if "://" in address else f"http://{address}")
        if parts.scheme != "http" or not parts.hostname:
            # Not quoted: it may contain a password.
            raise ValueError("the proxy's address does not begin with http:// and a host's name")
        headers = {}
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers["proxy-authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        return cls(parts.hostname, parts.port or _DEFAULT_PORT, headers)

    async def tunnel(self, host: str, port: int) -> asyncio.Transport:
        """A connection to this host through the proxy.

        Raises:
            OSError: the proxy cannot be reached, or refuses.
        """
        loop = asyncio.get_running_loop()
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        transport, protocol = await loop.create_connection(_ConnectProtocol, self.host, self.port)
        try:
            transport.write(request_head("CONNECT", authority, {"host": authority, **self.headers}))
            status_line = await protocol.status_line
            if not status_line.partition(b"/")[2][3:].startswith(_OK):
                raise OSError(f"the proxy responded {status_line.decode('latin-1')!r}")
        except BaseException:
            transport.abort()
            raise
        return transport


class _ConnectProtocol(asyncio.Protocol):
    """Waits for the proxy's response, of which only the first line matters."""

    def __init__(self) -> None:
        self.status_line: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self.status_line.done() and b"\r\n\r\n" in self._data:
            self.status_line.set_result(self._data.partition(b"\r\n")[0])
        elif len(self._data) > _MAX_HEAD_BYTES:
            self._fail()

    def connection_lost(self, error: Exception | None) -> None:
        self._fail()

    def _fail(self) -> None:
        if not self.status_line.done():
            self.status_line.set_exception(OSError("the proxy does not respond"))


def proxy_for(scheme: str, host: str, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy that the environment names for a host: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY.

    Loopback addresses are never reached through a proxy.

    Raises:
        ValueError: the named proxy cannot be used here.
    """
    named = {name.lower(): value for name, value in environ.items() if value}
    address = named.get(f"{scheme}_proxy") or named.get("all_proxy")
    if not address or _is_excluded(host, named.get("no_proxy", "")) or _is_loopback(host):
        return None
    return Proxy.parse(address)


def _is_excluded(host: str, no_proxy: str) -> bool:
    names = [name.strip().lstrip(".").lower() for name in no_proxy.split(",")]
    return "*" in names or any(name and f".{host}".endswith(f".{name}") for name in names)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
