"""The proxy for allowed hosts: what it lets through, and what it refuses."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from proctor.environments.allowlist_proxy import AllowlistProxy, HostRules


@pytest.mark.parametrize(
    ("rule", "host", "allowed"),
    [
        ("example.com", "example.com", True),
        ("example.com", "EXAMPLE.com.", True),
        ("example.com", "a.example.com", False),
        ("example.com", "notexample.com", False),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("192.0.2.0/24", "192.0.2.7", True),
        ("192.0.2.0/24", "192.0.3.7", False),
        ("2001:db8::1", "2001:db8::1", True),
        ("192.0.2.1", "example.com", False),
    ],
)
def test_which_hosts_a_rule_allows(rule: str, host: str, allowed: bool) -> None:
    rules = HostRules([rule])
    assert (rules.allows_name(host) or rules.allows_address(host)) is allowed


class World:
    """A server on this machine that some names lead to, and the proxy before it."""

    def __init__(self, port: int, proxy: AllowlistProxy) -> None:
        self.port, self.proxy = port, proxy

    async def ask(self, request: str) -> bytes:
        host, port = self.proxy.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request.encode())
        data = await reader.read()
        writer.close()
        return data


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head)
        await writer.drain()
        writer.close()

    async def resolve(host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = AllowlistProxy(["allowed.test", "*.mirror.test", "127.0.0.1"], resolve)
    await proxy.serve(socket.create_server(("127.0.0.1", 0)))
    yield World(server.sockets[0].getsockname()[1], proxy)
    await proxy.close()
    server.close()


async def test_an_allowed_host_is_reached_and_sees_a_request_of_its_own(world: World) -> None:
    url = f"http://allowed.test:{world.port}/it?a=b"
    got = await world.ask(f"GET {url} HTTP/1.1\r\nHost: other.test\r\nProxy-Connection: keep-alive\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200 OK")
    assert b"GET /it?a=b HTTP/1.1\r\n" in got
    assert f"Host: allowed.test:{world.port}".encode() in got
    assert b"other.test" not in got
    assert world.proxy.refused == ()


async def test_a_tunnel_to_an_allowed_host_is_opened(world: World) -> None:
    got = await world.ask(f"CONNECT a.mirror.test:{world.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")


async def test_other_hosts_are_refused_and_remembered(world: World) -> None:
    for request in (
        f"GET http://refused.test:{world.port}/ HTTP/1.1\r\n\r\n",
        f"CONNECT mirror.test:{world.port} HTTP/1.1\r\n\r\n",
        f"GET http://allowed.test@refused.test:{world.port}/ HTTP/1.1\r\n\r\n",
        "CONNECT 10.0.0.1:443 HTTP/1.1\r\n\r\n",
    ):
        assert (await world.ask(request)).startswith(b"HTTP/1.1 403 Forbidden")
    assert world.proxy.refused == ("refused.test", "mirror.test", "10.0.0.1")
    assert (await world.ask("nonsense\r\n\r\n")).startswith(b"HTTP/1.1 400 Bad Request")


async def test_an_allowed_name_does_not_lead_to_this_machine(world: World) -> None:
    async def resolve(_host: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    proxy = AllowlistProxy(["allowed.test"], resolve)
    await proxy.serve(socket.create_server(("127.0.0.1", 0)))
    got = await World(world.port, proxy).ask(f"GET http://allowed.test:{world.port}/ HTTP/1.1\r\n\r\n")
    await proxy.close()
    assert got.startswith(b"HTTP/1.1 403 Forbidden")
    assert proxy.refused == ("allowed.test (127.0.0.1)",)
