from typing import Any

import msgspec
import pytest
from aiohttp import web

from dialect_lab import parsed, send
from gateway_lab import parse_call, provider, provider_body, upstream, world
from proctor.core.result import Tokens
from proctor.gateway import ScriptBackend, parse_script
from proctor.gateway.dialects import CHAT
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import Role
from proctor.gateway.stream_reader import EventStreamReader
from proctor.gateway.upstream import ProviderAuth


def read(*chunks: Any) -> tuple[UsageAccumulator, EventStreamReader]:
    usage = UsageAccumulator("asked")
    reader = EventStreamReader(CHAT, usage)
    reader.feed(b"".join(CHAT.encode_event(chunk) for chunk in chunks), 0)
    return usage, reader


def chunk(text: str = "", finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}], "model": "served", **more}


USAGE = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (USAGE, Tokens(input=100, output=50)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 30}}, Tokens(input=70, output=50, cache_read=30)),
        ({**USAGE, "prompt_cache_hit_tokens": 64}, Tokens(input=36, output=50, cache_read=64)),
        (
            {**USAGE, "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 20}},
            Tokens(input=50, output=50, cache_read=30, cache_write_5m=20),
        ),
        ({**USAGE, "completion_tokens_details": {"reasoning_tokens": 40}}, Tokens(input=100, output=50, reasoning=40)),
        (
            {**USAGE, "total_tokens": 190, "completion_tokens_details": {"reasoning_tokens": 40}},
            Tokens(input=100, output=90, reasoning=40),
        ),
        ({**USAGE, "prompt_tokens_details": None, "completion_tokens_details": None}, Tokens(input=100, output=50)),
    ],
)
def test_cached_tokens_are_inside_the_prompt_and_reasoning_is_inside_the_output(
    usage: dict[str, Any], tokens: Tokens
) -> None:
    seen, reader = read(chunk("hi", "stop"), {"choices": [], "usage": usage}, "[DONE]")
    assert seen.total()[0].tokens == tokens
    assert reader.events.finished


def test_of_several_reports_the_last_counts_wherever_it_stands() -> None:
    growing = [chunk("a", usage={**USAGE, "completion_tokens": count}) for count in (1, 2, 3)]
    usage, _ = read(*growing, chunk("", "stop", usage=USAGE), "[DONE]")
    assert usage.total()[0].tokens == Tokens(input=100, output=50)
    assert usage.total()[0].model == "served"


def test_a_stream_that_says_why_it_stopped_is_whole_without_its_last_word() -> None:
    _, reader = read(chunk("a"))
    assert not reader.events.may_end
    _, reader = read(chunk("a", "stop"))
    assert reader.events.may_end
    assert not reader.events.finished


def test_an_error_in_a_stream_is_known() -> None:
    _, reader = read(chunk("a"), {"error": {"code": "server_error", "message": "gone"}})
    assert reader.events.error == "server_error: gone"


def test_a_tier_with_a_price_of_its_own_is_noted() -> None:
    seen, _ = read(chunk("a", "stop"), {"choices": [], "usage": USAGE, "service_tier": "flex"}, "[DONE]")
    assert seen.total()[0].speed == "flex"
    seen, _ = read(chunk("a", "stop"), {"choices": [], "usage": USAGE, "service_tier": "default"}, "[DONE]")
    assert seen.total()[0].speed is None


def test_tools_results_and_the_users_text_since_the_models_message_are_the_last_text() -> None:
    messages = [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "first"},
        {"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]},
        {"role": "tool", "tool_call_id": "a", "content": "3 passed"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "4 failed"}]},
    ]
    call = parsed("chat", messages=messages)
    assert call.last_text() == "3 passed\n4 failed"
    assert (call.first_text(), call.system_text()) == ("first", "Be terse.")


