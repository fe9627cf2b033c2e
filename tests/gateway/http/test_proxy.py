"""The way through a proxy, with a proxy that carries what it is given."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from proctor.gateway.http import HttpClient, HttpConnectionError
from proctor.gateway.http.proxy import Proxy, proxy_for
from tls_world import certified


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": ""}, None),
        ({"HTTPS_PROXY": "http://p:3128"}, ("p", 3128)),
        ({"https_proxy": "p:3128"}, ("p", 3128)),
        ({"HTTP_PROXY": "http://p"}, None),
        ({"ALL_PROXY": "http://p"}, ("p", 80)),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "other.com, example.com"}, None),
        ({"HTTPS_PROXY": "http://p", "no_proxy": "*"}, None),
        ({"HTTPS_PROXY": "http://p", "NO_PROXY": "notexample.com"}, ("p", 80)),
    ],
)
def test_the_environment_names_the_proxy(environ: dict[str, str], expected: tuple[str, int] | None) -> None:
    found = proxy_for("https", "api.example.com", environ)
    assert (found and found[:2]) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost", "x.localhost"])
def test_this_machine_is_never_asked_through_a_proxy(host: str) -> None:
    assert proxy_for("http", host, {"ALL_PROXY": "http://p"}) is None


@pytest.mark.parametrize("address", ["socks5://user:secret@p", "https://user:secret@p", "http://", "http://p:port"])
def test_a_proxy_of_another_kind_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ValueError, match=r"proxy's address|Port could not") as raised:
        Proxy.parse(address)
    assert "secret" not in str(raised.value)


def test_a_login_is_read_as_it_is_written_in_addresses() -> None:
    proxy = Proxy.parse("http://me:p%40ss@[::1]:3128")
    assert proxy == ("::1", 3128, {"proxy-authorization": "Basic " + base64.b64encode(b"me:p@ss").decode()})


class Carrier:
    """A proxy: keeps the heads that it was sent, and carries everything to the one place behind it."""

    def __init__(self, behind: int, response: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.behind = behind
        self.response = response
        self.heads: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            there, back = await asyncio.open_connection("127.0.0.1", self.behind)
            if self.heads[-1].startswith(b"CONNECT"):
                writer.write(self.response)
            else:
                back.write(self.heads[-1])
            await asyncio.gather(carry(reader, back), carry(there, writer))
        writer.close()


async def carry(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65536):
            to.write(data)
        to.close()


async def respond_ok(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    writer.close()


@asynccontextmanager
async def carried(
    address: str, *, context: ssl.SSLContext | None = None, login: str = "", **options: bytes
) -> AsyncIterator[tuple[HttpClient, Carrier]]:
    place = await asyncio.start_server(respond_ok, "127.0.0.1", 0, ssl=context)
    carrier = Carrier(place.sockets[0].getsockname()[1], **options)
    proxy = await asyncio.start_server(carrier.serve, "127.0.0.1", 0)
    named = f"http://{login}127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
    client = HttpClient(address, idle_seconds=5, environ={"ALL_PROXY": named})
    try:
        yield client, carrier
    finally:
        await client.close()
        proxy.close()
        place.close()
        await asyncio.sleep(0.02)


async def get(client: HttpClient) -> tuple[int, bytes]:
    response = await client.request("GET", "/x", {}, b"")
    return response.status, b"".join([chunk async for chunk in response.chunks()])


async def test_https_requests_go_through_a_connect_tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, certificate = certified(tmp_path, "api.example.com")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with carried("https://api.example.com", context=context, login="me:secret@") as (client, carrier):
        assert [await get(client) for _ in range(2)] == [(200, b"ok")] * 2
        (head,) = carrier.heads
        assert head.startswith(b"CONNECT api.example.com:443 HTTP/1.1\r\n")
        assert b"proxy-authorization: Basic " + base64.b64encode(b"me:secret") in head


async def test_a_certificate_is_checked_through_a_tunnel_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, certificate = certified(tmp_path, "other.example.com")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with carried("https://api.example.com", context=context) as (client, _):
        with pytest.raises(HttpConnectionError, match="mismatch"):
            await get(client)


async def test_plain_http_requests_go_through_the_proxy() -> None:
    async with carried("http://api.example.com/base", login="me:secret@") as (client, carrier):
        assert await get(client) == (200, b"ok")
        (head,) = carrier.heads
        assert head.startswith(b"GET http://api.example.com/base/x HTTP/1.1\r\n")
        assert b"proxy-authorization: Basic " in head


@pytest.mark.parametrize("response", [b"HTTP/1.1 407 Login first\r\n\r\n", b"what?\r\n\r\n"])
async def test_the_refusal_of_a_proxy_is_quoted(response: bytes) -> None:
    async with carried("https://api.example.com", response=response) as (client, _):
        with pytest.raises(HttpConnectionError, match=r"api.example.com: the proxy responded '(HTTP/1.1 407|what)"):
            await get(client)
