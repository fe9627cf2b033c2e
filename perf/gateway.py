"""What the gateway adds: latency per request and per streamed event, and memory per stream.

Three processes: a scripted provider, the gateway, and the clients (this one). The same load runs against the
provider directly and through the gateway, with and without recording, in one run, so that what counts is the
difference and the ratio, not this machine's speed.

    python perf/gateway.py [--streams 1,64,512] [--seconds 10] [--body 100000] [--dialects messages,chat,…]

A stream lasts two seconds, eight where there are 512, and 2000 events per second pass at most, about four per second
and stream at 512.

The first request of each client is not counted: it waits for connections to be made, and the provider's are shared by
all agents and kept.

A provider's event carries the time at which it was sent; all processes read the same monotonic clock.
"""

import argparse
import asyncio
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from proctor.core.result import Tokens
from proctor.gateway import Gateway, GatewaySessionSpec, RetryPolicy, Secret, Upstream
from proctor.gateway.dialects import DIALECTS
from proctor.gateway.dialects.base import ScriptedMessage

STAMP = re.compile(rb'"(?:text|content|delta)":"(\d+) ')
FILLER = "of the quick brown fox and of the lazy dog over which it jumps"
EVENTS_PER_SECOND = 2000
FASTEST = 0.02
# Both are more than the gateway holds of a stream while it records.
LENGTHS = (5_000, 25_000)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODEL = "claude-sonnet-4-5"
MARK = b"@TEXT@"


class Stream:
    """A stream of one dialect: what comes before the text, an event with a mark in its place, and what follows."""

    def __init__(self, name: str) -> None:
        dialect = DIALECTS[name]
        said = ScriptedMessage(number=1, model=MODEL, text=MARK.decode(), tokens=Tokens(input=10, output=7))
        events = [chunk(dialect.encode_event(event)) for event in dialect.events_from_message(dialect.render(said))]
        place = next(index for index, event in enumerate(events) if MARK in event)
        self.start = b"".join(events[:place])
        # Without the framing of the chunk: the text has another length.
        self.event = events[place].split(b"\r\n", 1)[1].removesuffix(b"\r\n")
        self.end = b"".join(events[place + 1 :]) + b"0\r\n\r\n"

    def delta(self) -> bytes:
        return chunk(self.event.replace(MARK, b"%d %b" % (time.monotonic_ns(), FILLER.encode())))


def request_of(name: str, body: int) -> tuple[str, bytes]:
    """The path and the body of a request of this dialect."""
    text = "x" * body
    asked: dict[str, Any] = {"model": MODEL, "stream": True}
    match name:
        case "messages":
            return "/v1/messages", json.dumps({**asked, "messages": [{"role": "user", "content": text}]}).encode()
        case "chat":
            return "/v1/chat/completions", json.dumps(
                {**asked, "messages": [{"role": "user", "content": text}]}
            ).encode()
        case "responses":
            return "/v1/responses", json.dumps({**asked, "input": [{"role": "user", "content": text}]}).encode()
    path = f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
    return path, json.dumps({"contents": [{"role": "user", "parts": [{"text": text}]}]}).encode()


STREAMS = {name: Stream(name) for name in DIALECTS}


