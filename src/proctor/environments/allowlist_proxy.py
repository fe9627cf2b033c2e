"""An HTTP proxy that knows names: it connects to the hosts that it was given, and to no other.

Environments with allowed hosts have no other way out. A name is resolved here, not in the environment, so that what a
program in it thinks a name means is of no use to it. What is refused is remembered.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from proctor.environments.host_relay import join_streams
from proctor.environments.stream_server import StreamServer

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host's name, for a port."""

_HEAD_SECONDS: Final = 60.0
_CONNECT_SECONDS: Final = 30.0
_MAX_REFUSED: Final = 200
_DEFAULT_PORT: Final = 80
_HOP_BY_HOP: Final = frozenset({b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive"})


class HostRules:
    """Which hosts are allowed: names, names with a leading ``*.``, addresses, and ranges of addresses."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self._names: set[str] = set()
        self._suffixes: list[str] = []
        self._ranges: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for host in hosts:
            try:
                self._ranges.append(ipaddress.ip_network(host))
            except ValueError:
                if host.startswith("*."):
                    self._suffixes.append(host[1:].lower())
                else:
                    self._names.add(host.lower())

    def allows_name(self, host: str) -> bool:
        """Whether a host is allowed by the name that it was asked for by."""
        name = host.lower().rstrip(".")
        return name in self._names or any(name.endswith(suffix) for suffix in self._suffixes)

    def allows_address(self, address: str) -> bool:
        """Whether an address is allowed by itself."""
        with suppress(ValueError):
            found = ipaddress.ip_address(address)
            return any(found in range_ for range_ in self._ranges if range_.version == found.version)
        return False


class AllowlistProxy(StreamServer):
    """Serves one environment.

    Args:
        hosts: those that may be reached.
        resolve: how names are resolved; as this machine does by default.
    """

    def __init__(self, hosts: Sequence[str], resolve: Resolve | None = None) -> None:
        super().__init__()
        self._rules = HostRules(hosts)
        self._resolve = resolve or _resolve
        self._refused: dict[str, None] = {}

    @property
    def refused(self) -> tuple[str, ...]:
        """The hosts that were asked for and refused, in the order in which they were first."""
        return tuple(self._refused)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
            request, _, headers = head.partition(b"\r\n")
            method, target, version = request.decode("latin-1").split(" ", 2)
            if method == "CONNECT":
                host, port = _split(target, 443)
                opening = b""
            else:
                url = urlsplit(target)
                host, port = url.hostname or "", url.port or _DEFAULT_PORT
                path = (url.path or "/") + (f"?{url.query}" if url.query else "")
                opening = _forwarded(f"{method} {path} {version}", headers, url.netloc.rpartition("@")[2])
        except (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError):
            await _answer(writer, "400 Bad Request", "this is a proxy for HTTP\n")
            return
        far = await self._connect(host, port)
        if far is None:
            await _answer(writer, "403 Forbidden", f"{host} is not among the hosts that this task allows\n")
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        far[1].write(opening)
        await join_streams((reader, writer), far)

    async def _connect(self, host: str, port: int) -> "tuple[asyncio.StreamReader, asyncio.StreamWriter] | None":
        """A connection to a host; None: it is not allowed, or does not answer."""
        by_name = self._rules.allows_name(host)
        if not by_name and not self._rules.allows_address(host):
            self._note(host)
            return None
        try:
            addresses = [host] if not by_name else await self._resolve(host, port)
        except OSError:
            return None
        for address in addresses:
            # A name that somebody made lead back here must not open what listens on this host for itself.
            if by_name and _is_own(address) and not self._rules.allows_address(address):
                self._note(f"{host} ({address})")
                continue
            with suppress(OSError, TimeoutError):
                return await asyncio.wait_for(asyncio.open_connection(address, port), _CONNECT_SECONDS)
        return None

    def _note(self, host: str) -> None:
        if len(self._refused) < _MAX_REFUSED:
            self._refused[host[:255]] = None


async def _resolve(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _is_own(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return found.is_loopback or found.is_link_local or found.is_unspecified or found.is_multicast


def _split(target: str, default: int) -> tuple[str, int]:
    parts = urlsplit(f"//{target}")
    return parts.hostname or "", parts.port or default


def _forwarded(request: str, headers: bytes, host: str) -> bytes:
    """The request as the host is to see it; one request for each connection, so that each one's host is checked."""
    kept = [
        line
        for line in headers.split(b"\r\n")
        if line and line.partition(b":")[0].strip().lower() not in {*_HOP_BY_HOP, b"host"}
    ]
    lines = [request.encode("latin-1"), f"Host: {host}".encode("latin-1"), *kept, b"Connection: close"]
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with suppress(OSError):
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