@pytest.mark.parametrize(
    ("headers", "offered", "role"),
    [
        ({"user-agent": "opencode/1.18"}, (), Role.SIDE),
        ({"user-agent": "opencode/1.18"}, ("bash",), Role.MAIN),
        ({"user-agent": "OpenAI/Python 2.1"}, (), Role.MAIN),
    ],
)
def test_a_request_without_tools_is_a_side_call_of_programs_that_work_with_tools(
    headers: dict[str, str], offered: tuple[str, ...], role: Role
) -> None:
    assert parsed("chat", headers=headers, offered=offered).role is role


def asking(*, usage: bool) -> dict[str, Any]:
    return {"stream_options": {"include_usage": True}} if usage else {"stream_options": None}


async def test_usage_is_asked_for_and_taken_out_again_for_a_client_that_did_not_ask() -> None:
    message = {**USAGE, "prompt_tokens": 7, "total_tokens": 57}
    stream: list[Any] = [
        chunk("Hel", usage=None),
        chunk("lo", "stop", usage=None),
        {"choices": [], "usage": message},
        "[DONE]",
    ]
    data = b"".join(CHAT.encode_event(one) for one in stream)

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for start in range(0, len(data), 9):
            await response.write(data[start : start + 9])
        return response

    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        source.responses = [handle]
        _, silent = await send(lab, "chat", stream=True, **asking(usage=False))
        _, asked = await send(lab, "chat", stream=True, **asking(usage=True))
        bodies = [msgspec.json.decode(body) for body in source.bodies]
        assert [body["stream_options"]["include_usage"] for body in bodies] == [True, True]
        assert lab.session.usage.tokens == Tokens(input=14, output=100)
    assert asked == data
    assert b"usage" not in silent
    assert silent.count(b"data: ") == 3
    assert silent.endswith(b"data: [DONE]\n\n")
    assert b"Hel" in silent