class Provider(asyncio.Protocol):
    """As little HTTP as a keep-alive connection needs, so that the provider is not what is measured."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.need = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.need < 0:
            end = self.data.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self.data[:end]).lower()
            self.events = int(re.search(rb"x-events: (\d+)", head)[1])  # type: ignore[index]
            self.interval = float(re.search(rb"x-interval: ([\d.]+)", head)[1])  # type: ignore[index]
            self.need = end + 4 + int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
            self.stream = STREAMS[re.search(rb"x-dialect: (\w+)", head)[1].decode()]  # type: ignore[index]
        if len(self.data) >= self.need:
            self.data.clear()
            self.need = -1
            self.transport.write(HEAD + self.stream.start)
            asyncio.get_running_loop().call_later(self.interval * random.random(), self.tick, 0)

    def tick(self, sent: int) -> None:
        if self.transport.is_closing():
            return
        if sent == self.events:
            self.transport.write(self.stream.end)
            return
        self.transport.write(self.stream.delta())
        asyncio.get_running_loop().call_later(self.interval, self.tick, sent + 1)


def provider(pipe: multiprocessing.connection.Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Provider, "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


def gateway(pipe: multiprocessing.connection.Connection, port: int, recordings: str | None) -> None:
    async def serve() -> None:
        upstream = Upstream(f"http://127.0.0.1:{port}", key=Secret("dummy-key"), retry=RetryPolicy(tries=1))
        path = Path(recordings) / "session.jsonl" if recordings else None
        async with Gateway(upstream) as front:
            url = await front.listen()
            async with front.session(GatewaySessionSpec(task_id="perf", recording=path)) as session:
                pipe.send((int(url.rpartition(":")[2]), session.path))
                await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


@contextmanager
def process(target: Any, *arguments: Any) -> Iterator[tuple[Any, psutil.Process]]:
    here, there = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=target, args=(there, *arguments))
    child.start()
    try:
        yield here.recv(), psutil.Process(child.pid)
    finally:
        here.send(None)
        child.join()


class Client(asyncio.Protocol):
    """Sends one request at a time and notes when things come back."""

    def __init__(self, firsts: list[float], lags: list[float]) -> None:
        self.firsts, self.lags = firsts, lags
        self.warm = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def send(self, request: bytes) -> asyncio.Future[None]:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent = time.monotonic_ns()
        self.first = True
        self.transport.write(request)
        return self.done

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if self.first:
            if not data.startswith(b"HTTP/1.1 200 "):
                self.done.set_exception(ConnectionError(f"answered with {data[:200]!r}"))
            if self.warm:
                self.firsts.append((now - self.sent) / 1e6)
            self.first, self.warm = False, True
        self.lags.extend((now - int(stamp)) / 1e6 for stamp in STAMP.findall(data))
        if b"0\r\n\r\n" in data and not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("closed"))


def request(dialect: str, path: str, body: int, events: int, interval: float) -> bytes:
    where, data = request_of(dialect, body)
    head = f"POST {path}{where} HTTP/1.1\r\nHost: perf\r\nContent-Length: {len(data)}\r\nX-Dialect: {dialect}\r\n"
    head += f"X-Events: {events}\r\nX-Interval: {interval}\r\nContent-Type: application/json\r\n\r\n"
    return head.encode() + data


async def load(
    port: int,
    path: str,
    streams: int,
    seconds: float,
    body: int,
    *,
    dialect: str = "messages",
    watched: psutil.Process | None = None,
) -> dict[str, Any]:
    """Keep so many streams going for so long: each lasts some seconds and then asks again."""
    interval = max(FASTEST, streams / EVENTS_PER_SECOND)
    lasting = max(2.0, streams / 64)
    events = int(lasting / interval)
    ask = request(dialect, path, body, events, interval)
    firsts: list[float] = []
    lags: list[float] = []
    loop = asyncio.get_running_loop()
    until = time.monotonic() + max(seconds, 2.5 * lasting)

    async def one(index: int) -> None:
        await asyncio.sleep(lasting * index / streams)
        _, client = await loop.create_connection(lambda: Client(firsts, lags), "127.0.0.1", port)
        while time.monotonic() < until:
            await client.send(ask)
        client.transport.close()

    memory: list[int] = []

    async def watch() -> None:
        while watched is not None and watched.is_running():
            memory.append(watched.memory_info().rss)
            await asyncio.sleep(0.25)

    cpu = watched.cpu_times() if watched else None
    watching = asyncio.create_task(watch())
    await asyncio.gather(*(one(index) for index in range(streams)))
    watching.cancel()
    used = watched.cpu_times() if watched else None
    busy = (used.user + used.system - cpu.user - cpu.system) if cpu and used else 0.0
    return {"firsts": sorted(firsts), "lags": sorted(lags), "memory": max(memory, default=0), "cpu": busy}


def at(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def measure(dialect: str, streams: int, seconds: float, body: int) -> None:
    with process(provider) as (port, _), tempfile.TemporaryDirectory() as folder:
        rows: list[tuple[str, dict[str, Any], int]] = []
        rows.append(("direct", asyncio.run(load(port, "", streams, seconds, body, dialect=dialect)), 0))
        for name, recordings in (("gateway", None), ("gateway, recording", folder)):
            with process(gateway, port, recordings) as ((front, path), watched):
                asyncio.run(load(front, path, 1, 1, body, dialect=dialect))
                idle = watched.memory_info().rss
                loaded = load(front, path, streams, seconds, body, dialect=dialect, watched=watched)
                rows.append((name, asyncio.run(loaded), idle))
    direct = rows[0][1]
    for name, result, idle in rows:
        cells = []
        for kind in ("firsts", "lags"):
            for share in (0.5, 0.99):
                value, base = at(result[kind], share), at(direct[kind], share)
                added = "" if result is direct else f"+{value - base:.2f} x{value / base:.1f}"
                cells.append(f"{value:8.2f} {added:14}")
        per_event = f"{result['cpu'] / len(result['lags']) * 1e6:5.0f}" if idle else "    -"
        memory = f"{(result['memory'] - idle) / 1024 / streams:6.0f}" if idle else "     -"
        print(f"{dialect:9} {streams:7} {name:19} {''.join(cells)} {per_event:>9} {memory:>10}")


def growth(streams: int) -> None:
    """The same number of streams, ten times as long: the gateway's memory must not follow."""
    with process(provider) as (port, _), tempfile.TemporaryDirectory() as folder:
        for name, recordings in (("gateway", None), ("gateway, recording", folder)):
            with process(gateway, port, recordings) as ((front, path), watched):
                sizes = []
                for events in LENGTHS:
                    ask = request("messages", path, 1000, events, 0.0)
                    sizes.append(asyncio.run(long_streams(front, ask, streams, watched)) / 1024 / 1024)
                text = "   ".join(f"{n} events each: {size:.1f} MiB" for n, size in zip(LENGTHS, sizes, strict=True))
                print(f"{name:19} {streams} streams   {text}   growth {sizes[1] - sizes[0]:+.1f} MiB")


