"""Responses as no provider documents them, and some server sends them: counted all the same."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from dialect_lab import NAMES, send
from gateway_lab import MODEL, Provider, World, provider, upstream, world
from proctor.core.causes import Cause
from proctor.core.result import Tokens
from proctor.gateway.dialects import DIALECTS
from proctor.gateway.dialects.base import ScriptedMessage, ScriptedTool
from proctor.gateway.upstream import ProviderAuth

each_dialect = pytest.mark.parametrize("name", NAMES)
USED = Tokens(input=100, output=50, cache_read=30)
SSE = "text/event-stream"


def stream_of(name: str, text: str = "Hello.", *, tools: tuple[ScriptedTool, ...] = (), piece: int = 0) -> list[bytes]:
    """The events of a response, encoded."""
    dialect = DIALECTS[name]
    scripted = ScriptedMessage(number=1, model=MODEL, text=text, tools=tools, tokens=USED)
    return [*map(dialect.encode_event, dialect.events_from_message(dialect.render(scripted), piece_length=piece))]


def sending(*chunks: bytes, kind: str | None = SSE, **headers: str) -> Any:
    """A response in these chunks."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={name.replace("_", "-"): value for name, value in headers.items()})
        if kind is not None:
            response.headers["content-type"] = kind
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        return response

    return handle


@asynccontextmanager
async def served(*handlers: Any, **options: Any) -> AsyncIterator[tuple[Provider, World]]:
    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER), **options) as lab:
        source.responses = [*handlers]
        yield source, lab


@each_dialect
async def test_the_last_event_needs_no_empty_line_after_it(name: str) -> None:
    stream = b"".join(stream_of(name))
    async with served(sending(stream.rstrip(b"\r\n"))) as (_, lab):
        assert (await send(lab, name, stream=True))[0] == 200
        usage = lab.session.usage
        assert (usage.tokens, usage.cut) == (USED, 0)


@each_dialect
async def test_an_event_may_have_megabytes_and_come_in_any_pieces(name: str) -> None:
    calls = (ScriptedTool(1, "write", {"content": "x" * 6_000_000}),)
    stream = b"".join(stream_of(name, tools=calls))
    pieces = [stream[start : start + 100_001] for start in range(0, len(stream), 100_001)]
    async with served(sending(*pieces)) as (_, lab):
        _, body = await send(lab, name, stream=True)
        assert body == stream
        usage = lab.session.usage
        assert (usage.tokens, usage.cut, usage.cost_usd is None) == (USED, 0, False)


@each_dialect
@pytest.mark.parametrize("kind", [None, "text/plain; charset=utf-8", "application/octet-stream", "Text/Event-Stream"])
async def test_a_stream_is_one_whatever_its_server_calls_it(name: str, kind: str | None) -> None:
    async with served(sending(*stream_of(name), kind=kind)) as (_, lab):
        await send(lab, name, stream=True)
        usage = lab.session.usage
        assert (usage.tokens, usage.cut) == (USED, 0)


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
async def test_a_response_may_be_packed_though_that_was_not_asked_for(name: str, stream: bool) -> None:
    dialect = DIALECTS[name]
    whole = dialect.render(ScriptedMessage(number=1, model=MODEL, text="Hello.", tokens=USED))
    data = b"".join(stream_of(name)) if stream else msgspec.json.encode(whole)
    # In two members, as a server has it that packs each piece by itself.
    packed = gzip.compress(data[:50]) + gzip.compress(data[50:])
    handler = sending(packed[:20], packed[20:], kind=SSE if stream else "application/json", content_encoding="gzip")
    async with served(handler) as (_, lab):
        _, body = await send(lab, name, stream=stream)
        assert body == data
        assert (lab.session.usage.tokens, lab.session.usage.cut) == (USED, 0)


# The first event that has text, by which the report stands that is the only one.
EARLY = {
    "messages": lambda events: [event for event in events if b"message_delta" not in event],
    "chat": lambda events: [*events[:1], events[-2], *events[1:-2], events[-1]],
    "gemini": lambda events: [with_usage(events[0]), *events[1:-1], without_usage(events[-1])],
}


def with_usage(event: bytes) -> bytes:
    value = msgspec.json.decode(event.removeprefix(b"data: "))
    reported = {"promptTokenCount": 100, "candidatesTokenCount": 1}
    return DIALECTS["gemini"].encode_event({**value, "usageMetadata": reported})


