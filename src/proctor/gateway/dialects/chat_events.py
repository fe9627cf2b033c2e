"""Chat completions, and the chunks that stream them."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Raw

from proctor.gateway.dialects import openai
from proctor.gateway.dialects.base import ClientFilter, EventReader, TextPath, dicts_in, error_text, pieces, text_bytes
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.prices import Usage
from proctor.gateway.safe_json import DECODE_ERRORS
from proctor.gateway.sse import EventSplitter, SseEvent, encode_data

DONE: Final = "[DONE]"
USAGE: Final = openai.UsageNames("prompt_tokens", "completion_tokens")
# Members of a piece of text, by the names that servers give them.
_TEXT_MEMBERS: Final = ("content", "reasoning_content", "reasoning", "refusal")
# Reasons to stop that no model has: the server failed. So OpenRouter, DeepSeek and Zhipu say it.
_FAILURES: Final = frozenset({"error", "insufficient_system_resource", "network_error"})
_ARGUMENTS: Final[TextPath] = ("choices", 0, "delta", "tool_calls", 0, "function", "arguments")


class _ChatDelta(msgspec.Struct):
    """What servers differ in is of any type: a piece that is no text is none that is counted."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    refusal: Any = None
    tool_calls: Any = None

    @property
    def size(self) -> int:
        size = text_bytes(self.content, self.reasoning_content, self.reasoning, self.refusal)
        for call in dicts_in(self.tool_calls):
            called = call.get("function") or call.get("custom")
            if isinstance(called, dict):
                size += text_bytes(called.get("name"), called.get("arguments"), called.get("input"))
        return size


class _ChatChoice(msgspec.Struct):
    delta: _ChatDelta | None = None
    finish_reason: Any = None
    error: Any = None
    usage: Any = None


class _ChatChunk(msgspec.Struct):
    choices: list[_ChatChoice] | None = None
    model: Any = None
    usage: Any = None
    service_tier: Any = None
    error: Any = None


class _ChatBodyChoice(msgspec.Struct):
    finish_reason: Any = None
    error: Any = None


class _ChatBody(msgspec.Struct):
    choices: list[_ChatBodyChoice]
    model: Any = None
    usage: Any = None
    service_tier: Any = None
    error: Any = None


_CHUNK: Final = msgspec.json.Decoder(_ChatChunk)
_BODY: Final = msgspec.json.Decoder(_ChatBody)


def read_completion(body: bytes, usage: UsageAccumulator) -> bool:
    """Read the usage of a chat completion; False when it is none."""
    try:
        message = _BODY.decode(body)
    except DECODE_ERRORS:
        return False
    _report(usage, message, message.usage, final=True)
    return not (message.error or any(choice_error(one.finish_reason, one.error) for one in message.choices))


def choice_error(finish_reason: Any, error: Any) -> str | None:
    """The error by which a server has ended a choice, if it has."""
    if error:
        return error_text(error, "code", "type")
    return f"{finish_reason}: " if isinstance(finish_reason, str) and finish_reason in _FAILURES else None


def is_unbroken(value: Any) -> bool:
    """Whether a decoded completion, or a chunk of one, has no error in it."""
    return (
        isinstance(value, dict)
        and not value.get("error")
        and not any(choice_error(one.get("finish_reason"), one.get("error")) for one in dicts_in(value.get("choices")))
    )


class ChatEventReader(EventReader):
    """Reads chunks up to ``[DONE]``."""

    def read(self, payload: bytes) -> None:
        """Read one chunk."""
        if payload == b"[DONE]":
            self.finished = self.error is None
            return
        try:
            chunk = _CHUNK.decode(payload)
        except DECODE_ERRORS:
            self.count_unreadable(payload)
            return
        if chunk.error:
            self.error = error_text(chunk.error, "code", "type")
        reported = chunk.usage
        for choice in chunk.choices or ():
            self.error = self.error or choice_error(choice.finish_reason, choice.error)
            if choice.finish_reason:
                self.may_end = True
            if choice.delta is not None and (size := choice.delta.size):
                self._usage.add_delivered(size)
            if choice.usage is not None and reported is None:
                reported = choice.usage  # so Moonshot has it
        _report(self._usage, chunk, reported, final=self.may_end)


def _report(usage: UsageAccumulator, source: _ChatChunk | _ChatBody, reported: Any, *, final: bool) -> None:
    if isinstance(source.model, str) and source.model:
        usage.model = source.model
    openai.note_tier(source.service_tier, usage)
    tokens = None if reported is None else openai.read_tokens(reported, USAGE)
    if tokens is not None:
        unknown = openai.has_priced_media(reported, USAGE)
        usage.report((Usage(model=usage.model, tokens=tokens, speed=usage.speed, unknown=unknown),), final=final)


