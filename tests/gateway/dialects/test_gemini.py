from typing import Any

import msgspec
import pytest
from aiohttp import web

from dialect_lab import parsed, request_body, send
from gateway_lab import MODEL, parse_call, provider, upstream, world
from proctor.core.result import Tokens
from proctor.gateway import ReplayBackend, ScriptBackend, parse_script
from proctor.gateway.dialects import GEMINI
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import Role
from proctor.gateway.stream_reader import EventStreamReader
from proctor.gateway.upstream import ProviderAuth

ARRAY = f"/v1beta/models/{MODEL}:streamGenerateContent"


def read(*chunks: dict[str, Any]) -> tuple[UsageAccumulator, EventStreamReader]:
    usage = UsageAccumulator("asked")
    reader = EventStreamReader(GEMINI, usage)
    reader.feed(b"".join(GEMINI.encode_event(chunk) for chunk in chunks), 0)
    return usage, reader


def chunk(text: str, finish: str | None = None, **usage: int) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": finish}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "served"}


def test_thoughts_are_beside_the_output_cached_tokens_inside_the_prompt_and_the_last_count_wins() -> None:
    usage, reader = read(
        chunk("a", promptTokenCount=90, candidatesTokenCount=1),
        chunk(
            "b",
            "STOP",
            promptTokenCount=100,
            cachedContentTokenCount=40,
            toolUsePromptTokenCount=5,
            candidatesTokenCount=30,
            thoughtsTokenCount=20,
        ),
    )
    (one,) = usage.total()
    assert one.tokens == Tokens(input=65, output=50, cache_read=40, reasoning=20)
    assert (one.model, reader.events.finished) == ("served", True)


def test_a_stream_without_a_reason_to_stop_is_cut() -> None:
    _, reader = read(chunk("a", promptTokenCount=9))
    assert not reader.events.finished
    assert not reader.events.may_end


def test_a_blocked_prompt_is_a_whole_response() -> None:
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}
    usage, reader = read(blocked)
    assert reader.events.finished
    assert usage.total()[0].tokens == Tokens(input=9)
    assert GEMINI.is_message(blocked)


async def test_a_stream_may_be_one_array(tmp_path: Any) -> None:
    recording = tmp_path / "cassette.jsonl"
    usage = {"input": 100, "output": 50, "cache_read": 30, "reasoning": 20}
    script = ScriptBackend(parse_script({"default": [{"text": "Done."}], "usage": usage}))
    async with world(script, recording=recording) as lab:
        status, body = await send(lab, "gemini", path=ARRAY)
        chunks = msgspec.json.decode(body)
        assert (status, isinstance(chunks, list)) == (200, True)
        assert lab.session.usage.tokens == Tokens(input=100, output=50, cache_read=30, reasoning=20)
    async with world(ReplayBackend(lambda _: recording)) as lab:
        assert (await send(lab, "gemini", path=ARRAY))[1] == body
        assert lab.session.usage.tokens.output == 50


async def test_the_key_in_the_query_is_not_forwarded() -> None:
    async with provider() as source, world(upstream(source, auth=ProviderAuth.GOOGLE_API_KEY)) as lab:
        path = f"/models/{MODEL}:streamGenerateContent?alt=sse&key=placeholder"
        await send(lab, "gemini", path=path)
        (request,) = source.requests
        assert str(request.rel_url) == f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse"
        assert request.headers["x-goog-api-key"].startswith("sk-ant-dummy")


def test_a_router_is_a_side_call() -> None:
    schema: dict[str, Any] = {"generationConfig": {"responseJsonSchema": {"type": "object"}}}
    assert parsed("gemini", **schema).role is Role.SIDE
    assert parsed("gemini", offered=("run_shell_command",), **schema).role is Role.MAIN


def test_what_functions_returned_is_the_last_text() -> None:
    returned = {"functionResponse": {"name": "run_shell_command", "response": {"output": "3 passed"}}}
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "run_shell_command", "args": {}}}]},
        {"role": "user", "parts": [returned, {"text": "and on"}]},
    ]
    assert parsed("gemini", contents=contents).last_text() == "3 passed\nand on"


def test_a_single_content_is_a_conversation() -> None:
    body = msgspec.json.encode({"contents": {"parts": [{"text": "hi"}]}})
    call = parse_call(body, path=f"/v1beta/models/{MODEL}:generateContent")
    assert call is not None
    assert call.first_text() == "hi"


def test_signatures_and_ids_are_not_compared_and_arguments_are() -> None:
    def called(number: int, **more: Any) -> dict[str, Any]:
        call = {"name": "a", "args": {"id": number}, **more}
        return {"role": "model", "parts": [{"functionCall": call, "thoughtSignature": str(more)}]}

    assert GEMINI.comparable_item(called(1, id="x")) == GEMINI.comparable_item(called(1, id="y"))
    assert GEMINI.comparable_item(called(1)) != GEMINI.comparable_item(called(2))


@pytest.mark.parametrize("status", [402, 429, 503])
def test_errors_say_their_status_in_words(status: int) -> None:
    error = GEMINI.error_body(status, "no")["error"]
    assert (error["code"], error["message"]) == (status, "no")
    assert error["status"].isupper()


def test_the_body_needs_no_model() -> None:
    assert "model" not in request_body("gemini")


@pytest.mark.parametrize(
    ("asked", "header", "said", "speed"),
    [
        ({}, None, {}, None),
        ({"serviceTier": "priority"}, None, {}, "priority"),
        ({"service_tier": "FLEX"}, None, {}, "flex"),
        ({"service_tier": "priority"}, "standard", {}, None),
        ({"service_tier": "flex"}, "flex", {"serviceTier": "flex"}, "flex"),
        ({}, None, {"trafficType": "ON_DEMAND_PRIORITY"}, "priority"),
        ({"service_tier": "priority"}, None, {"trafficType": "ON_DEMAND"}, None),
    ],
)
async def test_the_price_is_that_of_the_tier_in_which_a_response_was_made(
    asked: dict[str, Any], header: str | None, said: dict[str, Any], speed: str | None
) -> None:
    model = "gemini-3.7-flash"
    reported = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 1_000_000, **said}
    body = {**chunk("hi", "STOP"), "usageMetadata": reported, "modelVersion": model}

    async def respond(request: web.Request) -> web.Response:
        return web.json_response(body, headers={} if header is None else {"x-gemini-service-tier": header})

    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        source.responses = [respond]
        await send(lab, "gemini", model=model, **asked)
        prices = {None: 4.5, "flex": 2.25, "priority": 8.1}
        assert lab.session.usage.cost_usd == pytest.approx(prices[speed])


def test_searches_of_all_chunks_are_counted() -> None:
    def searched(*queries: str) -> dict[str, Any]:
        whole = chunk("a", promptTokenCount=9)
        whole["candidates"][0]["groundingMetadata"] = {"webSearchQueries": [*queries]}
        return whole

    usage, _ = read(searched("one"), searched("one", "two"), chunk("", "STOP", promptTokenCount=9))
    assert usage.total()[0].web_searches == 2


def test_an_array_with_an_error_in_it_is_no_whole_response() -> None:
    body = msgspec.json.encode([chunk("a", "STOP", promptTokenCount=9), {"error": {"code": 503, "message": "gone"}}])
    assert not GEMINI.read_body(body, UsageAccumulator("asked"))