async def long_streams(port: int, ask: bytes, streams: int, watched: psutil.Process) -> int:
    loop = asyncio.get_running_loop()
    peak = 0

    async def one() -> None:
        _, client = await loop.create_connection(lambda: Client([], []), "127.0.0.1", port)
        await client.send(ask)
        client.transport.close()

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, watched.memory_info().rss)
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(one() for _ in range(streams)))
    watching.cancel()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="1,64,512")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--body", type=int, default=100_000)
    parser.add_argument("--dialects", default=",".join(DIALECTS))
    options = parser.parse_args()
    print(f"body {options.body} bytes, {EVENTS_PER_SECOND} events/s in all at most; milliseconds; + added, x ratio\n")
    columns = ("request p50", "request p99", "event p50", "event p99")
    titles = "".join(f"{column:>8} {'':14}"[: 8 + 1 + 14] for column in columns)
    print(f"{'dialect':9} {'streams':>7} {'':19} {titles} {'us/event':>9} {'KiB/stream':>10}")
    for dialect in options.dialects.split(","):
        for streams in map(int, options.streams.split(",")):
            measure(dialect, streams, options.seconds, options.body)
    print()
    growth(16)
    one, five, _ = os.getloadavg()
    print(
        f"\nload average {one:.1f} now, {five:.1f} over five minutes, on {os.cpu_count()} cores: all of it counts here"
    )


if __name__ == "__main__":
    main()
