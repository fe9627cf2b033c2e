"""The client, against a server that is not ours, and over bare sockets."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.gateway.http import HttpClient, HttpConnectionError, HttpResponse
from tls_world import certified
from waiting import PATIENCE, rounds


class FixedServer:
    """A server that says the given bytes to each request, and counts connections and requests.

    With `slams` it ends the connection of the second request after what it says to it.
    """

    def __init__(self, *responses: bytes | list[bytes], ends: bool = False, pause: float = 0) -> None:
        self.responses = [[response] if isinstance(response, bytes) else response for response in responses]
        self.ends = ends
        self.pause = pause
        self.connections = 0
        self.heads: list[bytes] = []
        self.port = 0
        self.responded = asyncio.Event()
        self.closed = asyncio.Event()
        self.ended = 0
        self.slams = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.responses:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                for piece in self.responses.pop(0):
                    writer.write(piece)
                    await asyncio.sleep(self.pause)
                self.responded.set()
                if self.ends:
                    break
                if self.slams and len(self.heads) == 2:  # at the second request
                    self.slams = False
                    break
            else:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.closed.set()
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            self.ended += 1


@asynccontextmanager
async def asked(place: FixedServer, *, idle_seconds: float = PATIENCE) -> AsyncIterator[HttpClient]:
    server = await asyncio.start_server(place.serve, "127.0.0.1", 0)
    place.port = server.sockets[0].getsockname()[1]
    client = HttpClient(f"http://127.0.0.1:{place.port}/base/", idle_seconds=idle_seconds)
    try:
        yield client
    finally:
        await client.close()
        server.close()
        while place.ended < place.connections:
            await asyncio.sleep(0.001)


async def body_of(response: HttpResponse) -> bytes:
    async with aclosing(response.chunks()) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def get(client: HttpClient) -> tuple[int, bytes]:
    response = await client.request("GET", "/x", {}, b"")
    return response.status, await body_of(response)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"


async def test_a_request_is_sent_as_it_was_meant() -> None:
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen.append((request.method, str(request.rel_url), headers, await request.read()))
        return web.Response(body=b"response", headers={"X-Some": "thing"})

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    client = HttpClient(f"http://127.0.0.1:{port}/base", idle_seconds=5)
    body = bytes(range(256)) * 2000
    response = await client.request("POST", "/v1?a=%2F", {"a": "b"}, body)
    assert (response.status, response.headers["x-some"], await body_of(response)) == (200, "thing", b"response")
    host = {"host": f"127.0.0.1:{port}"}
    assert seen == [("POST", "/base/v1?a=%2F", {**host, "a": "b", "content-length": str(len(body))}, body)]
    await client.request("GET", "/", {}, b"")
    assert "content-length" not in seen[1][2]
    await client.close()
    await runner.cleanup()


async def test_a_connection_is_used_again_and_not_shared() -> None:
    place = FixedServer(OK, CHUNKED, OK, OK)
    async with asked(place) as client:
        assert [await get(client) for _ in range(2)] == [(200, b"ok")] * 2
        assert place.connections == 1
        assert set(await asyncio.gather(get(client), get(client))) == {(200, b"ok")}
        assert place.connections == 2


async def test_a_response_that_was_not_read_yet_survives_the_next_one_on_its_connection() -> None:
    place = FixedServer(OK, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother")
    async with asked(place) as client:
        first = await client.request("GET", "/", {}, b"")
        await rounds()
        second = await client.request("GET", "/", {}, b"")
        assert place.connections == 1
        assert (await body_of(second), await body_of(first)) == (b"other", b"ok")


async def test_a_connection_that_the_other_side_has_closed_is_not_used() -> None:
    place = FixedServer(OK, OK, ends=True)
    async with asked(place) as client:
        assert await get(client) == (200, b"ok")
        await place.closed.wait()
        await rounds()
        assert await get(client) == (200, b"ok")
        assert place.connections == 2


async def test_a_connection_with_unsolicited_bytes_is_not_reused() -> None:
    place = FixedServer([OK, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake"], OK, pause=0.02)
    async with asked(place) as client:
        assert await get(client) == (200, b"ok")
        await place.responded.wait()
        await rounds()
        assert await get(client) == (200, b"ok")
        assert place.connections == 2


@pytest.mark.parametrize("more", [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfake", b"HTTP/1.1 200 OK\r\nConte"])
async def test_unsolicited_bytes_are_discarded(more: bytes) -> None:
    place = FixedServer(OK + more, OK)
    async with asked(place) as client:
        assert await get(client) == (200, b"ok")
        assert await get(client) == (200, b"ok")
        assert place.connections == 2


async def test_a_connection_that_ends_while_a_request_is_on_its_way_is_made_anew() -> None:
    """Such a request was not heard: it need not fail, and nothing is paid for twice."""
    place = FixedServer(OK, [], OK)
    place.slams = True
    async with asked(place) as client:
        assert await get(client) == (200, b"ok")
        assert await get(client) == (200, b"ok")
        assert place.connections == 2


@pytest.mark.parametrize(
    ("responses", "asks"), [((b"",), 0), ((OK, b"HTTP/1.1 200"), 1)], ids=["on a new connection", "after some words"]
)
async def test_a_request_that_may_have_been_received_is_not_sent_again(responses: tuple[bytes, ...], asks: int) -> None:
    place = FixedServer(*responses, OK)
    place.slams = asks > 0
    place.ends = asks == 0
    async with asked(place) as client:
        for _ in range(asks):
            assert await get(client) == (200, b"ok")
        with pytest.raises(HttpConnectionError, match="without a response"):
            await get(client)
        assert place.connections == 1


async def test_a_request_that_was_processed_for_a_while_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.gateway.http.client.STALE_CONNECTION_SECONDS", 0.05)
    place = FixedServer(OK, b"", OK, pause=0.2)
    place.slams = True
    async with asked(place) as client:
        assert await get(client) == (200, b"ok")
        with pytest.raises(HttpConnectionError, match="without a response"):
            await get(client)
        assert place.connections == 1


async def test_a_connection_that_has_not_taken_all_of_a_request_is_not_used_for_another() -> None:
    """A response such as 413 may come before; that the rest of the request is still read is not certain."""
    place = FixedServer(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig", OK)
    async with asked(place) as client:
        response = await client.request("POST", "/", {}, b"x" * 30_000_000)
        assert (response.status, await body_of(response)) == (413, b"big")
        assert await get(client) == (200, b"ok")
        assert place.connections == 2


async def test_trailers_of_a_response_are_ignored() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Encoding: gzip\r\n\r\n"
    async with asked(FixedServer(chunked, OK)) as client:
        assert await get(client) == (200, b"ok")
        assert await get(client) == (200, b"ok")


@pytest.mark.parametrize(("path", "line"), [("", b"GET / HTTP"), ("?a", b"GET /?a HTTP"), ("/a", b"GET /a HTTP")])
async def test_a_place_without_a_path_is_asked_for_its_root(path: str, line: bytes) -> None:
    place = FixedServer(OK)
    async with asked(place):
        bare = HttpClient(f"http://127.0.0.1:{place.port}", idle_seconds=5)
        await bare.request("GET", path, {}, b"")
        await bare.close()
    assert place.heads[0].startswith(line)


async def test_a_connection_that_was_idle_for_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.gateway.http.client.KEEP_ALIVE_SECONDS", 0.01)
    place = FixedServer(OK, OK)
    async with asked(place) as client:
        assert await get(client) == (200, b"ok")
        await asyncio.sleep(0.05)
        assert await get(client) == (200, b"ok")
        assert place.connections == 2


async def test_a_response_without_a_length_ends_with_its_connection() -> None:
    async with asked(FixedServer([b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it"], ends=True, pause=0.01)) as client:
        assert await get(client) == (200, b"all of it")


async def test_an_informational_response_is_not_the_final_one() -> None:
    early = [b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"]
    async with asked(FixedServer([*early, OK], OK, pause=0.01)) as client:
        response = await client.request("GET", "/", {}, b"")
        assert (response.status, "link" in response.headers, await body_of(response)) == (200, False, b"ok")
        assert await get(client) == (200, b"ok")


async def test_the_response_to_head_has_no_body_whatever_it_announces() -> None:
    async with asked(FixedServer(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", OK)) as client:
        response = await client.request("HEAD", "/", {}, b"")
        assert (response.headers["content-length"], await body_of(response)) == ("1000", b"")


@pytest.mark.parametrize(("name", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_compressed_response_is_decompressed(name: str, pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"plain " * 1000)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {name}\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    async with asked(FixedServer(head + packed)) as client:
        assert await get(client) == (200, b"plain " * 1000)


async def test_a_small_compressed_response_is_decompressed_in_pieces() -> None:
    packed = gzip.compress(bytes(50_000_000))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()
    async with asked(FixedServer(head + packed)) as client:
        pieces = [len(chunk) async for chunk in (await client.request("GET", "/", {}, b"")).chunks()]
    assert (sum(pieces), max(pieces) <= 256 * 1024) == (50_000_000, True)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "broke off"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "not HTTP"),
        (b"", "without a response"),
        (b"HTTP/1.1 200 OK\r\nX: y\r\n", "without a response"),
        (b"SSH-2.0-OpenSSH_9\r\n", "not HTTP"),
        (b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nabc", "protocol"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000, "too long"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: " + b"x" * 600_000, "too long"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok", "encoded as br"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", "cannot be decompressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n", "too early"),
    ],
)
async def test_a_response_that_is_none_is_named_for_what_it_is(response: bytes, reason: str) -> None:
    async with asked(FixedServer(response, ends=True)) as client:
        with pytest.raises(HttpConnectionError, match=reason):
            await get(client)


async def test_data_before_a_connection_error_is_read_first() -> None:
    place = FixedServer([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"def"], ends=True)
    async with asked(place) as client:
        response = await client.request("GET", "/", {}, b"")
        await place.closed.wait()
        await rounds()
        read = b""
        try:
            async for chunk in response.chunks():
                read += chunk
            pytest.fail("half a response was taken for a whole one")
        except HttpConnectionError:
            assert read == b"abcdef"


async def test_a_silent_server_times_out() -> None:
    async with asked(FixedServer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), idle_seconds=0.1) as client:
        with pytest.raises(HttpConnectionError, match="nothing was received"):
            await get(client)
    async with asked(FixedServer(b""), idle_seconds=0.1) as client:
        with pytest.raises(HttpConnectionError, match="nothing was received"):
            await get(client)


async def test_a_slow_response_is_not_a_silent_one() -> None:
    slow = [b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n", *[b"x"] * 8]
    async with asked(FixedServer(slow, pause=0.25), idle_seconds=1.5) as client:
        assert await get(client) == (200, b"x" * 8)


async def test_a_reader_that_takes_its_time_is_no_silence_of_the_other_side() -> None:
    big = b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 5_000_000
    async with asked(FixedServer(big), idle_seconds=1.5) as client:
        response = await client.request("GET", "/", {}, b"")
        length = 0
        async for chunk in response.chunks():
            if not length:
                await asyncio.sleep(3)
            length += len(chunk)
        assert length == 5_000_000


async def test_a_refused_connection_is_reported_at_once() -> None:
    place = FixedServer()
    async with asked(place):
        pass
    with pytest.raises(HttpConnectionError, match=f"no connection to 127.0.0.1:{place.port}"):
        await get(HttpClient(f"http://127.0.0.1:{place.port}", idle_seconds=5))


async def test_a_reader_that_gives_up_ends_the_connection() -> None:
    place = FixedServer(b"")
    async with asked(place) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.request("GET", "/", {}, b""), 0.1)
        await asyncio.wait_for(place.closed.wait(), PATIENCE)


async def test_a_response_that_is_left_ends_the_connection() -> None:
    place = FixedServer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
    async with asked(place) as client:
        response = await client.request("GET", "/", {}, b"")
        response.close()
        await asyncio.wait_for(place.closed.wait(), PATIENCE)


@pytest.mark.parametrize("address", ["", "api.example.com", "ftp://x", "http://", "http://x:port", "https:///x"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=r"does not begin|Port could not"):
        HttpClient(address, idle_seconds=1)


async def test_a_certificate_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context, certificate = certified(tmp_path, "localhost")
    place = FixedServer(OK, OK)
    server = await asyncio.start_server(place.serve, "127.0.0.1", 0, ssl=context)
    address = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(HttpConnectionError, match="certificate verify failed"):
        await get(HttpClient(address, idle_seconds=5))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    trusting = HttpClient(address, idle_seconds=5)
    assert await get(trusting) == (200, b"ok")
    assert await get(trusting) == (200, b"ok")
    await trusting.close()
    elsewhere = HttpClient(address.replace("localhost", "127.0.0.1"), idle_seconds=5)
    with pytest.raises(HttpConnectionError, match="mismatch"):
        await get(elsewhere)
    server.close()


@settings(max_examples=40)
@given(st.lists(st.binary(min_size=1, max_size=50), max_size=5))
def test_chunks_come_through_however_they_are_sent(chunks: list[bytes]) -> None:
    async def ask() -> None:
        pieces = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks]
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        async with asked(FixedServer([head, *pieces, b"0\r\n\r\n"])) as client:
            assert await get(client) == (200, b"".join(chunks))

    asyncio.run(ask())
