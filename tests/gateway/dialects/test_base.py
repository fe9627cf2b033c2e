"""The interface of dialects is all that a new one needs: here is a fifth, Cohere's chat, in a test only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import example, given
from hypothesis import strategies as st

from dialect_lab import NAMES, parsed, request_path
from gateway_lab import MODEL, parse_call, provider, upstream, world
from proctor.core.result import Tokens
from proctor.gateway import ReplayBackend, ReplayDivergence, ScriptBackend, parse_script
from proctor.gateway.dialects import DIALECTS, MESSAGES
from proctor.gateway.dialects.base import (
    Dialect,
    EventReader,
    Route,
    ScriptedMessage,
    TextPath,
    count_of,
    dicts_in,
    pieces,
    text_bytes,
    without_keys,
)
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import ModelCall, decode_request
from proctor.gateway.prices import Usage
from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text
from proctor.gateway.sse import SseEvent, encode_named_event
from proctor.gateway.upstream import ProviderAuth


class _CohereFunction(msgspec.Struct):
    name: str = ""


class _CohereTool(msgspec.Struct):
    function: _CohereFunction = msgspec.field(default_factory=_CohereFunction)


class _CohereRequest(msgspec.Struct):
    model: str
    messages: list[msgspec.Raw]
    stream: bool = False
    tools: list[_CohereTool] = msgspec.field(default_factory=list)


_REQUEST = msgspec.json.Decoder(_CohereRequest)


class _CohereReader(EventReader):
    def read(self, payload: bytes) -> None:
        event = decode_or_text(payload)
        match event:
            case {"type": "message-end", "delta": {"usage": usage}}:
                self.finished = True
                _report(self._usage, usage)
            case {"delta": {"message": {"content": {"text": str(text)}}}}:
                self._usage.add_delivered(text_bytes(text))


class CohereDialect(Dialect):
    name = "cohere"
    provider = "cohere"
    malformed_event = '{"type":"content-del'
    text_members = ("text", "arguments")
    event_reader = _CohereReader

    def route(self, method: str, path: str, query: str) -> Route | None:
        return Route(self, "/v2/chat") if method == "POST" and path.endswith("/v2/chat") else None

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        decoded = decode_request(body, _REQUEST, _REQUEST)
        if decoded is None:
            return None
        read = decoded.read
        names = tuple(tool.function.name for tool in read.tools)
        return ModelCall(
            dialect=self, path=route.path, agent=agent, model=read.model, stream=read.stream, body=body, tools=names
        )

    def system_text(self, call: ModelCall) -> str:
        items = [decode_or_text(raw) for raw in call.messages]
        return "\n".join(self.item_text(item) for item in items if self.is_instruction(item))

    def item_text(self, item: Any) -> str:
        content = item.get("content") if isinstance(item, dict) else None
        return content if isinstance(content, str) else "\n".join(str(part.get("text")) for part in dicts_in(content))

    def is_from_model(self, item: Any) -> bool:
        return isinstance(item, dict) and item.get("role") == "assistant"

    def is_instruction(self, item: Any) -> bool:
        return isinstance(item, dict) and item.get("role") == "system"

    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        return [{"type": "text", "text": self.item_text(item)}]

    def message_items(self, message: Any) -> list[Any]:
        return [message.get("message")]

    def comparable_item(self, item: Any) -> Any:
        return without_keys(item, frozenset({"id", "tool_call_id"}))

    def text_path(self, event: SseEvent) -> TextPath | None:
        is_text = event.get("type") == "content-delta"
        return ("delta", "message", "content", "text") if is_text else None

    def read_body(self, body: bytes, usage: UsageAccumulator) -> bool:
        try:
            message = msgspec.json.decode(body)
        except DECODE_ERRORS:
            return False
        if self.is_message(message):
            _report(usage, message.get("usage"))
        return self.is_message(message)

    def is_message(self, body: Any) -> bool:
        return isinstance(body, dict) and "finish_reason" in body

    def is_complete(self, events: Sequence[Any]) -> bool:
        return bool(events) and isinstance(events[-1], dict) and events[-1].get("type") == "message-end"

    def message_from_events(self, events: Iterable[SseEvent]) -> dict[str, Any]:
        text = ""
        calls: list[Any] = []
        end: dict[str, Any] = {}
        for event in events:
            match event:
                case {"type": "content-delta", "delta": {"message": {"content": {"text": str(piece)}}}}:
                    text += piece
                case {"type": "tool-call-start", "delta": {"message": {"tool_calls": call}}}:
                    calls.append(call)
                case {"type": "message-end", "delta": dict(end)}:
                    pass
        return _message(text, calls, end)

    def events_from_message(self, message: Any, *, piece_length: int = 0) -> Iterator[SseEvent | str]:
        yield {"type": "message-start", "id": message["id"]}
        for part in dicts_in(message["message"].get("content")):
            for piece in pieces(part["text"], piece_length):
                yield {"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": piece}}}}
        for call in dicts_in(message["message"].get("tool_calls")):
            yield {"type": "tool-call-start", "delta": {"message": {"tool_calls": call}}}
        yield {"type": "message-end", "delta": {name: message[name] for name in ("finish_reason", "usage")}}

    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        calls = [
            {"id": f"call_{tool.number}", "type": "function", "function": {"name": tool.name, "arguments": "{}"}}
            for tool in scripted.tools
        ]
        tokens = {"input_tokens": scripted.tokens.input, "output_tokens": scripted.tokens.output}
        return _message(scripted.text or "", calls, {"finish_reason": "COMPLETE", "usage": {"tokens": tokens}})

    def encode_event(self, event: SseEvent | str) -> bytes:
        return encode_named_event(event)

    def error_body(self, status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
        return {"message": message}


def _report(usage: UsageAccumulator, reported: Any) -> None:
    match reported:
        case {"tokens": {"input_tokens": prompt, "output_tokens": output}}:
            tokens = Tokens(input=count_of(prompt) or 0, output=count_of(output) or 0)
            usage.report((Usage(model=usage.model, tokens=tokens),), final=True)


def _message(text: str, calls: list[Any], end: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    return {"id": "1", "message": {"role": "assistant", "content": content, "tool_calls": calls}, **end}


COHERE = CohereDialect()
PATH = "/v2/chat"
USED = {"input": 100, "output": 50}


@pytest.fixture(autouse=True)
def _fifth(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(DIALECTS, dict)
    monkeypatch.setitem(DIALECTS, COHERE.name, COHERE)


def request(text: str = "hi", **fields: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {"properties": {"command": {}}}}}]
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "tools": tools, **fields}


async def post(lab: Any, **fields: Any) -> tuple[int, bytes]:
    async with lab.agent.http.post(lab.agent.base + PATH, json=request(**fields)) as response:
        return response.status, await response.read()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fifth_dialect_is_scripted_metered_recorded_replayed_and_limited(stream: bool, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    steps = [{"text": "Look.", "tools": [{"shell": {"command": "ls"}}], "piece": 2}, {"text": "Done."}]
    script = ScriptBackend(parse_script({"default": steps, "usage": USED}))
    async with world(script, recording=recording, cap_usd=0.0015) as lab:
        first = [await post(lab, text=text, stream=stream) for text in ("one", "two", "three")]
        assert [status for status, _ in first] == [200, 200, 402]
        assert b'"bash"' in first[0][1]
        assert lab.session.usage.tokens == Tokens(input=200, output=100)
    async with world(ReplayBackend(lambda _: recording)) as lab:
        assert [await post(lab, text=text, stream=stream) for text in ("one", "two")] == first[:2]
        assert (await post(lab, text="other", stream=stream))[0] == 400
        assert lab.events_of(ReplayDivergence)


async def test_a_fifth_dialect_has_errors_cuts_and_masked_keys_like_the_others() -> None:
    said = COHERE.render(ScriptedMessage(number=1, model=MODEL, text="Hello.", tokens=Tokens(input=9, output=4)))
    stream = b"".join(COHERE.encode_event(event) for event in COHERE.events_from_message(said))

    async def failing(request: web.Request) -> web.StreamResponse:
        return web.Response(status=503)

    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(stream[: stream.index(b"event: message-end")])
        return response

    async with provider() as source, world(upstream(source, auth=ProviderAuth.BEARER)) as lab:
        source.responses = [failing]
        assert (await post(lab))[0] == 400
        source.responses = [cut]
        assert (await post(lab, stream=True))[0] == 200
        assert (lab.session.usage.errors, lab.session.usage.cut) == ({"503": 4}, 1)
        assert str(source.requests[-1].rel_url) == PATH


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "type",
                        "role",
                        "content",
                        "text",
                        "source",
                        "tool_calls",
                        "function",
                        "custom",
                        "output",
                        "item",
                    ),
                    *(
                        "parts",
                        "functionCall",
                        "functionResponse",
                        "response",
                        "delta",
                        "choices",
                        "candidates",
                        "usage",
                    ),
                    *("message", "error", "index", "finish_reason", "finishReason", "usageMetadata", "sequence_number"),
                    *("tools", "input", "summary", "arguments", "id", "promptFeedback", "action"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("name", NAMES)
@given(value=ANY_JSON)
@example(value={"role": [], "type": {}})
def test_whatever_is_in_a_message_can_be_read_shown_and_compared(name: str, value: Any) -> None:
    dialect = DIALECTS[name]
    dialect.item_text(value)
    dialect.is_from_model(value)
    dialect.is_instruction(value)
    dialect.recorded_item(value)
    dialect.comparable_item(value)
    assert all(isinstance(block, dict) for block in dialect.content_blocks(value))


@pytest.mark.parametrize("name", NAMES)
@given(events=st.lists(ANY_JSON, max_size=4))
def test_whatever_is_in_a_stream_can_be_read_recorded_and_joined(name: str, events: list[Any]) -> None:
    dialect = DIALECTS[name]
    usage = UsageAccumulator("asked")
    reader = dialect.event_reader(usage)
    for event in events:
        reader.read(msgspec.json.encode(event))
        if isinstance(event, dict):
            dialect.text_path(event)
    dialect.is_complete(events)
    dialect.message_from_events([event for event in events if isinstance(event, dict)])
    assert all(used.tokens.total > 0 for used in usage.total())


@pytest.mark.parametrize("name", NAMES)
@given(message=ANY_JSON)
def test_whatever_is_a_body_can_be_read_and_streamed(name: str, message: Any) -> None:
    dialect = DIALECTS[name]
    dialect.read_body(msgspec.json.encode(message), UsageAccumulator("asked"))
    if dialect.is_message(message):
        list(dialect.events_from_message(message, piece_length=1))
        assert isinstance(dialect.message_items(message), list)


@pytest.mark.parametrize("name", NAMES)
@given(
    fields=st.dictionaries(
        st.sampled_from(
            [
                *("messages", "input", "contents", "tools", "system", "instructions", "stream", "n", "stream_options"),
                *("generationConfig", "store", "models", "mcp_servers", "plugins", "web_search_options", "functions"),
                *("systemInstruction", "service_tier", "speed", "background", "conversation", "prompt", "modalities"),
            ]
        ),
        ANY_JSON,
        max_size=4,
    )
)
def test_whatever_a_request_asks_for_it_is_parsed_or_refused(name: str, fields: dict[str, Any]) -> None:
    body = msgspec.json.encode({"model": MODEL, "messages": [], "contents": [], **fields})
    call = parse_call(body, path=request_path(name))
    if call is not None:
        assert isinstance(call.first_text() + call.last_text() + call.system_text(), str)
        assert isinstance(call.messages, list)
        call.dialect.with_model(call, "other")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"{}", b'"x"', b'{"model":5}', b"{" * 100_000, b"[" * 5000, b"\xff\xfe", b"{}x"]
)
def test_a_body_that_is_not_a_request_is_not_parsed(name: str, body: bytes) -> None:
    assert parse_call(body, path=request_path(name)) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_that_is_nested_deeper_than_any_real_one_is_taken(name: str) -> None:
    deep = b'{"role":"user","content":' + b"[" * 2000 + b"]" * 2000 + b"}"
    members = {"responses": b"input", "gemini": b"contents"}
    body = b'{"model":"m","%b":[%b]}' % (members.get(name, b"messages"), deep)
    call = parse_call(body, path=request_path(name))
    assert call is None or call.server_tools == ()


def test_the_first_dialect_is_the_one_of_errors_on_unknown_paths() -> None:
    assert next(iter(DIALECTS.values())) is MESSAGES
    assert parsed("messages").dialect is MESSAGES