def without_usage(event: bytes) -> bytes:
    value = msgspec.json.decode(event.removeprefix(b"data: "))
    return DIALECTS["gemini"].encode_event({name: one for name, one in value.items() if name != "usageMetadata"})


@pytest.mark.parametrize("name", EARLY)
async def test_a_report_before_the_text_is_none_of_the_whole(name: str) -> None:
    """What was written after it costs something that nobody knows; a budget is charged as much as it may be."""
    events = EARLY[name](stream_of(name, "x" * 400, piece=40))
    async with served(sending(*events), cap_usd=1.0) as (_, lab):
        await send(lab, name, stream=True)
        usage = lab.session.usage
        assert (usage.cut, usage.cost_usd, usage.turns) == (0, None, 1)
        assert usage.tokens.output >= 360
        assert lab.gateway.budget.spent_usd >= 360 * 15 / 1e6


async def test_members_that_say_nothing_end_no_stream() -> None:
    for name, old, new in (
        ("chat", b'"finish_reason":null', b'"finish_reason":""'),
        ("gemini", b'"index":0}', b'"index":0,"finishReason":"FINISH_REASON_UNSPECIFIED"}'),
    ):
        *events, last = stream_of(name, "x" * 100, piece=20)
        events = [*(event.replace(old, new) for event in events), last]
        assert b"".join(events).count(new) >= 5
        async with served(sending(*events[:4])) as (_, lab):
            await send(lab, name, stream=True)
            assert lab.session.usage.cut == 1, name
        async with served(sending(*events)) as (_, lab):
            await send(lab, name, stream=True)
            assert (lab.session.usage.cut, lab.session.usage.tokens) == (0, USED), name


@pytest.mark.parametrize("model", ["qwen3:8b", "deepseek/deepseek-chat:free", "models/x", "modèle é", "a b/c"])
async def test_names_of_models_in_a_path_may_have_any_characters(model: str) -> None:
    message = DIALECTS["gemini"].render(ScriptedMessage(number=1, model=MODEL, text="x", tokens=USED))
    async with served(sending(msgspec.json.encode(message), kind="application/json")) as (source, lab):
        status, _ = await send(lab, "gemini", model=model)
        assert status == 200
        assert source.requests[0].path == f"/v1beta/models/{model}:generateContent"


@each_dialect
async def test_an_address_that_redirects_stops_the_run_and_says_so(name: str) -> None:
    async def moved(request: web.Request) -> web.StreamResponse:
        return web.Response(status=308, headers={"location": f"https://elsewhere.example{request.path}"})

    async with served(moved) as (source, lab):
        status, body = await send(lab, name, headers={"user-agent": "claude-cli/2.1.0"})
        assert (status >= 400, b"redirects to https://elsewhere.example" in body) == (True, True)
        assert len(source.requests) == 1
        assert lab.session.failure is not None
        assert lab.session.failure.cause is Cause.BAD_LOGIN
        assert lab.session.usage.cost_usd == 0


@each_dialect
async def test_a_model_that_the_provider_does_not_have_stops_the_run(name: str) -> None:
    async def unknown(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no such model"}}, status=404)

    async with served(unknown) as (source, lab):
        assert (await send(lab, name))[0] in {400, 404}
        assert len(source.requests) == 1
        assert lab.session.failure is not None
        assert lab.session.failure.cause is Cause.BAD_LOGIN
        assert "no such model" in lab.session.failure.message


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "DELETE"])
async def test_what_an_account_has_stored_is_not_read_with_our_key(method: str) -> None:
    async with served() as (source, lab):
        for path in (
            "/v1/files",
            "/v1/chat/completions",
            "/v1/responses/resp_1",
            "/v1/organization/costs",
            "/v1",
            "/x",
        ):
            async with lab.agent.http.request(method, lab.agent.base + path) as response:
                assert response.status == 403, path
        assert source.requests == []


async def test_which_models_there_are_may_be_asked() -> None:
    async with served(sending(b"{}", kind="application/json")) as (source, lab):
        for path in ("/v1/models", "/v1/models/gpt-5.5", "/v1beta/models?pageSize=50"):
            async with lab.agent.http.get(lab.agent.base + path) as response:
                assert response.status == 200, path
        assert len(source.requests) == 3
