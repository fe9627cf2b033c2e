"""What the gateway adds: latency per request and per streamed event, CPU per request, and memory per stream.

Five processes: a scripted provider, a relay that does nothing but pass bytes on, a gateway, one that records, and the
clients (this one). The same load runs against the provider directly and through each of the three, one after the other,
for each dialect and number of streams, so that what counts is the difference and the ratio, not this machine's speed.
What the relay adds is the least that anything between agent and provider adds here.

    python perf/gateway.py [--streams 1,64,512] [--body 100000] [--dialects messages,chat,…]     about two minutes
    QUICK=1 python perf/gateway.py                                                               seconds

Requests look like an agent's in the middle of its work: a third of the body are tools, the rest is the conversation.
All streams together pass 2000 events per second at most.

The first request of each client is not counted: it waits for connections to be made, and the provider's are shared by
all agents and kept.

A provider's event carries the time at which it was sent; all processes read the same monotonic clock. CPU is that of
the gateway's process, by the scheduler's own account: it depends less than time does on what else the machine does.
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
from typing import Any, NamedTuple

import psutil

from proctor.core.result import Tokens
from proctor.gateway import Gateway, GatewaySessionSpec, RetryPolicy, Secret, Upstream
from proctor.gateway.dialects import DIALECTS
from proctor.gateway.dialects.base import ScriptedMessage

STAMP = re.compile(rb'"(?:text|content|delta)":"(\d+) ')
FILLER = "of the quick brown fox and of the lazy dog over which it jumps"
MODEL = "claude-sonnet-4-5"
MARK = b"@TEXT@"
# As long as a real one, and beginning as one: where an event ends as a key begins, the gateway looks closer.
KEY = "sk-ant-dummy-" + "0123456789" * 9


class Level(NamedTuple):
    """How many streams there are at a time, how fast and how long each is, and for how long they are measured."""

    streams: int
    interval: float
    events: int
    seconds: float


def level(streams: int) -> Level:
    interval = max(0.005, streams / 2000)
    events = 20 if interval < 0.1 else 8
    return Level(streams, interval, events, 0.4 if QUICK else max(2.0, 2.5 * interval * events))


QUICK = bool(os.environ.get("QUICK"))
# Both are more than the gateway holds of a stream while it records.
LENGTHS = (1_000, 5_000) if QUICK else (2_000, 10_000)
LONG_STREAMS = 4
# Of each client; the first is not counted.
LEAST_REQUESTS = 2


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


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


def request_of(name: str, size: int) -> tuple[str, bytes]:
    """The path and the body of a request of this dialect."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {f"argument_{n}": {"description": "for this and that" * 4} for n in range(6)},
    }
    tools = [{"name": f"tool_{n}", "description": "what it does, and when " * 20} for n in range(max(1, size // 3300))]
    text = ("a line of what a tool has returned" + chr(10)) * 40
    rounds = max(1, (size - len(json.dumps([tools, schema])) * 2) // (len(text) + 200))
    asked: dict[str, Any] = {"model": MODEL, "stream": True}
    user = "Fix the bug, and run the tests."
    call = json.dumps({"command": "ls"})
    work: list[dict[str, Any]]
    body: dict[str, Any]
    match name:
        case "messages":
            work = [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "tool_1", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": text}]},
            ]
            messages = [{"role": "user", "content": user}, *work * rounds]
            offered = [{**tool, "input_schema": schema} for tool in tools]
            return "/v1/messages", json.dumps({**asked, "messages": messages, "tools": offered}).encode()
        case "chat":
            called = {"id": "t", "type": "function", "function": {"name": "tool_1", "arguments": call}}
            work = [
                {"role": "assistant", "content": None, "tool_calls": [called]},
                {"role": "tool", "tool_call_id": "t", "content": text},
            ]
            body = {**asked, "stream_options": {"include_usage": True}}
            body["messages"] = [{"role": "user", "content": user}, *work * rounds]
            body["tools"] = [{"type": "function", "function": {**tool, "parameters": schema}} for tool in tools]
            return "/v1/chat/completions", json.dumps(body).encode()
        case "responses":
            work = [
                {"type": "function_call", "call_id": "t", "name": "tool_1", "arguments": call},
                {"type": "function_call_output", "call_id": "t", "output": text},
            ]
            body = {**asked, "store": False, "input": [{"role": "user", "content": user}, *work * rounds]}
            body["tools"] = [{"type": "function", **tool, "parameters": schema} for tool in tools]
            return "/v1/responses", json.dumps(body).encode()
    work = [
        {"role": "model", "parts": [{"functionCall": {"name": "tool_1", "args": {"command": "ls"}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "tool_1", "response": {"output": text}}}]},
    ]
    body = {"contents": [{"role": "user", "parts": [{"text": user}]}, *work * rounds]}
    body["tools"] = [{"functionDeclarations": [{**tool, "parameters": schema} for tool in tools]}]
    return f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse", json.dumps(body).encode()


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


class RelayedProvider(asyncio.Protocol):
    """The relay's connection to the provider."""

    def __init__(self, client: asyncio.Transport) -> None:
        self.client = client

    def data_received(self, data: bytes) -> None:
        self.client.write(data)


class RelayedClient(asyncio.Protocol):
    """The relay's connection to a client; it has one to the provider of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.early = b""
        self.provider: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.connecting = asyncio.ensure_future(self.connect())

    async def connect(self) -> None:
        loop = asyncio.get_running_loop()
        self.provider, _ = await loop.create_connection(lambda: RelayedProvider(self.transport), "127.0.0.1", self.port)
        self.provider.write(self.early)

    def data_received(self, data: bytes) -> None:
        if self.provider is None:
            self.early += data
        else:
            self.provider.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.provider.close()


def relay(pipe: multiprocessing.connection.Connection, port: int) -> None:
    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: RelayedClient(port), "127.0.0.1", 0, backlog=1024)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)

    asyncio.run(serve())


def gateway(pipe: multiprocessing.connection.Connection, port: int, recordings: str | None) -> None:
    async def serve() -> None:
        upstream = Upstream(f"http://127.0.0.1:{port}", key=Secret(KEY), retry=RetryPolicy(tries=1))
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
            self.first = False
        if self.warm:
            self.lags.extend((now - int(stamp)) / 1e6 for stamp in STAMP.findall(data))
        if data.endswith(b"0\r\n\r\n") and not self.done.done():
            self.warm = True
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("closed"))


def request(dialect: str, path: str, body: int, events: int, interval: float) -> bytes:
    where, data = request_of(dialect, body)
    head = f"POST {path}{where} HTTP/1.1\r\nHost: perf\r\nContent-Length: {len(data)}\r\nX-Dialect: {dialect}\r\n"
    head += f"X-Events: {events}\r\nX-Interval: {interval}\r\nContent-Type: application/json\r\n\r\n"
    return head.encode() + data


class Measured(NamedTuple):
    """What was measured under one load: times in milliseconds, sorted; of the gateway, its CPU and its memory."""

    firsts: list[float]
    lags: list[float]
    requests: int
    cpu_us: float
    memory: int


def cpu_us(watched: psutil.Process | None) -> float:
    """How long the process has run so far, in microseconds."""
    if watched is None:
        return 0.0
    return sum(int(file.read_text().split()[0]) for file in Path(f"/proc/{watched.pid}/task").glob("*/schedstat")) / 1e3


async def load(
    port: int, path: str, at: Level, body: int, *, dialect: str, watched: psutil.Process | None = None
) -> Measured:
    """Keep so many streams going for so long: each asks again when it has ended."""
    ask = request(dialect, path, body, at.events, at.interval)
    firsts: list[float] = []
    lags: list[float] = []
    loop = asyncio.get_running_loop()
    started, used = time.monotonic(), cpu_us(watched)
    requests = 0

    async def one(index: int) -> None:
        nonlocal requests
        await asyncio.sleep(at.interval * at.events * index / at.streams)
        _, client = await loop.create_connection(lambda: Client(firsts, lags), "127.0.0.1", port)
        sent = 0
        while sent < LEAST_REQUESTS or time.monotonic() < started + at.seconds:
            await client.send(ask)
            sent += 1
        requests += sent
        client.transport.close()

    memory = 0

    async def watch() -> None:
        nonlocal memory
        while watched is not None and watched.is_running():
            memory = max(memory, watched.memory_info().rss)
            await asyncio.sleep(0.25)

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(one(index) for index in range(at.streams)))
    watching.cancel()
    return Measured(sorted(firsts), sorted(lags), requests, cpu_us(watched) - used, memory)


def at_share(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


class Target(NamedTuple):
    """What the clients talk to: the provider itself, or a gateway."""

    name: str
    port: int
    path: str = ""
    process: psutil.Process | None = None


def measure(targets: list[Target], dialect: str, at: Level, body: int) -> None:
    rows: list[tuple[Target, Measured, int]] = []
    for target in targets:
        one = at._replace(streams=1, interval=0.001, events=1, seconds=0.1)
        asyncio.run(load(target.port, target.path, one, body, dialect=dialect))
        idle = target.process.memory_info().rss if target.process else 0
        loaded = load(target.port, target.path, at, body, dialect=dialect, watched=target.process)
        rows.append((target, asyncio.run(loaded), idle))
    direct = rows[0][1]
    for target, measured, idle in rows:
        cells = []
        for values, base in ((measured.firsts, direct.firsts), (measured.lags, direct.lags)):
            for share in (0.5, 0.99):
                value, plain = at_share(values, share), at_share(base, share)
                added = "" if measured is direct else f"+{value - plain:.2f} x{value / plain:.1f}"
                cells.append(f"{value:8.2f} {added:14}")
        used = f"{measured.cpu_us / measured.requests:7.0f}" if target.process else "-"
        memory = f"{(measured.memory - idle) / 1024 / at.streams:6.0f}" if target.process else "-"
        print(f"{dialect:9} {at.streams:7} {target.name:10} {''.join(cells)} {used:>10} {memory:>10}", flush=True)


def growth(targets: list[Target]) -> None:
    """The same number of streams, five times as long: the gateway's memory must not follow."""
    for target in targets:
        if target.process is None:
            continue
        sizes = []
        for events in LENGTHS:
            ask = request("messages", target.path, 1000, events, 0.0)
            sizes.append(asyncio.run(long_streams(target.port, ask, LONG_STREAMS, target.process)) / 1024 / 1024)
        text = "   ".join(f"{n} events each: {size:.1f} MiB" for n, size in zip(LENGTHS, sizes, strict=True))
        print(f"{target.name:10} {LONG_STREAMS} streams   {text}   growth {sizes[1] - sizes[0]:+.1f} MiB")


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
    parser.add_argument("--streams", default="1,64" if QUICK else "1,64,512")
    parser.add_argument("--body", type=int, default=100_000)
    parser.add_argument("--dialects", default=",".join(DIALECTS))
    options = parser.parse_args()
    print(f"body {options.body} bytes; milliseconds, + added and x ratio; CPU in us; memory in KiB\n")
    columns = ("request p50", "request p99", "event p50", "event p99")
    titles = "".join(f"{column:<23}" for column in columns)
    print(f"{'dialect':9} {'streams':>7} {'':10} {titles} {'CPU/request':>10} {'per stream':>10}")
    with (
        process(provider) as (port, _),
        tempfile.TemporaryDirectory() as folder,
        process(relay, port) as (relay_port, relay_process),
        process(gateway, port, None) as ((plain, plain_path), plain_process),
        process(gateway, port, folder) as ((recording, recording_path), recording_process),
    ):
        targets = [
            Target("direct", port),
            Target("relay", relay_port, process=relay_process),
            Target("gateway", plain, plain_path, plain_process),
            Target("recording", recording, recording_path, recording_process),
        ]
        for dialect in options.dialects.split(","):
            for streams in map(int, options.streams.split(",")):
                measure(targets, dialect, level(streams), options.body)
        print()
        growth(targets[2:])
    one, five, _ = os.getloadavg()
    print(
        f"\nload average {one:.1f} now, {five:.1f} over five minutes, on {os.cpu_count()} cores: all of it counts here"
    )


if __name__ == "__main__":
    main()