async def test_a_server_that_refuses_to_be_asked_for_usage_is_not_asked() -> None:
    data = b"".join(CHAT.encode_event(one) for one in (chunk("Hi", "stop", usage=USAGE), "[DONE]"))

    async def handle(request: web.Request) -> web.StreamResponse:
        if b"stream_options" in provider_body(request):
            error = {"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}
            return web.json_response(error, status=422)
        return web.Response(body=data, headers={"content-type": "text/event-stream"})

    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        source.responses = [handle]
        for _ in range(2):
            status, _ = await send(lab, "chat", stream=True, **asking(usage=False))
            assert status == 200
        assert [b"stream_options" in body for body in source.bodies] == [True, False, False]
        assert lab.session.usage.tokens == Tokens(input=200, output=100)
        status, _ = await send(lab, "chat", stream=True, **asking(usage=True))
        assert status == 422, "what the client itself asks for is its own"


async def test_other_stream_options_are_kept() -> None:
    call = parsed("chat", stream=True, stream_options={"include_usage": False, "include_obfuscation": False})
    sent = msgspec.json.decode(call.body)
    assert sent["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert call.hides_usage


@pytest.mark.parametrize("end", ["}", " } \r\n"])
def test_a_request_that_does_not_ask_for_usage_is_sent_as_it_is_and_asks_for_it(end: str) -> None:
    body = '{ "stream": true, "model":"m",\n"messages" : [{"role":"user","content":"a } \\u00fc"}]' + end
    call = parse_call(body.encode(), path="/v1/chat/completions")
    assert call is not None
    assert (
        call.body.decode() == f'{body[: -len(end)]}{end[: end.index("}")]},"stream_options":{{"include_usage":true}}}}'
    )
    assert call.hides_usage


def test_no_member_of_a_request_is_sent_twice() -> None:
    for given in (b"null", b"{}"):
        body = b'{"model":"m","stream":true,"messages":[],"stream_options":' + given + b"}"
        call = parse_call(body, path="/v1/chat/completions")
        assert call is not None
        assert call.body.count(b'"stream_options"') == 1
        assert msgspec.json.decode(call.body)["stream_options"] == {"include_usage": True}


def test_a_request_that_is_not_streamed_is_sent_as_it_is() -> None:
    assert not parsed("chat").altered


async def test_a_script_may_call_a_tool_without_a_schema() -> None:
    steps = [{"tools": [{"exec": "text(1)"}]}]
    async with world(ScriptBackend(parse_script({"default": steps}))) as lab:
        _, body = await send(lab, "chat")
        (call,) = msgspec.json.decode(body)["choices"][0]["message"]["tool_calls"]
        assert call["custom"] == {"name": "exec", "input": "text(1)"}


def test_ids_thoughts_and_the_system_prompt_are_not_compared() -> None:
    one = {"role": "assistant", "tool_calls": [{"id": "call_1", "function": {"name": "a", "arguments": "{}"}}]}
    two = {"role": "assistant", "tool_calls": [{"id": "x9", "function": {"name": "a", "arguments": "{}"}}]}
    assert CHAT.comparable_item(one) == CHAT.comparable_item({**two, "reasoning_content": "hm", "content": None})
    assert CHAT.comparable_item({"role": "system", "content": "a"}) == CHAT.comparable_item({"role": "developer"})


def test_the_tier_that_was_asked_for_holds_until_a_response_says_another_in_any_of_its_chunks() -> None:
    def speed(*chunks: Any) -> str | None:
        usage = UsageAccumulator("asked", "priority")
        EventStreamReader(CHAT, usage).feed(b"".join(CHAT.encode_event(chunk) for chunk in chunks), 0)
        return usage.total()[0].speed

    last = {"choices": [], "usage": USAGE}
    assert speed(chunk("a", "stop"), last) == "priority"
    assert speed(chunk("a", service_tier=None), chunk("", "stop", service_tier="default"), last) is None
    assert speed(chunk("a", service_tier="flex"), chunk("", "stop"), {**last, "service_tier": None}) == "flex"


@pytest.mark.parametrize("reason", ["error", "insufficient_system_resource", "network_error"])
def test_a_reason_to_stop_that_is_the_servers_failure_is_an_error(reason: str) -> None:
    broken = chunk("half", reason)
    _, reader = read(broken, {"choices": [], "usage": USAGE}, "[DONE]")
    assert (reader.events.finished, reader.events.error) == (False, f"{reason}: ")
    assert not CHAT.is_complete([broken, "[DONE]"])
    body = {"choices": [{"message": {"content": "half"}, "finish_reason": reason}], "usage": USAGE}
    usage = UsageAccumulator("asked")
    assert not CHAT.read_body(msgspec.json.encode(body), usage)
    assert usage.total()[0].tokens == Tokens(input=100, output=50)
    assert not CHAT.is_message(body)


def test_an_error_inside_a_choice_is_one() -> None:
    failed = {"choices": [{"delta": {}, "finish_reason": None, "error": {"code": 502, "message": "gone"}}]}
    _, reader = read(chunk("a"), failed, "[DONE]")
    assert reader.events.error == "502: gone"
    assert not CHAT.read_body(msgspec.json.encode({"choices": [], "error": {"code": 502}}), UsageAccumulator("asked"))


@pytest.mark.parametrize(
    "asked",
    [
        {"search_parameters": {"mode": "auto"}},
        {"enable_search": True},
        {"web_search": {"enable": True}},
        {"data_sources": [{"type": "azure_search"}]},
        {"preset": "research"},
        {"model": "perplexity/sonar-pro"},
        {"model": "groq/compound-mini"},
        {"model": "qwen-deep-research"},
    ],
)
def test_a_search_is_the_providers_whatever_it_is_asked_by(asked: dict[str, Any]) -> None:
    assert len(parsed("chat", **asked).server_tools) == 1


@pytest.mark.parametrize("asked", [{"enable_search": False}, {"data_sources": []}, {"model": "compounding"}])
def test_what_asks_for_no_search_is_none(asked: dict[str, Any]) -> None:
    assert parsed("chat", **asked).server_tools == ()