class UsageFilter(ClientFilter):
    """Drops the chunk that has nothing but the usage, and the usage of all others."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """What the client gets of whole chunks."""
        data = self._rest + chunk if self._rest else chunk
        end = max(data.rfind(mark) + len(mark) if mark in data else 0 for mark in (b"\n\n", b"\r\n\r\n"))
        ready, self._rest = data[:end], data[end:]
        return self._filtered(ready) if b'"usage"' in ready else ready

    def finish(self) -> bytes:
        """What is left."""
        rest, self._rest = self._rest, b""
        return self._filtered(rest + b"\n\n") if b'"usage"' in rest else rest

    def _filtered(self, events: bytes) -> bytes:
        return b"".join(_without_usage(payload) for payload in EventSplitter().feed(events))


def _without_usage(payload: bytes) -> bytes:
    try:
        fields = msgspec.json.decode(payload, type=dict[str, Raw])
    except DECODE_ERRORS:
        return encode_data(payload)
    usage = fields.pop("usage", None)
    if usage is None:
        return encode_data(payload)
    is_only_usage = bytes(usage) != b"null" and bytes(fields.get("choices", b"[]")).strip() == b"[]"
    return b"" if is_only_usage else encode_data(msgspec.json.encode(fields))


def text_path(event: SseEvent) -> TextPath | None:
    """Where a chunk has its text, or a piece of a call's arguments, if it is one piece of one of them."""
    match event.get("choices"):
        case [{"delta": dict() as delta, **choice}] if choice.get("finish_reason") is None:
            texts = [name for name in _TEXT_MEMBERS if delta.get(name)]
            calls = delta.get("tool_calls")
        case _:
            return None
    if not calls and len(texts) == 1 and isinstance(delta[texts[0]], str):
        return "choices", 0, "delta", texts[0]
    match calls:
        case [{"function": {"arguments": str(), **others}, **more}] if not texts and not others:
            return _ARGUMENTS if not more.get("id") else None
    return None


def message_from_events(events: Iterable[SseEvent]) -> dict[str, Any]:
    """The chat completion of a stream."""
    whole: dict[str, Any] = {}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: list[dict[str, Any]] = []
    places: dict[Any, dict[str, Any]] = {}
    finish = None
    for event in events:
        whole |= {name: value for name, value in event.items() if name != "choices" and value is not None}
        for choice in dicts_in(event.get("choices")):
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta")
            for name, value in (delta if isinstance(delta, dict) else {}).items():
                if name == "tool_calls":
                    for piece in dicts_in(value):
                        _add_call_piece(calls, places, piece)
                elif name != "role" and isinstance(value, str):
                    message[name] = (message.get(name) or "") + value
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**whole, "object": "chat.completion", "choices": [choice]}


def events_from_message(message: Any, *, piece_length: int = 0) -> Iterator[SseEvent | str]:
    """The chunks that stream a chat completion, its usage, and ``[DONE]``."""
    head = {name: value for name, value in message.items() if name not in {"choices", "usage", "object"}}
    head["object"] = "chat.completion.chunk"

    def chunk(delta: dict[str, Any], finish: str | None = None) -> SseEvent:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    choice = next(iter(dicts_in(message.get("choices"))), {})
    answer = choice.get("message")
    answer = answer if isinstance(answer, dict) else {}
    yield chunk({"role": "assistant", "content": ""})
    for name, value in answer.items():
        if name in _TEXT_MEMBERS and isinstance(value, str):
            yield from (chunk({name: piece}) for piece in pieces(value, piece_length))
    for index, call in enumerate(dicts_in(answer.get("tool_calls"))):
        kind = "custom" if call.get("type") == "custom" else "function"
        member = "input" if kind == "custom" else "arguments"
        called = call.get(kind)
        called = called if isinstance(called, dict) else {}
        given = called.get(member)
        text = given if isinstance(given, str) else msgspec.json.encode(given or {}).decode()
        yield chunk({"tool_calls": [{**call, "index": index, kind: {**called, member: ""}}]})
        for piece in pieces(text, piece_length):
            yield chunk({"tool_calls": [{"index": index, kind: {member: piece}}]})
    yield chunk({}, choice.get("finish_reason"))
    if message.get("usage") is not None:
        yield {**head, "choices": [], "usage": message["usage"]}
    yield DONE


def _add_call_piece(calls: list[dict[str, Any]], places: dict[Any, dict[str, Any]], piece: dict[str, Any]) -> None:
    """Add a piece of a call. Some servers give all calls the same index: another id is another call."""
    index = piece.get("index") or 0
    index = index if isinstance(index, int) else 0
    call = places.get(index)
    if call is None or (piece.get("id") and call.get("id") not in {None, piece["id"]}):
        call = places[index] = {}
        calls.append(call)
    for name, value in piece.items():
        if name in {"function", "custom"} and isinstance(value, dict):
            called = call.setdefault(name, {})
            for inner, text in value.items():
                called[inner] = (called.get(inner) or "") + text if isinstance(text, str) else text
        elif name != "index":
            call[name] = value
