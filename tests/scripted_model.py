"""A Messages API on loopback that answers from a list, for the real Claude Code to talk to."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

JSON = dict[str, Any]
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Say:
    """A good answer: content blocks, why it stopped, and what it says it used."""

    content: tuple[JSON, ...]
    stop_reason: str = "end_turn"
    input_tokens: int = 100
    output_tokens: int = 10


@dataclass(frozen=True)
class Fault:
    """An HTTP error, or any other body that is no answer."""

    status: int
    body: str = '{"type":"error","error":{"type":"api_error","message":"scripted trouble"}}'
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cut:
    """A stream that breaks off after so many events."""

    say: Say
    after: int = 2


@dataclass(frozen=True)
class Hang:
    """No answer at all."""


Answer = Say | Fault | Cut | Hang


def text(words: str, **more: Any) -> Say:
    return Say(({"type": "text", "text": words},), **more)


def tool(name: str, **arguments: Any) -> Say:
    block = {"type": "tool_use", "id": f"toolu_{next(_NUMBERS):03}", "name": name, "input": arguments}
    return Say((block,), "tool_use")


def error(status: int, kind: str, message: str, **headers: str) -> Fault:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
    return Fault(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


class Model:
    """Answers the main thread from one list and sub-agents from another, and keeps every request."""

    def __init__(self, answers: Sequence[Answer], subagent: Sequence[Answer] = ()) -> None:
        self.answers = list(answers)
        self.subagent = list(subagent)
        self.requests: list[JSON] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.arrived = asyncio.Event()
        self.closing = asyncio.Event()
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response()
        body = await request.json()
        if not request.path.endswith("/v1/messages"):
            return web.json_response({"input_tokens": 1})
        self.requests.append(body)
        self.headers.append({name.title(): value for name, value in request.headers.items()})
        self.paths.append(request.path)
        self.arrived.set()
        answers = self.subagent if "X-Claude-Code-Agent-Id" in request.headers else self.answers
        answer = answers.pop(0) if answers else error(402, "api_error", "the script is at its end")
        match answer:
            case Hang():
                await self.closing.wait()
                return web.Response()
            case Fault():
                headers = {"content-type": "application/json", **answer.headers}
                return web.Response(status=answer.status, body=answer.body.encode(), headers=headers)
            case Say() | Cut():
                return await self._say(request, body, answer)

    async def _say(self, request: web.Request, body: JSON, answer: Say | Cut) -> web.StreamResponse:
        say = answer.say if isinstance(answer, Cut) else answer
        message = {
            "id": f"msg_{len(self.requests):03}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": say.input_tokens, "output_tokens": 1},
        }
        usage = {"input_tokens": say.input_tokens, "output_tokens": say.output_tokens}
        if not body.get("stream"):
            if isinstance(answer, Cut):
                return _hang_up(request, web.Response())
            whole = {**message, "content": list(say.content), "stop_reason": say.stop_reason, "usage": usage}
            return web.json_response(whole)
        events: list[JSON] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(say.content):
            events += list(_block_events(index, block))
        events.append({"type": "message_delta", "delta": {"stop_reason": say.stop_reason}, "usage": usage})
        events.append({"type": "message_stop"})
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for event in events[: answer.after] if isinstance(answer, Cut) else events:
            await response.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        return _hang_up(request, response) if isinstance(answer, Cut) else response


def _hang_up(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return response


def _block_events(index: int, block: JSON) -> list[JSON]:
    if block["type"] == "tool_use":
        start = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


@asynccontextmanager
async def serving(model: Model) -> AsyncIterator[Model]:
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{path:.*}", model.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    model.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield model
    finally:
        model.closing.set()
        await runner.cleanup()
