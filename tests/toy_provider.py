"""A provider on loopback for runs of toy tasks: counts what it serves, and plays whatever override a test wants."""

import asyncio
import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from proctor.gateway.dialects.messages_events import events_from_message
from proctor.gateway.sse import encode_named_event

KEY = "sk-ant-dummy-recognisable-0123456789"
MODEL = "claude-sonnet-4-5"
TOKENS = (1000, 100)
# What one answer costs at the list price of the model: 1000 tokens at $3 and 100 at $15 a million.
ANSWER_USD = 0.0045
_NUMBERS = itertools.count(1)


class ServedTurn(NamedTuple):
    """One request: whose task, and how many answers it holds already."""

    task: str
    turn: int


ResponseOverride = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]


class ToyProvider:
    """Answers `step N`, and `right` to the last turn of a task.

    Attributes:
        asked: how often each question has arrived; `served`: how often its answer has left, whole.
        override: what happens instead of an answer, in this order, by task; the task "*" is any.
    """

    def __init__(self, *, turns: int = 3, delay: float = 0.0) -> None:
        self.turns = turns
        self.delay = delay
        self.asked: Counter[ServedTurn] = Counter()
        self.served: Counter[ServedTurn] = Counter()
        self.keys: set[str] = set()
        self.overrides: defaultdict[str, list[ResponseOverride]] = defaultdict(list)
        self.last_words: dict[str, str] = {}
        self.under_way = 0
        self.most_under_way = 0
        self.url = ""
        self._held_after: int | None = None
        self._released = asyncio.Event()

    def hold(self, *, after: int = 0) -> None:
        """Answer so many requests, and let all others wait until `release`."""
        self._held_after = after

    def release(self) -> None:
        self._held_after = None
        self._released.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD" or not request.path.endswith("/v1/messages"):
            return web.json_response({"input_tokens": 1})
        self.keys.add(request.headers.get("x-api-key", ""))
        body = await request.json()
        asked = self._identify(body)
        self.asked[asked] += 1
        number = self.asked.total()
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            for name in (asked.task, "*"):
                if self.overrides[name]:
                    return await self.overrides[name].pop(0)(request, body)
            if self._held_after is not None and number > self._held_after:
                await self._released.wait()
            await asyncio.sleep(self.delay)
            return await self._say(request, body, asked)
        finally:
            self.under_way -= 1

    def _identify(self, body: dict[str, Any]) -> ServedTurn:
        found = re.search(r"task: ([\w-]+)", json.dumps(body["messages"][0]))
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        return ServedTurn(found[1] if found else "?", turn)

    async def _say(self, request: web.Request, body: dict[str, Any], asked: ServedTurn) -> web.StreamResponse:
        last = asked.turn + 1 >= self.turns
        text = self.last_words.get(asked.task, "right") if last else f"step {asked.turn}"
        message = make_message(text, body["model"])
        response = await send(request, body, message)
        self.served[asked] += 1
        return response


def make_message(text: str, model: str = MODEL, *, stop_reason: str = "end_turn") -> dict[str, Any]:
    return {
        "id": f"msg_{next(_NUMBERS):06}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": TOKENS[0], "output_tokens": TOKENS[1]},
    }


async def send(
    request: web.Request, body: dict[str, Any], message: dict[str, Any], *, events: int | None = None
) -> web.StreamResponse:
    """Send a message in the form that was asked for; the first so many events of it."""
    if not body.get("stream"):
        response = web.json_response(message)
        await response.prepare(request)
        await response.write_eof()
        return response
    stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await stream.prepare(request)
    for event in list(events_from_message(message))[:events]:
        await stream.write(encode_named_event(event))
    if events is None:
        await stream.write_eof()
    return stream


def failing(status: int, kind: str = "api_error", message: str = "toy override", **headers: str) -> ResponseOverride:
    async def override(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        error = {"type": "error", "error": {"type": kind, "message": message}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(error, status=status, headers=named)

    return override


async def cut(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    """A stream that breaks off; an answer that is not streamed does not come at all."""
    response: web.StreamResponse = web.Response()
    if body.get("stream"):
        response = await send(request, body, make_message("lost"), events=3)
    hang_up(request)
    return response


async def drop(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    hang_up(request)
    return web.Response()


async def html(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    return web.Response(text="<html>a proxy's page</html>", content_type="text/html")


async def malformed(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    if not body.get("stream"):
        return web.Response(text='{"type": "mess', content_type="application/json")
    stream = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await stream.prepare(request)
    for number, event in enumerate(events_from_message(make_message("lost"))):
        await stream.write(
            encode_named_event('{"type":"content_block_delta","index":0,"delt' if number == 2 else event)
        )
    await stream.write_eof()
    return stream


async def silence(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
    await asyncio.sleep(60)
    return web.Response()


def saying(text: str, stop_reason: str) -> ResponseOverride:
    async def override(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        return await send(request, body, make_message(text, body["model"], stop_reason=stop_reason))

    return override


def hang_up(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()


@asynccontextmanager
async def toy_provider(**options: Any) -> AsyncIterator[ToyProvider]:
    async with serving(ToyProvider(**options)) as provider:
        yield provider


@asynccontextmanager
async def serving(provider: ToyProvider) -> AsyncIterator[ToyProvider]:
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", provider.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    provider.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield provider
    finally:
        await runner.cleanup()
