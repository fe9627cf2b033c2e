"""The server, asked by a client that is not ours, and over bare sockets."""

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.gateway.http import HttpRequest, HttpResponseWriter, HttpServer
from waiting import PATIENCE, eventually, rounds, steady

LONGEST = 1_000_000


class World:
    server: HttpServer

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.port = 0
        self.may_respond = asyncio.Event()
        self.may_respond.set()
        self.cancelled = asyncio.Event()

    async def handle(self, request: HttpRequest, response: HttpResponseWriter) -> None:
        self.requests.append(request)
        try:
            await self.may_respond.wait()
            match request.target:
                case "/whole":
                    response.send(200, {"a": "b"}, request.body)
                case "/nothing":
                    response.start(204, {})
                    response.end()
                case "/flood":
                    response.start(200, {})
                    while True:
                        await response.write(b"x" * 100_000)
                        self.requests.append(request)
                case _:
                    response.start(200, {})
                    for start in range(0, len(request.body), 3):
                        await response.write(request.body[start : start + 3])
                    response.end()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def say(self, data: bytes, *, until: bytes | None = None) -> bytes:
        """Send bytes over a socket of their own; gives all that comes back until the server ends, or says `until`."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                if until is not None:
                    return await reader.readuntil(until)
                return await reader.read()
        finally:
            writer.close()


@asynccontextmanager
async def world(**limits: int) -> AsyncIterator[World]:
    here = World()
    here.server = HttpServer(here.handle, max_body_bytes=LONGEST, **limits)
    here.port = await here.server.listen("127.0.0.1", 0, backlog=100)
    try:
        yield here
    finally:
        await here.server.close()
        assert here.server.connections == set()
        assert here.server.buffered_bytes == 0


async def test_bodies_come_and_go_whole_and_connections_are_kept() -> None:
    async with world() as here, ClientSession() as http:
        for path in ("/whole", "/pieces"):
            for body in (b"", b"x", bytes(range(256)) * 1000):
                async with http.post(here.url + path, data=body) as response:
                    assert (response.status, await response.read()) == (200, body)
        assert len(http.connector._conns) == 1  # type: ignore[union-attr]


async def test_a_body_may_come_in_pieces_of_unknown_number() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for number in range(50):
            yield b"%d," % number

    async with world() as here, ClientSession() as http:
        async with http.post(here.url + "/whole", data=pieces()) as response:
            assert await response.read() == b"".join(b"%d," % number for number in range(50))
        assert here.requests[0].headers["transfer-encoding"] == "chunked"


async def test_header_names_are_in_lower_case_and_a_target_is_as_it_was_sent() -> None:
    async with world() as here:
        await here.say(b"GET /a%20b?c=%2F HTTP/1.1\r\nHost: h\r\nX-Some: Thing\r\nConnection: close\r\n\r\n")
        (request,) = here.requests
        assert (request.method, request.target) == ("GET", "/a%20b?c=%2F")
        assert request.headers["x-some"] == "Thing"


async def test_a_client_that_asks_first_whether_it_may_send_is_told_so() -> None:
    async with world() as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(b"POST /whole HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hello")
        assert (await reader.readuntil(b"hello")).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()


async def test_pipelined_requests_get_responses_in_their_order() -> None:
    async with world() as here:
        one = b"POST /whole HTTP/1.1\r\nContent-Length: 4\r\n\r\none."
        two = b"POST /pieces HTTP/1.1\r\nContent-Length: 4\r\n\r\ntwo."
        three = b"POST /whole HTTP/1.1\r\nContent-Length: 6\r\nConnection: close\r\n\r\nthree."
        here.may_respond.clear()
        asking = asyncio.ensure_future(here.say(one + two + three))
        while not here.requests:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.02)
        assert len(here.requests) == 1, "a request is not begun before the response to the one ahead of it"
        here.may_respond.set()
        received = await asking
        assert [request.body for request in here.requests] == [b"one.", b"two.", b"three."]
        assert received.index(b"one.") < received.index(b"two") < received.index(b"three.")


async def test_a_client_of_the_old_protocol_gets_no_chunks() -> None:
    async with world() as here:
        received = await here.say(b"POST /pieces HTTP/1.0\r\nContent-Length: 7\r\n\r\nabcdefg")
        head, _, body = received.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert body == b"abcdefg"


@pytest.mark.parametrize(("request_line", "status"), [(b"HEAD /whole", b"200"), (b"POST /nothing", b"204")])
async def test_a_response_without_a_body_has_none(request_line: bytes, status: bytes) -> None:
    async with world() as here:
        received = await here.say(request_line + b" HTTP/1.1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        assert received.startswith(b"HTTP/1.1 " + status)
        assert received.endswith(b"\r\n\r\n")
        assert received.count(b"\r\n\r\n") == 1


@pytest.mark.parametrize(
    ("garbage", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"400"),
        (b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", b"400"),
        (b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", b"426"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, b"431"),
        (b"GET /" + b"x" * 100_000, b"431"),
        (b"GET / HTTP/1.1\r\n" + b"a:\r\n" * 20_000 + b"\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: " + b"x" * 300_000, b"431"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + b"X: y\r\n" * 20_000, b"431"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 300_000, b"431"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1000001\r\n\r\n", b"413"),
    ],
)
async def test_a_malformed_http_request_is_refused_and_not_handled(garbage: bytes, status: bytes) -> None:
    async with world() as here:
        assert (await here.say(garbage, until=b"\r\n\r\n")).startswith(b"HTTP/1.1 " + status)
        assert here.requests == []


async def test_a_client_that_still_sends_learns_that_its_body_is_too_long() -> None:
    async with world() as here:
        chunk = b"%x\r\n%b\r\n" % (100_000, b"x" * 100_000)
        head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await here.say(head + chunk * 200, until=b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
        assert here.requests == []


async def test_a_client_that_leaves_cancels_the_response() -> None:
    async with world() as here:
        here.may_respond.clear()
        _, writer = await asyncio.open_connection("127.0.0.1", here.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        while not here.requests:
            await asyncio.sleep(0.001)
        writer.close()
        await asyncio.wait_for(here.cancelled.wait(), PATIENCE)


async def test_a_client_that_does_not_read_holds_the_response_back() -> None:
    async with world() as here:
        _, writer = await asyncio.open_connection("127.0.0.1", here.port, limit=1000)
        writer.write(b"GET /flood HTTP/1.1\r\n\r\n")
        assert 0 < await steady(lambda: len(here.requests)) < 200
        writer.close()
        await asyncio.wait_for(here.cancelled.wait(), PATIENCE)


async def test_a_client_that_asks_on_and_on_and_does_not_read_gets_no_more_responses() -> None:
    """Otherwise unread responses would pile up here."""
    async with world() as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port, limit=1000)
        ask = b"POST /whole HTTP/1.1\r\nContent-Length: 10000\r\n\r\n" + b"x" * 10_000
        writer.write(ask * 2000)
        assert 0 < await steady(lambda: len(here.requests)) < 1500
        (connection,) = here.server.connections
        assert connection.transport.get_write_buffer_size() < 1_000_000
        received = 0
        while received < 2000:
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(10_000)
            received += 1
        writer.close()


async def test_trailers_of_a_request_are_ignored() -> None:
    async with world() as here:
        head = b"POST /whole HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nA: b\r\n\r\n"
        received = await here.say(head + b"2\r\nhi\r\n0\r\nA: c\r\nX-Late: y\r\n\r\n")
        assert received.endswith(b"\r\n\r\nhi")
        assert (here.requests[0].headers["a"], "x-late" in here.requests[0].headers) == ("b", False)


async def test_where_there_are_too_many_clients_the_one_that_was_idle_for_longest_goes() -> None:
    async with world(max_connections=3) as here:
        here.may_respond.clear()
        busy = asyncio.ensure_future(here.say(b"GET /whole HTTP/1.1\r\nConnection: close\r\n\r\n"))
        while not here.requests:
            await asyncio.sleep(0.001)
        idle = [await asyncio.open_connection("127.0.0.1", here.port)]
        idle[0][1].write(b"POST / HTTP/1.1\r\nContent-Le")
        for _ in range(2):
            await asyncio.sleep(0.01)
            idle.append(await asyncio.open_connection("127.0.0.1", here.port))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(idle[0][0].readexactly(1), PATIENCE)
        here.may_respond.set()
        idle[1][1].write(b"GET /whole HTTP/1.1\r\n\r\n")
        assert (await idle[1][0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (await busy).startswith(b"HTTP/1.1 200 ")
        for _, writer in idle:
            writer.close()


async def test_where_all_are_busy_one_more_is_turned_away() -> None:
    async with world(max_connections=1) as here:
        here.may_respond.clear()
        busy = asyncio.ensure_future(here.say(b"GET /whole HTTP/1.1\r\nConnection: close\r\n\r\n"))
        while not here.requests:
            await asyncio.sleep(0.001)
        reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()
        here.may_respond.set()
        assert (await busy).startswith(b"HTTP/1.1 200 ")


async def test_only_so_much_is_kept_of_requests_that_wait_for_a_response() -> None:
    async with world(max_buffered_bytes=1_500_000) as here:
        here.may_respond.clear()
        ask = b"POST /whole HTTP/1.1\r\nContent-Length: 900000\r\nConnection: close\r\n\r\n" + b"x" * 900_000
        first = asyncio.ensure_future(here.say(ask))
        while not here.requests:
            await asyncio.sleep(0.001)
        assert (await here.say(ask, until=b"\r\n\r\n")).startswith(b"HTTP/1.1 503 ")
        here.may_respond.set()
        assert (await first).startswith(b"HTTP/1.1 200 ")
        assert (await here.say(ask)).startswith(b"HTTP/1.1 200 ")


async def test_a_body_takes_as_much_memory_as_it_is_long_however_small_its_pieces_are() -> None:
    async with world() as here:
        _, writer = await asyncio.open_connection("127.0.0.1", here.port)
        pieces = b"2\r\nxy\r\n" * 200_000
        tracemalloc.start()
        try:
            writer.write(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(pieces)
            async with asyncio.timeout(PATIENCE):
                while here.server.buffered_bytes < 400_000:
                    await asyncio.sleep(0.01)
            taken, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert taken < 3_000_000
        writer.close()


async def test_a_long_stream_does_not_count_as_a_request_that_is_kept() -> None:
    async with world(max_buffered_bytes=1_500_000) as here:
        ask = b"POST /flood HTTP/1.1\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000
        streams = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(4)]
        for reader, writer in streams:
            writer.write(ask)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        for _, writer in streams:
            writer.close()


async def test_a_response_that_is_called_off_does_not_wait_for_its_client_to_read() -> None:
    async with world() as here:
        _, writer = await asyncio.open_connection("127.0.0.1", here.port, limit=1000)
        writer.write(b"GET /flood HTTP/1.1\r\n\r\n")
        await steady(lambda: len(here.requests))
        (connection,) = here.server.connections
        assert connection.task is not None
        connection.task.cancel()
        await eventually(lambda: here.server.connections == set(), "the end of its connection")
        writer.close()


async def test_a_client_that_comes_while_the_server_closes_is_not_forgotten() -> None:
    here = World()
    for turns in range(6):
        server = HttpServer(here.handle, max_body_bytes=LONGEST)
        port = await server.listen("127.0.0.1", 0, backlog=100)
        with socket.create_connection(("127.0.0.1", port)):
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            await rounds()
            assert server.connections == set()


@settings(max_examples=40)
@given(st.binary(max_size=300), st.lists(st.integers(1, 400), max_size=6))
def test_it_does_not_matter_how_the_bytes_of_a_request_are_cut(body: bytes, cuts: list[int]) -> None:
    async def ask() -> None:
        async with world() as here:
            head = b"POST /whole HTTP/1.1\r\nContent-Length: %d\r\nA: b\r\n\r\n" % len(body)
            data = head + body
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), None], strict=True):
                writer.write(data[start:end])
                await asyncio.sleep(0)
            received = await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(body)) == body
            assert b"content-length: %d\r\n" % len(body) in received
            assert here.requests[0].headers["a"] == "b"
            writer.close()

    asyncio.run(ask())
