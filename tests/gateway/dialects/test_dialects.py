"""What is true of every dialect: metering, limits, recording, replay, scripts."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from dialect_lab import NAMES, parsed, request_body, request_path, send
from gateway_lab import MODEL, Provider, provider, provider_body, upstream, world
from proctor.core.causes import Cause
from proctor.core.result import Tokens
from proctor.gateway import (
    BudgetLimitHit,
    Gateway,
    GatewaySessionSpec,
    ReplayBackend,
    ReplayDivergence,
    ScriptBackend,
    load_recording,
    parse_script,
)
from proctor.gateway.backend import Backend
from proctor.gateway.dialects import DIALECTS, route
from proctor.gateway.dialects.base import ScriptedMessage, ScriptedTool
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import ConversationNames, Role
from proctor.gateway.recorder import EventBuffer
from proctor.gateway.recording import ExpandedExchange, RecordedExchange, RecordedRequest, RecordedResponse
from proctor.gateway.redact import Redactor
from proctor.gateway.sse import EventSplitter
from proctor.gateway.stream_reader import EventStreamReader
from proctor.gateway.upstream import ProviderAuth

each_dialect = pytest.mark.parametrize("name", NAMES)
streamed_or_not = pytest.mark.parametrize("stream", [False, True])
USED = Tokens(input=100, output=50, cache_read=30, reasoning=20)
# The Messages API does not say how much of its output was thought.
REPORTED = {name: USED if name != "messages" else msgspec.structs.replace(USED, reasoning=0) for name in NAMES}


def script(*steps: Any) -> Backend:
    usage = {"input": 100, "output": 50, "cache_read": 30, "reasoning": 20}
    return ScriptBackend(parse_script({"default": list(steps), "usage": usage}))


MESSAGES = st.builds(
    ScriptedMessage,
    number=st.integers(1, 9),
    model=st.just(MODEL),
    thinking=st.none() | st.text(min_size=1),
    text=st.text(min_size=1),
    tools=st.lists(
        st.builds(
            ScriptedTool,
            number=st.integers(1, 99),
            name=st.just("bash"),
            arguments=st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53), max_size=3),
        ),
        max_size=2,
    ).map(tuple),
    tokens=st.just(USED),
)


@each_dialect
@given(message=MESSAGES, piece=st.integers(0, 5))
def test_a_message_survives_being_streamed(name: str, message: ScriptedMessage, piece: int) -> None:
    dialect = DIALECTS[name]
    whole = dialect.render(message)
    events = list(dialect.events_from_message(whole, piece_length=piece))
    assert dialect.is_message(whole)
    assert dialect.is_complete(events)
    again = dialect.message_from_events([event for event in events if isinstance(event, dict)])
    assert again == whole


@each_dialect
@given(message=MESSAGES, piece=st.integers(0, 5), cut=st.integers(1, 40))
def test_usage_is_read_to_the_token_however_the_stream_is_cut_into_chunks(
    name: str, message: ScriptedMessage, piece: int, cut: int
) -> None:
    dialect = DIALECTS[name]
    events = dialect.events_from_message(dialect.render(message), piece_length=piece)
    stream = b"".join(dialect.encode_event(event) for event in events)
    usage = UsageAccumulator("asked")
    reader = EventStreamReader(dialect, usage)
    for start in range(0, len(stream), cut):
        reader.feed(stream[start : start + cut], 0)
    (read,) = usage.total()
    assert (read.model, read.tokens) == (MODEL, REPORTED[name])
    assert reader.events.finished


@each_dialect
@given(message=MESSAGES, piece=st.integers(1, 5))
def test_a_recording_gives_back_every_event_in_its_piece(
    tmp_path_factory: pytest.TempPathFactory, name: str, message: ScriptedMessage, piece: int
) -> None:
    dialect = DIALECTS[name]
    events = list(dialect.events_from_message(dialect.render(message), piece_length=piece))
    buffer = EventBuffer(dialect, Redactor(), tmp_path_factory.getbasetemp())
    for at, event in enumerate(events):
        (payload,) = EventSplitter().feed(dialect.encode_event(event))
        buffer.add(payload, at)
    entries = msgspec.json.decode(b"[" + b"".join(buffer.blocks()) + b"]")
    buffer.close()
    assert list(_expanded(name, entries).timeline()) == list(enumerate(events))
    assert len(entries) <= 20 + 8 * len(message.tools), "pieces of one text are one entry"


def _expanded(name: str, entries: list[Any]) -> ExpandedExchange:
    request = RecordedRequest(
        model=MODEL, stream=True, system=None, tools=None, params=None, base=None, keep=0, add=[], dialect=name
    )
    exchange = RecordedExchange(
        number=1,
        conversation="main",
        role="main",  # type: ignore[arg-type]
        agent="",
        at="",
        request=request,
        response=RecordedResponse(status=200, headers={}, ms=0),
        events=entries,
    )
    return ExpandedExchange(exchange=exchange, system=None, tools=None, params=None, messages=[])


@each_dialect
@pytest.mark.parametrize("prefix", ["", "/v1", "/v1beta"])
def test_requests_are_routed_by_the_end_of_their_path(name: str, prefix: str) -> None:
    ends = {
        "messages": "/messages",
        "chat": "/chat/completions",
        "responses": "/responses",
        "gemini": "/models/m:generateContent",
    }
    found = route("POST", prefix + ends[name], "")
    assert found is not None
    assert found.dialect.name == name
    assert route("GET", prefix + ends[name], "") is None
    assert route("POST", prefix + ends[name] + "/more", "") is None


@each_dialect
def test_the_parts_of_a_request_are_found(name: str) -> None:
    call = parsed(name, "fix it", system="Be terse.", offered=("bash", "edit"), stream=True)
    assert (call.model, call.stream, call.tools) == (MODEL, True, ("bash", "edit"))
    assert (call.first_text(), call.last_text(), call.system_text()) == ("fix it", "fix it", "Be terse.")
    assert not parsed(name).stream


@each_dialect
@streamed_or_not
async def test_what_a_response_reports_is_counted_and_priced(name: str, stream: bool) -> None:
    async with world(script({"text": "Hello.", "thinking": "Hm."})) as lab:
        status, body = await send(lab, name, stream=stream)
        assert status == 200
        assert b"Hello." in body
        usage = lab.session.usage
        assert usage.tokens == REPORTED[name]
        assert usage.cost_usd == pytest.approx((100 * 3 + 50 * 15 + 30 * 0.3) / 1e6)
        assert (usage.turns, usage.cut) == (1, 0)


@each_dialect
async def test_a_stream_without_its_end_is_cut_and_charged_by_what_was_delivered(name: str) -> None:
    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        dialect = DIALECTS[name]
        message = dialect.render(ScriptedMessage(number=1, model=MODEL, text="x" * 400, tokens=USED))
        events = list(dialect.events_from_message(message, piece_length=100))
        source.responses = [_streaming(b"".join(dialect.encode_event(event) for event in events[:4]))]
        await send(lab, name, stream=True)
        await asyncio.sleep(0)
        usage = lab.session.usage
        assert (usage.cut, usage.models[0].estimated_requests) == (1, 1)
        assert usage.tokens.output >= 100
        assert usage.cost_usd


def _streaming(data: bytes) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(data)
        return response

    return handle


def _without_usage(name: str) -> tuple[dict[str, Any], bytes]:
    dialect = DIALECTS[name]
    message = dialect.render(ScriptedMessage(number=1, model=MODEL, text="Hello."))
    member = "usageMetadata" if name == "gemini" else "usage"
    message[member] = None
    if name == "messages":
        message.pop(member)
    events = list(dialect.events_from_message(message))
    for event in events:
        if isinstance(event, dict):
            for holder in (event, event.get("message") or {}, event.get("response") or {}):
                holder.pop(member, None)
    return message, b"".join(dialect.encode_event(event) for event in events)


@each_dialect
@streamed_or_not
async def test_a_whole_response_that_reports_nothing_has_an_unknown_cost(name: str, stream: bool) -> None:
    message, events = _without_usage(name)
    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER), cap_usd=1.0) as lab:

        async def plain(request: web.Request) -> web.StreamResponse:
            return web.json_response(message)

        source.responses = [_streaming(events) if stream else plain]
        status, _ = await send(lab, name, stream=stream)
        usage = lab.session.usage
        assert (status, usage.cost_usd, usage.cut) == (200, None, 0)
        assert lab.gateway.budget.spent_usd > 0, "a budget is charged the upper estimate"
        assert lab.session.limit is None


REFUSED = {"messages": 402, "chat": 402, "responses": 400, "gemini": 402}


@each_dialect
async def test_once_a_budget_is_spent_every_request_gets_the_same_final_refusal(name: str, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    async with world(script({"text": "x", "repeat": "forever"}), cap_usd=0.0005, recording=recording) as lab:
        assert (await send(lab, name))[0] == 200
        for _ in range(2):
            status, body = await send(lab, name)
            assert (status, b"budget_exhausted" in body) == (REFUSED[name], True)
        assert [event.cause for event in lab.events_of(BudgetLimitHit)] == [Cause.TASK_BUDGET]
        assert lab.session.usage.refused == 2
    assert [refusal.status for refusal in load_recording(recording).refusals] == [REFUSED[name]] * 2


async def test_a_refusal_has_the_words_by_which_openais_clients_know_that_it_is_final() -> None:
    async with world(script({"text": "x"}), cap_usd=0.0005) as lab:
        await send(lab, "responses")
        _, body = await send(lab, "responses")
        error = msgspec.json.decode(body)["error"]
        assert (error["type"], error["code"]) == ("insufficient_quota", "insufficient_quota")


@each_dialect
async def test_a_program_may_need_a_status_of_its_own_to_give_up(name: str) -> None:
    spec = GatewaySessionSpec(task_id="t", cap_usd=0.0, refusal_status=401)
    async with Gateway(script({"text": "x"})) as gateway:
        url = await gateway.listen()
        async with gateway.session(spec) as session:
            status, body = await _post(url + session.path, name)
    assert status == 401
    assert b"budget_exhausted" in body


async def _post(base: str, name: str) -> tuple[int, bytes]:
    from aiohttp import ClientSession

    async with ClientSession() as http, http.post(base + request_path(name), json=request_body(name)) as response:
        return response.status, await response.read()


@each_dialect
def test_sub_agents_of_opencode_are_conversations_of_their_own_and_its_titles_side_calls(name: str) -> None:
    names = ConversationNames()
    of_opencode = {"user-agent": "opencode/1.18", "x-session-id": "a"}
    main, title = parsed(name, headers=of_opencode, offered=("bash",)), parsed(name, headers=of_opencode)
    child = parsed(name, headers={**of_opencode, "x-session-id": "b", "x-parent-session-id": "a"}, offered=("bash",))
    assert [call.role for call in (main, title, child)] == [Role.MAIN, Role.SIDE, Role.SUBAGENT]
    assert [names.name(call) for call in (main, child, main)] == ["main", "subagent-1", "main"]


@each_dialect
async def test_turns_are_limited(name: str) -> None:
    spec = GatewaySessionSpec(task_id="t", max_turns=2)
    async with Gateway(script({"text": "x", "repeat": "forever"})) as gateway:
        url = await gateway.listen()
        async with gateway.session(spec) as session:
            statuses = [(await _post(url + session.path, name))[0] for _ in range(4)]
            assert statuses == [200, 200, REFUSED[name], REFUSED[name]]
            assert session.limit is not None
            assert session.limit.cause is Cause.TURN_LIMIT


@each_dialect
@streamed_or_not
async def test_a_recording_replays_and_counts_the_same(name: str, stream: bool, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    steps = ({"text": "Look.", "tools": [{"bash": {"command": "ls"}}]}, {"text": "Done.", "piece": 2})
    async with world(script(*steps), recording=recording) as lab:
        first = [await send(lab, name, text, stream=stream) for text in ("one", "two")]
        usage = lab.session.usage
    async with world(ReplayBackend(lambda _: recording)) as lab:
        again = [await send(lab, name, text, stream=stream) for text in ("one", "two")]
        assert again == first
        assert lab.session.usage == usage
        other = [await send(lab, name, "another text", stream=stream)]
        assert other[0][0] == DIALECTS[name].refusal_status(451)
        assert lab.events_of(ReplayDivergence)


@each_dialect
@streamed_or_not
async def test_a_recorded_stream_also_replays_whole_and_the_other_way_round(
    name: str, stream: bool, tmp_path: Path
) -> None:
    recording = tmp_path / "cassette.jsonl"
    async with world(script({"text": "Done.", "piece": 2}), recording=recording) as lab:
        await send(lab, name, stream=stream)
    async with world(ReplayBackend(lambda _: recording)) as lab:
        status, body = await send(lab, name, stream=not stream)
        assert (status, lab.session.usage.tokens) == (200, REPORTED[name])
        assert b"Done." in body


@each_dialect
async def test_another_dialect_than_the_recorded_one_diverges(name: str, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    async with world(script({"text": "Done."}), recording=recording) as lab:
        await send(lab, name)
    other = NAMES[NAMES.index(name) - 1]
    async with world(ReplayBackend(lambda _: recording)) as lab:
        await send(lab, other)
        (divergence,) = lab.events_of(ReplayDivergence)
        assert f"in the dialect {other} where {name} was recorded" in divergence.message


@each_dialect
@streamed_or_not
async def test_responses_paid_by_an_interrupted_attempt_are_not_paid_again(
    name: str, stream: bool, tmp_path: Path
) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    async with provider() as source:
        dialect = DIALECTS[name]
        source.responses = [_answering(dialect.name)]
        async with world(upstream(source, auth=ProviderAuth.BEARER), recording=first) as lab:
            before = await send(lab, name, stream=stream)
        spec = GatewaySessionSpec(task_id="t", recording=second, earlier_recordings=(first,))
        async with Gateway(upstream(source, auth=ProviderAuth.BEARER)) as gateway:
            url = await gateway.listen()
            async with gateway.session(spec) as session:
                lab.agent.base = url + session.path
                async with ClientSession() as http:
                    lab.agent.http = http
                    again = await send(lab, name, stream=stream)
                    assert (
                        again == before if stream else msgspec.json.decode(again[1]) == msgspec.json.decode(before[1])
                    )
                    assert session.usage.cost_usd == 0
                    await send(lab, name, "something new", stream=stream)
                    assert session.usage.tokens == REPORTED[name]
        assert len(source.requests) == 2


def _answering(name: str) -> Any:
    dialect = DIALECTS[name]
    message = dialect.render(ScriptedMessage(number=1, model=MODEL, text="Hello.", tokens=USED))

    async def handle(request: web.Request) -> web.StreamResponse:
        if b'"stream":true' not in provider_body(request) and "stream" not in request.path:
            return web.json_response(message)
        events = dialect.events_from_message(message)
        return await _streaming(b"".join(dialect.encode_event(event) for event in events))(request)  # type: ignore[no-any-return]

    return handle


async def _failing(status: int) -> Any:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "busy"}}, status=status)

    return handle


@each_dialect
async def test_the_gateway_retries_and_then_answers_with_a_status_that_is_final_for_the_agent(name: str) -> None:
    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        source.responses = [await _failing(529)]
        status, body = await send(lab, name)
        assert (status, b"busy" in body) == (400, True)
        assert len(source.requests) == 4
        assert lab.session.failure is not None
        assert lab.session.failure.cause is Cause.PROVIDER_ERROR
        assert lab.session.usage.errors == {"529": 4}
        assert lab.session.usage.cost_usd == 0


@pytest.mark.parametrize("header", [{"user-agent": "claude-cli/2.1 (cli)"}, {"x-claude-code-session-id": "s"}])
async def test_claude_code_gets_the_providers_status_and_is_told_not_to_try_again(header: dict[str, str]) -> None:
    async with provider() as source, world(upstream(source)) as lab:
        source.responses = [await _failing(529)]
        assert (await send(lab, "messages", headers=header))[0] == 529


@each_dialect
async def test_an_error_that_a_retry_overcomes_is_not_seen_by_the_agent(name: str) -> None:
    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        source.responses = [await _failing(429), await _failing(500), _answering(name)]
        status, _ = await send(lab, name)
        assert (status, lab.session.usage.tokens) == (200, REPORTED[name])


async def _sent(source: Provider, name: str, **options: Any) -> tuple[web.BaseRequest, dict[str, Any]]:
    source.responses = [_answering(name)]
    async with world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        await send(lab, name, **options)
    return source.requests[-1], msgspec.json.decode(source.bodies[-1])


@each_dialect
async def test_a_foreign_model_is_replaced_by_the_runs_and_that_is_counted(name: str) -> None:
    async with provider() as source:
        source.responses = [_answering(name)]
        spec = GatewaySessionSpec(task_id="t", model=MODEL)
        async with Gateway(upstream(source, auth=ProviderAuth.BEARER)) as gateway, ClientSession() as http:
            url = await gateway.listen()
            async with gateway.session(spec) as session:
                from dialect_lab import request_path

                for model in ("tiny-titles", f"{MODEL}-20250929"):
                    path, body = request_path(name, model=model), request_body(name, model=model)
                    async with http.post(url + session.path + path, json=body) as response:
                        assert response.status == 200
                assert session.usage.pinned == {"tiny-titles": 1}
                assert [entry.model for entry in session.usage.models] == [MODEL]
        asked = [request.path + source.bodies[index].decode() for index, request in enumerate(source.requests)]
        assert "tiny-titles" not in asked[0]
        assert MODEL in asked[0]


@pytest.mark.parametrize(
    ("name", "extra", "what"),
    [
        ("chat", {"n": 2}, "n > 1"),
        ("responses", {"background": True}, "background"),
        ("responses", {"previous_response_id": "resp_1"}, "previous_response_id"),
        ("responses", {"conversation": {"id": "conv_1"}}, "conversation"),
        ("responses", {"prompt": {"id": "pmpt_1"}}, "prompt"),
        ("responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}, "item_reference"),
        ("chat", {"models": ["a", "b"]}, "models"),
        ("chat", {"modalities": ["text", "audio"]}, "modalities"),
        ("gemini", {"generationConfig": {"candidateCount": 3}}, "candidateCount > 1"),
        ("gemini", {"generation_config": {"candidate_count": 3}}, "candidateCount > 1"),
        ("gemini", {"cachedContent": "cachedContents/a"}, "cachedContent"),
        ("gemini", {"cached_content": "cachedContents/a"}, "cachedContent"),
        ("gemini", {"generationConfig": {"responseModalities": ["IMAGE"]}}, "responseModalities"),
    ],
)
async def test_requests_that_cannot_be_metered_or_recorded_are_refused_and_counted(
    name: str, extra: dict[str, Any], what: str
) -> None:
    async with world(script({"text": "x"})) as lab:
        status, body = await send(lab, name, **extra)
        assert (status, b"not_supported" in body) == (400, True)
        assert lab.session.usage.unsupported == {what: 1}
        assert (await send(lab, name))[0] == 200, "the request alone is refused"


@pytest.mark.parametrize(
    ("name", "extra", "priced"),
    [
        ("chat", {"web_search_options": {"search_context_size": "low"}}, False),
        ("chat", {"web_search_options": {}}, False),
        ("chat", {"tools": [{"type": ["web_search"]}]}, False),
        ("chat", {"tools": [{"type": "web_search"}]}, False),
        ("chat", {"plugins": [{"id": "web"}]}, False),
        ("responses", {"tools": [{"type": "web_search"}]}, True),
        ("responses", {"tools": [{"type": "code_interpreter"}]}, False),
        ("responses", {"tools": [{"type": "mcp", "server_url": "https://x"}]}, False),
        ("responses", {"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "file_search"}]}]}, False),
        ("responses", {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, False),
        ("responses", {"input": [{"type": "additional_tools", "tools": [{"type": "image_generation"}]}]}, False),
        ("gemini", {"tools": [{"googleSearch": {}}]}, True),
        ("gemini", {"tools": [{"functionDeclarations": []}, {"codeExecution": {}}]}, False),
    ],
)
async def test_tools_of_the_provider_need_a_run_that_allows_them_and_a_price(
    name: str, extra: dict[str, Any], priced: bool
) -> None:
    async with world(script({"text": "x"})) as lab:
        status, body = await send(lab, name, **extra)
        assert (status, b"web_not_allowed" in body, lab.session.usage.web_refused) == (400, True, 1)
    async with world(script({"text": "x"}), web=True) as lab:
        assert (await send(lab, name, **extra))[0] == (200 if priced else 400)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("chat", {"tools": [{"type": "function", "function": {"name": "a"}}, {"type": "custom"}]}),
        ("responses", {"tools": [{"type": "custom", "name": "a"}, {"type": "local_shell"}, {"type": "apply_patch"}]}),
        ("responses", {"tools": [{"type": "shell", "environment": {"type": "local"}}]}),
        ("gemini", {"tools": [{"functionDeclarations": [{"name": "a"}]}]}),
    ],
)
def test_tools_that_the_agent_executes_are_its_own(name: str, extra: dict[str, Any]) -> None:
    assert parsed(name, **extra).server_tools == ()


REMOTE = "https://example.org/a.png"


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": REMOTE}}]}]}),
        ("responses", {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": REMOTE}]}]}),
        ("responses", {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": REMOTE}]}]}),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": REMOTE}}]}]}),
        ("chat", {"messages": [{"role": "tool", "content": [{"type": "video_url", "video_url": {"url": REMOTE}}]}]}),
        ("responses", {"input": [{"type": "computer_call_output", "output": {"image_url": REMOTE}}]}),
        ("responses", {"input": [{"type": "function_call_output", "output": [{"file_url": REMOTE}]}]}),
        ("gemini", {"contents": [{"role": "user", "parts": [{"fileData": {"fileUri": REMOTE}}]}]}),
        ("gemini", {"contents": {"parts": {"file_data": {"file_uri": REMOTE}}}}),
        ("gemini", {"contents": [{"parts": [{"functionResponse": {"parts": [{"fileData": {"fileUri": REMOTE}}]}}]}]}),
    ],
)
def test_content_that_the_provider_would_fetch_is_found(name: str, extra: dict[str, Any]) -> None:
    assert parsed(name, **extra).server_tools == ("content from a URL",)
    local = msgspec.json.decode(msgspec.json.encode(extra).replace(REMOTE.encode(), b"data:image/png;base64,AAAA"))
    assert parsed(name, **local).server_tools == ()


@each_dialect
@pytest.mark.parametrize("parameter", ["key", "api_key", "access_token", "k%65y"])
async def test_keys_of_the_agent_do_not_leave_the_machine(name: str, parameter: str) -> None:
    headers = {"authorization": "Bearer placeholder", "x-goog-api-key": "placeholder", "x-api-key": "placeholder"}
    path = request_path(name)
    async with provider() as source:
        request, _ = await _sent(source, name, headers=headers, path=f"{path}?{parameter}=placeholder&beta=true")
        assert request.rel_url.query_string == "beta=true"
        assert "placeholder" not in str(request.headers)
        assert "placeholder" not in str(request.rel_url)


@pytest.mark.parametrize("name", ["chat", "responses"])
async def test_nothing_is_stored_at_the_provider_on_request_and_the_result_says_so(name: str) -> None:
    async with provider() as source:
        source.responses = [_answering(name)]
        async with world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
            for wanted in (True, False):
                assert (await send(lab, name, store=wanted))[0] == 200
            assert lab.session.usage.dropped == {"store": 1}
        assert not any(msgspec.json.decode(body).get("store") for body in source.bodies)


@each_dialect
async def test_a_refusal_is_recorded_with_the_status_that_the_program_got(name: str, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    spec = GatewaySessionSpec(task_id="t", cap_usd=0.0, refusal_status=401, recording=recording)
    async with Gateway(script({"text": "x"})) as gateway:
        url = await gateway.listen()
        async with gateway.session(spec) as session:
            await _post(url + session.path, name)
    assert [refusal.status for refusal in load_recording(recording).refusals] == [401]


ODD_TEXTS = st.text(max_size=20) | st.sampled_from(["\x1b[31mred", "\U0001f600", "\u2028", "data:x", "\\ud800"])


@each_dialect
@given(text=ODD_TEXTS, system=ODD_TEXTS)
def test_texts_of_any_characters_are_read_as_they_are(name: str, text: str, system: str) -> None:
    call = parsed(name, text, system=system, offered=())
    assert (call.first_text(), call.system_text(), call.tools) == (text, system, ())


@each_dialect
def test_half_a_character_does_not_make_a_request_invalid(name: str) -> None:
    body = msgspec.json.encode(request_body(name, "half @ of it")).replace(b"@", b"\\ud83d")
    found = route("POST", request_path(name), "")
    assert found is not None
    call = found.dialect.parse_call(found, body, {})
    assert call is not None
    assert call.first_text().startswith("half ")


@each_dialect
def test_a_member_whose_name_is_half_a_character_does_not_hide_the_conversation(name: str) -> None:
    body = msgspec.json.encode(request_body(name, "hi there", odd=1)).replace(b'"odd"', b'"\\ud83d"')
    found = route("POST", request_path(name), "")
    assert found is not None
    call = found.dialect.parse_call(found, body, {})
    assert call is not None
    assert call.first_text() == "hi there"


@pytest.mark.parametrize(
    ("name", "details"),
    [
        ("chat", {"prompt_tokens_details": {"audio_tokens": 7}}),
        ("chat", {"completion_tokens_details": {"audio_tokens": 7}}),
        ("chat", {"completion_tokens_details": {"image_tokens": 7}}),
        ("responses", {"input_tokens_details": {"audio_tokens": 7}}),
        (
            "gemini",
            {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}, {"modality": "AUDIO", "tokenCount": 7}]},
        ),
        ("gemini", {"candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 7}]}),
    ],
)
def test_what_has_a_price_of_its_own_beside_text_costs_nobody_knows_how_much(
    name: str, details: dict[str, Any]
) -> None:
    dialect = DIALECTS[name]
    rendered = dialect.render(ScriptedMessage(number=1, model=MODEL, text="x", tokens=Tokens(input=100, output=50)))
    member = "usageMetadata" if name == "gemini" else "usage"
    for more, unknown in ((details, True), ({}, False)):
        usage = UsageAccumulator("asked")
        message = {**rendered, member: {**rendered[member], **more}}
        assert dialect.read_body(msgspec.json.encode(message), usage)
        (one,) = usage.total()
        assert (one.unknown, one.tokens.total) == (unknown, 150)
