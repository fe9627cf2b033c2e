"""Responses of the Responses API, and the events that stream them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from proctor.gateway.dialects import openai
from proctor.gateway.dialects.base import EventReader, dicts_in, error_text, pieces, text_bytes
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.prices import Usage
from proctor.gateway.safe_json import DECODE_ERRORS
from proctor.gateway.sse import SseEvent

USAGE: Final = openai.UsageNames("input_tokens", "output_tokens")
TEXT_DELTAS: Final = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
    }
)
# Some servers send this after the last event, as in chat completions.
DONE: Final = "[DONE]"
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_FAILURES: Final = frozenset({"response.failed", "response.cancelled", "error"})
_FAILED: Final = frozenset({"failed", "cancelled"})


class _ResponseObject(msgspec.Struct):
    model: Any = None
    usage: Any = None
    output: Any = None
    service_tier: Any = None
    error: Any = None
    status: Any = None


class _ResponsesEvent(msgspec.Struct):
    type: Any = None
    delta: Any = None
    item: Any = None
    response: _ResponseObject | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_EVENT: Final = msgspec.json.Decoder(_ResponsesEvent)
_BODY: Final = msgspec.json.Decoder(_ResponseObject)


def read_response(body: bytes, usage: UsageAccumulator) -> bool:
    """Read the usage of a response, or of a compaction; False when it is none."""
    try:
        response = _BODY.decode(body)
    except DECODE_ERRORS:
        return False
    if not isinstance(response.output, list) or _is_one_of(_FAILED, response.status):
        return False
    _report(usage, response, sum(map(_is_search, response.output)))
    return True


def is_response(body: Any) -> bool:
    """Whether it has an output, and did not fail."""
    return (
        isinstance(body, dict) and isinstance(body.get("output"), list) and not _is_one_of(_FAILED, body.get("status"))
    )


def is_complete(events: Sequence[Any]) -> bool:
    """Whether a stream ends with the whole response."""
    kinds = [event.get("type") if isinstance(event, dict) else None for event in events if event != DONE]
    whole = all(isinstance(kind, str) and kind not in _FAILURES for kind in kinds)
    return bool(kinds) and whole and kinds[-1] in _ENDS


class ResponsesEventReader(EventReader):
    """Reads events up to response.completed, or whatever else ends a response."""

    def __init__(self, usage: UsageAccumulator) -> None:
        super().__init__(usage)
        self._searches = 0
        self._has_deltas = False

    def read(self, payload: bytes) -> None:
        """Read one event."""
        try:
            event = _EVENT.decode(payload)
        except DECODE_ERRORS:
            if payload != b"[DONE]":
                self.count_unreadable(payload)
            return
        kind = event.type if isinstance(event.type, str) else ""
        if kind in TEXT_DELTAS and isinstance(event.delta, str):
            self._has_deltas = True
            self._usage.add_delivered(max(1, text_bytes(event.delta)))
        elif kind == "response.output_item.done":
            # Its text has been counted, unless the server sends no deltas.
            if not self._has_deltas:
                self._usage.add_delivered(len(payload))
            self._has_deltas = False
            self._searches += _is_search(event.item)
        elif kind in _ENDS or kind in _FAILURES:
            if event.response is not None:
                _report(self._usage, event.response, self._searches)
            if kind in _ENDS:
                self.finished = True
            else:
                failed = event.error or (event.response and event.response.error)
                self.error = error_text(failed or {"code": event.code, "message": event.message}, "code", "type")
        elif event.response is not None:
            _note_head(self._usage, event.response)


def message_from_events(events: Iterable[SseEvent]) -> dict[str, Any]:
    """The response that the last event has; its items are those of the events before where it has none."""
    response: dict[str, Any] = {}
    items: list[Any] = []
    for event in events:
        if isinstance(event.get("response"), dict):
            response = event["response"]
        if event.get("type") == "response.output_item.done":
            items.append(event.get("item"))
    return {**response, "output": response.get("output") or items} if response else {}


def events_from_message(message: Any, *, piece_length: int = 0) -> Iterator[SseEvent]:
    """The events that stream a response."""
    for number, event in enumerate(_events(message, piece_length)):
        yield {"type": event["type"], "sequence_number": number, **event}


def _is_search(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("type") != "web_search_call":
        return False
    action = item.get("action")
    return not isinstance(action, dict) or action.get("type") in (None, "search")


def _is_one_of(names: frozenset[str], value: Any) -> bool:
    return isinstance(value, str) and value in names


def _note_head(usage: UsageAccumulator, response: _ResponseObject) -> None:
    if isinstance(response.model, str) and response.model:
        usage.model = response.model
    openai.note_tier(response.service_tier, usage)


def _report(usage: UsageAccumulator, response: _ResponseObject, searches: int) -> None:
    _note_head(usage, response)
    tokens = openai.read_tokens(response.usage, USAGE)
    if tokens is not None:
        unknown = openai.has_priced_media(response.usage, USAGE)
        whole = Usage(model=usage.model, tokens=tokens, web_searches=searches, speed=usage.speed, unknown=unknown)
        usage.report((whole,), final=True)


def _events(response: Any, piece_length: int) -> Iterator[SseEvent]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(dicts_in(response.get("output"))):
        place = {"output_index": index, "item_id": item.get("id")}
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun_item(item)}
        yield from ({**event, **place} for event in _item_events(item, piece_length))
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response.get('status') or 'completed'}", "response": response}


def _begun_item(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {name: [] for name in ("content", "summary") if isinstance(item.get(name), list)}
    empty |= {name: "" for name in ("arguments", "input") if isinstance(item.get(name), str)}
    return {**item, **empty, **({"status": "in_progress"} if "status" in item else {})}


def _item_events(item: dict[str, Any], piece_length: int) -> Iterator[SseEvent]:
    for kind, member, name in (
        ("response.function_call_arguments", "arguments", "arguments"),
        ("response.custom_tool_call_input", "input", "input"),
    ):
        if isinstance(text := item.get(member), str):
            yield from ({"type": f"{kind}.delta", "delta": piece} for piece in pieces(text, piece_length))
            yield {"type": f"{kind}.done", name: text}
    for kind, part_kind, member, index_name in (
        ("response.output_text", "response.content_part", "content", "content_index"),
        ("response.reasoning_summary_text", "response.reasoning_summary_part", "summary", "summary_index"),
    ):
        for index, part in enumerate(dicts_in(item.get(member))):
            text, place = part.get("text"), {index_name: index}
            text = text if isinstance(text, str) else ""
            yield {"type": f"{part_kind}.added", "part": {**part, "text": ""}, **place}
            yield from ({"type": f"{kind}.delta", "delta": piece, **place} for piece in pieces(text, piece_length))
            yield {"type": f"{kind}.done", "text": text, **place}
            yield {"type": f"{part_kind}.done", "part": part, **place}
