"""OpenAI's Chat Completions, which most other providers and local servers speak, too."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from proctor.gateway.dialects import openai
from proctor.gateway.dialects.base import (
    FINAL_STATUS,
    ClientFilter,
    Dialect,
    EventReader,
    Route,
    ScriptedMessage,
    TextPath,
    call_block,
    is_retryable_status,
    pieces,
    result_block,
    text_block,
    text_bytes,
    without_keys,
)
from proctor.gateway.dialects.clients import client_info
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import ModelCall, decode_request
from proctor.gateway.prices import Usage
from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text
from proctor.gateway.server_tools import chat_server_tools
from proctor.gateway.sse import EventSplitter, SseEvent, encode_data

_PATH: Final = re.compile(r"(?:/[\w.-]+)*/chat/completions")
_DONE: Final = "[DONE]"
# Members of a piece of text, by the names that servers give them.
_TEXT_MEMBERS: Final = frozenset({"content", "reasoning_content", "reasoning", "refusal"})
# Members of a message that are made up anew each time.
_VOLATILE: Final = frozenset(
    {"id", "tool_call_id", "cache_control", "reasoning", "reasoning_content", "reasoning_details"}
)


class _ChatNamed(msgspec.Struct):
    name: str = ""


class _ChatTool(msgspec.Struct):
    type: Any = None
    function: _ChatNamed | None = None
    custom: _ChatNamed | None = None


class _ChatStreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _ChatRequest(msgspec.Struct):
    model: str
    messages: list[Raw]
    stream: bool | None = None
    stream_options: _ChatStreamOptions | None = None
    tools: list[_ChatTool] | None = None
    functions: list[_ChatNamed] | None = None
    n: int | None = None
    web_search_options: Raw = Raw()
    plugins: Raw = Raw()


class _ChatUsage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: openai.PromptDetails | None = None
    completion_tokens_details: openai.OutputDetails | None = None
    prompt_cache_hit_tokens: int | None = None


class _ChatFunction(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None
    input: str | None = None


class _ChatToolCall(msgspec.Struct):
    function: _ChatFunction | None = None
    custom: _ChatFunction | None = None


class _ChatDelta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_ChatToolCall] | None = None

    @property
    def size(self) -> int:
        called = [call.function or call.custom for call in self.tool_calls or ()]
        texts = (text for one in called if one for text in (one.name, one.arguments, one.input))
        return text_bytes(self.content, self.reasoning_content, self.reasoning, self.refusal, *texts)


class _ChatChoice(msgspec.Struct):
    delta: _ChatDelta | None = None
    finish_reason: str | None = None


class _ChatChunk(msgspec.Struct):
    model: str | None = None
    choices: list[_ChatChoice] | None = None
    usage: _ChatUsage | None = None
    service_tier: Any = None
    error: Any = None


class _ChatBody(msgspec.Struct):
    choices: list[Raw]
    model: str | None = None
    usage: _ChatUsage | None = None
    service_tier: Any = None


_REQUEST: Final = msgspec.json.Decoder(_ChatRequest)
_CHUNK: Final = msgspec.json.Decoder(_ChatChunk)
_BODY: Final = msgspec.json.Decoder(_ChatBody)


class ChatDialect(Dialect):
    """Chat Completions."""

    name = "chat"
    provider = openai.PROVIDER
    unrecorded = frozenset({"metadata", "user", "prompt_cache_key", "safety_identifier"})
    unrecorded_event_fields = frozenset({"obfuscation"})
    malformed_event = '{"object":"chat.completion.chunk","choi'

    def route(self, method: str, path: str, query: str) -> Route | None:
        """``…/chat/completions``."""
        if method != "POST" or not _PATH.fullmatch(path):
            return None
        return Route(self, f"/chat/completions?{query}" if query else "/chat/completions")

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request; the usage of a stream is asked for where the client does not."""
        decoded = decode_request(body, _REQUEST)
        if decoded is None:
            return None
        read, body = decoded
        tools = tuple(name for name in _tool_names(read) if name)
        client = client_info(headers, tools)
        hides_usage = bool(read.stream) and not (read.stream_options and read.stream_options.include_usage)
        return ModelCall(
            dialect=self,
            path=route.path,
            agent=agent,
            client_session_id=client.session_id,
            subagent_id=client.subagent_id,
            role=client.role,
            model=read.model,
            stream=bool(read.stream),
            messages=read.messages,
            body=_asking_for_usage(body) if hides_usage else body,
            altered=hides_usage,
            tools=tools,
            server_tools=chat_server_tools(
                read.model,
                (tool.type for tool in read.tools or ()),
                {"web_search_options": read.web_search_options, "plugins": read.plugins},
                read.messages,
            ),
            unsupported=("n > 1",) if (read.n or 1) > 1 else (),
            hides_usage=hides_usage,
        )

    def client_filter(self, call: ModelCall) -> ClientFilter | None:
        """Without the usage, for a client that has not asked for it."""
        return _UsageFilter() if call.hides_usage else None

    def system_text(self, call: ModelCall) -> str:
        """The system's and the developer's messages."""
        items = [decode_or_text(raw) for raw in call.messages]
        return "\n".join(self.item_text(item) for item in items if self.is_instruction(item))

    def item_text(self, item: Any) -> str:
        """The text in a message."""
        return openai.content_text(item.get("content")) if isinstance(item, dict) else ""

    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        """Its text, its thoughts and its calls; or what a tool has returned."""
        if not isinstance(item, dict):
            return []
        if item.get("role") == "tool":
            return [result_block(item.get("tool_call_id"), self.item_text(item))]
        thought = item.get("reasoning_content") or item.get("reasoning")
        blocks = [{"type": "thinking", "thinking": thought}] if isinstance(thought, str) and thought else []
        blocks += text_block(self.item_text(item))
        for call in item.get("tool_calls") or ():
            called = call.get("function") or call.get("custom") or {}
            blocks.append(
                call_block(call.get("id"), called.get("name"), called.get("arguments") or called.get("input"))
            )
        return blocks

    def message_items(self, message: Any) -> list[Any]:
        """The message of the only choice."""
        return [choice.get("message") for choice in message.get("choices") or ()][:1]

    def is_from_model(self, item: Any) -> bool:
        """Whether it is the assistant's."""
        return isinstance(item, dict) and item.get("role") == "assistant"

    def is_instruction(self, item: Any) -> bool:
        """Whether it is the system's or the developer's."""
        return isinstance(item, dict) and item.get("role") in openai.INSTRUCTION_ROLES

    def comparable_item(self, item: Any) -> Any:
        """A message without ids and thoughts; of the system prompt, only that it is there."""
        return {"role": "system"} if self.is_instruction(item) else without_keys(item, _VOLATILE)

    def text_path(self, event: SseEvent) -> TextPath | None:
        """Where a chunk has its text, or a piece of a call's arguments."""
        choices = event.get("choices")
        if not isinstance(choices, list) or len(choices) != 1 or event.get("usage") is not None:
            return None
        choice = choices[0]
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if not isinstance(delta, dict) or choice.get("finish_reason") is not None or len(delta) != 1:
            return None
        ((name, value),) = delta.items()
        if name in _TEXT_MEMBERS and isinstance(value, str):
            return "choices", 0, "delta", name
        match value:
            case [{"function": {"arguments": str(), **others}, **more}] if name == "tool_calls":
                plain = not others and more.keys() <= {"index", "type"}
                return ("choices", 0, "delta", "tool_calls", 0, "function", "arguments") if plain else None
        return None

    def event_reader(self, usage: UsageAccumulator) -> EventReader:
        """Reads chunks up to ``[DONE]``."""
        return _ChatEventReader(usage)

    def read_body(self, body: bytes, usage: UsageAccumulator) -> bool:
        """Read a chat completion."""
        try:
            message = _BODY.decode(body)
        except DECODE_ERRORS:
            return False
        _report(usage, message.usage, message.model, message.service_tier, final=True)
        return True

    def is_message(self, body: Any) -> bool:
        """Whether it has choices."""
        return isinstance(body, dict) and isinstance(body.get("choices"), list) and not body.get("error")

    def is_complete(self, events: Sequence[Any]) -> bool:
        """Whether the model says why it stopped, and nothing is broken."""
        if not all(event == _DONE or self.is_message(event) for event in events):
            return False
        choices = [choice for event in events if isinstance(event, dict) for choice in event["choices"]]
        return any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices)

    def message_from_events(self, events: Iterable[SseEvent]) -> dict[str, Any]:
        """The chat completion of a stream."""
        whole: dict[str, Any] = {}
        message: dict[str, Any] = {"role": "assistant", "content": None}
        calls: dict[int, dict[str, Any]] = {}
        finish = None
        for event in events:
            whole |= {name: value for name, value in event.items() if name != "choices" and value is not None}
            for choice in event.get("choices") or ():
                finish = choice.get("finish_reason") or finish
                for name, value in (choice.get("delta") or {}).items():
                    if name == "tool_calls":
                        for piece in value or ():
                            _add_call_piece(calls, piece)
                    elif name != "role" and isinstance(value, str):
                        message[name] = (message.get(name) or "") + value
        if calls:
            message["tool_calls"] = [calls[index] for index in sorted(calls)]
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {**whole, "object": "chat.completion", "choices": [choice]}

    def events_from_message(self, message: Any, *, piece_length: int = 0) -> Iterator[SseEvent | str]:
        """The chunks that stream a chat completion, its usage, and ``[DONE]``."""
        head = {name: value for name, value in message.items() if name not in {"choices", "usage", "object"}}
        head["object"] = "chat.completion.chunk"

        def chunk(delta: dict[str, Any], finish: str | None = None) -> SseEvent:
            return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        choice = message["choices"][0]
        answer = choice["message"]
        yield chunk({"role": "assistant", "content": ""})
        for name, value in answer.items():
            if name in _TEXT_MEMBERS and isinstance(value, str):
                yield from (chunk({name: piece}) for piece in pieces(value, piece_length))
        for index, call in enumerate(answer.get("tool_calls") or ()):
            kind = call.get("type", "function")
            member = "input" if kind == "custom" else "arguments"
            called = call.get(kind) or {}
            yield chunk({"tool_calls": [{**call, "index": index, kind: {**called, member: ""}}]})
            for piece in pieces(called.get(member) or "", piece_length):
                yield chunk({"tool_calls": [{"index": index, kind: {member: piece}}]})
        yield chunk({}, choice.get("finish_reason"))
        if message.get("usage") is not None:
            yield {**head, "choices": [], "usage": message["usage"]}
        yield _DONE

    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        """A scripted response as a chat completion."""
        answer: dict[str, Any] = {"role": "assistant", "content": scripted.text}
        if scripted.content is not None:
            for part in scripted.content:
                answer |= part
        if scripted.thinking is not None:
            answer["reasoning_content"] = scripted.thinking
        if scripted.tools:
            answer["tool_calls"] = [_scripted_call(tool.number, tool.name, tool.arguments) for tool in scripted.tools]
        finish = scripted.stop_reason or ("tool_calls" if answer.get("tool_calls") else "stop")
        tokens = scripted.tokens
        prompt = tokens.total - tokens.output
        return {
            "id": f"chatcmpl-script-{scripted.number:06}",
            "object": "chat.completion",
            "created": 0,
            "model": scripted.model,
            "choices": [{"index": 0, "message": answer, "finish_reason": finish}],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": tokens.output,
                "total_tokens": tokens.total,
                "prompt_tokens_details": {
                    "cached_tokens": tokens.cache_read,
                    "cache_write_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
                },
                "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
            },
        }

    def encode_event(self, event: SseEvent | str) -> bytes:
        """An event without a name."""
        return encode_data(event.encode() if isinstance(event, str) else msgspec.json.encode(event))

    def error_body(self, status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
        """An error with its type and code."""
        return openai.error_body(status, message, kind=kind)

    def too_long_message(self, tokens: int, maximum: int) -> str:
        """As OpenAI says it."""
        return (
            f"This model's maximum context length is {maximum} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages."
        )

    def refusal_status(self, status: int) -> int:
        """402 and 403 are final for programs of this dialect; what is no provider's status becomes 400."""
        return 400 if status == FINAL_STATUS else status

    def final_error_status(self, status: int) -> int:
        """Programs try again after 429 and 5xx for minutes, or for ever."""
        return 400 if is_retryable_status(status) else status


class _ChatEventReader(EventReader):
    def read(self, payload: bytes) -> None:
        if payload == b"[DONE]":
            self.finished = True
            return
        try:
            chunk = _CHUNK.decode(payload)
        except DECODE_ERRORS:
            self._usage.add_delivered(len(payload))
            return
        if chunk.error is not None:
            self.error = _error_text(chunk.error)
        for choice in chunk.choices or ():
            self.may_end = self.may_end or choice.finish_reason is not None
            if choice.delta is not None and (size := choice.delta.size):
                self._usage.add_delivered(size)
        _report(self._usage, chunk.usage, chunk.model, chunk.service_tier, final=self.may_end)


class _UsageFilter(ClientFilter):
    """Drops the chunk that has nothing but the usage, and the usage of all others."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        data = self._rest + chunk
        end = max(data.rfind(mark) + len(mark) if mark in data else 0 for mark in (b"\n\n", b"\r\n\r\n"))
        ready, self._rest = data[:end], data[end:]
        return self._filtered(ready) if b'"usage"' in ready else ready

    def finish(self) -> bytes:
        rest, self._rest = self._rest, b""
        return self._filtered(rest + b"\n\n") if b'"usage"' in rest else rest

    def _filtered(self, events: bytes) -> bytes:
        return b"".join(_without_usage(payload) for payload in EventSplitter().feed(events))


def _without_usage(payload: bytes) -> bytes:
    try:
        fields = msgspec.json.decode(payload, type=dict[str, Raw])
    except DECODE_ERRORS:
        return encode_data(payload)
    if fields.pop("usage", None) is None:
        return encode_data(payload)
    empty = bytes(fields.get("choices", b"[]")).strip() == b"[]"
    return b"" if empty else encode_data(msgspec.json.encode(fields))


def _report(
    usage: UsageAccumulator, reported: _ChatUsage | None, model: str | None, service_tier: Any, *, final: bool
) -> None:
    if model:
        usage.model = model
    if reported is None or reported.prompt_tokens is None:
        return
    details = reported.prompt_tokens_details
    if reported.prompt_cache_hit_tokens is not None and (details is None or details.cached_tokens is None):
        details = openai.PromptDetails(cached_tokens=reported.prompt_cache_hit_tokens)
    tokens = openai.make_tokens(
        reported.prompt_tokens,
        reported.completion_tokens or 0,
        reported.total_tokens,
        details,
        reported.completion_tokens_details,
    )
    usage.report((Usage(model=usage.model, tokens=tokens, speed=openai.tier(service_tier)),), final=final)


def _error_text(error: Any) -> str:
    """An error of a stream, for a message."""
    if isinstance(error, dict):
        return f"{error.get('code') or error.get('type') or 'error'}: {error.get('message') or ''}"
    return str(error)


def _tool_names(read: _ChatRequest) -> Iterator[str]:
    for tool in read.tools or ():
        named = tool.function or tool.custom
        yield named.name if named is not None else ""
    for function in read.functions or ():
        yield function.name


def _asking_for_usage(body: bytes) -> bytes:
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    given = decode_or_text(fields["stream_options"]) if "stream_options" in fields else None
    options = {**(given if isinstance(given, dict) else {}), "include_usage": True}
    return msgspec.json.encode({**fields, "stream_options": options})


def _add_call_piece(calls: dict[int, dict[str, Any]], piece: dict[str, Any]) -> None:
    call = calls.setdefault(piece.get("index") or 0, {})
    for name, value in piece.items():
        if name in {"function", "custom"}:
            called = call.setdefault(name, {})
            for inner, text in value.items():
                called[inner] = (called.get(inner) or "") + text if isinstance(text, str) else text
        elif name != "index":
            call[name] = value


def _scripted_call(number: int, name: str, arguments: dict[str, Any] | str) -> dict[str, Any]:
    call = {"id": f"call_script_{number:06}"}
    if isinstance(arguments, str):
        return {**call, "type": "custom", "custom": {"name": name, "input": arguments}}
    text = msgspec.json.encode(arguments).decode()
    return {**call, "type": "function", "function": {"name": name, "arguments": text}}
