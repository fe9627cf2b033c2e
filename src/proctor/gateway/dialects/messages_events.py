"""Messages of the Messages API, and the events that stream them."""

import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from proctor.gateway.dialects.base import EventReader, pieces
from proctor.gateway.dialects.messages_usage import UsageReports, WireUsage
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.safe_json import DECODE_ERRORS
from proctor.gateway.sse import SseEvent

# For each kind of delta, its member and the member of the content block that it extends.
_DELTAS: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}
# Events that the meter needs contain one of these. Most of a stream is deltas, which do not and are not decoded.
_EVENT_MARKERS: Final = (b'"message_', b'"error"')
# What an event of a delta has around the model's text, at least.
_ENVELOPE_BYTES: Final = len(b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}')


class _WireMessage(msgspec.Struct):
    model: str | None = None
    usage: WireUsage | None = None


class _WireError(msgspec.Struct):
    type: str = ""
    message: str = ""


class _WireEvent(msgspec.Struct):
    type: str | None = None
    message: _WireMessage | None = None
    usage: WireUsage | None = None
    error: _WireError | None = None


class _MessagesBody(_WireMessage):
    type: str | None = None


_EVENT: Final = msgspec.json.Decoder(_WireEvent)
_BODY: Final = msgspec.json.Decoder(_MessagesBody)


def read_message(body: bytes, usage: UsageAccumulator) -> bool:
    """Read the usage of a message; False when it is none."""
    try:
        message = _BODY.decode(body)
    except DECODE_ERRORS:
        return False
    if message.type != "message":
        return False
    UsageReports(usage).update(message.usage, message.model, final=True)
    return True


class MessagesEventReader(EventReader):
    """Reads message_start, message_delta, message_stop and error."""

    def __init__(self, usage: UsageAccumulator) -> None:
        super().__init__(usage)
        self._reports = UsageReports(usage)

    def read(self, payload: bytes) -> None:
        """Read one event."""
        if not (_EVENT_MARKERS[0] in payload or _EVENT_MARKERS[1] in payload):
            self._count_delta(payload)
            self.check_syntax(payload)
            return
        try:
            event = _EVENT.decode(payload)
        except DECODE_ERRORS:
            self._count_delta(payload)
            self.check_syntax(payload)
            return
        match event.type:
            case "message_start" if event.message is not None:
                self._reports.update(event.message.usage, event.message.model)
            case "message_delta":
                self._reports.update(event.usage, final=True)
            case "message_stop":
                self.finished = True
            case "error" if event.error is not None:
                self.error = f"{event.error.type}: {event.error.message}"
            case _:
                self._count_delta(payload)  # its text has one of the markers

    def _count_delta(self, payload: bytes) -> None:
        self._usage.add_delivered(max(1, len(payload) - _ENVELOPE_BYTES))


def message_from_events(events: Iterable[SseEvent]) -> dict[str, Any]:
    """The message of a stream of events, as the same request without `stream` would get it."""
    message: dict[str, Any] = {}
    partial: dict[int, str] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = copy.deepcopy(event["message"])
            message["content"] = []
        elif kind == "content_block_start":
            message["content"].append(copy.deepcopy(event["content_block"]))
        elif kind == "content_block_delta":
            _apply_delta(event["delta"], message["content"][event["index"]], partial, event["index"])
        elif kind == "content_block_stop" and event["index"] in partial:
            text = partial.pop(event["index"])
            message["content"][event["index"]]["input"] = msgspec.json.decode(text) if text else {}
        elif kind == "message_delta":
            message.update(event.get("delta") or {})
            usage = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
            message["usage"] = (message.get("usage") or {}) | usage
    return message


def _apply_delta(delta: dict[str, Any], block: dict[str, Any], partial: dict[int, str], index: int) -> None:
    kind = delta["type"]
    if kind == "input_json_delta":
        partial[index] = partial.get(index, "") + delta["partial_json"]
    elif kind in _DELTAS:
        source, target = _DELTAS[kind]
        block[target] = (block.get(target) or "") + delta[source]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta["citation"]]
    else:
        # An unknown kind: text is appended, anything else replaced.
        for name, value in delta.items():
            if name != "type":
                old = block.get(name)
                block[name] = old + value if isinstance(old, str) and isinstance(value, str) else value


def events_from_message(message: dict[str, Any], *, piece_length: int = 0) -> Iterator[SseEvent]:
    """The events that stream this message; `piece_length` is the number of characters per delta, 0 for one delta."""
    usage = dict(message.get("usage") or {})
    final = usage.get("output_tokens", 0)
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = {**usage, "output_tokens": min(1, final)}
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message.get("content") or []):
        empty, deltas = _deltas(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for kind, name, text in deltas:
            for part in pieces(text, piece_length):
                yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, name: part}}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": message.get("stop_reason"), "stop_sequence": message.get("stop_sequence")}
    yield {"type": "message_delta", "delta": stop, "usage": {**usage, "output_tokens": final}}
    yield {"type": "message_stop"}


def _deltas(block: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """A block's start, and its deltas."""
    match block.get("type"):
        case "text":
            return {**block, "text": ""}, [("text_delta", "text", block.get("text") or "")]
        case "thinking":
            signature = block.get("signature") or ""
            added = [("thinking_delta", "thinking", block.get("thinking") or "")]
            added += [("signature_delta", "signature", signature)] if signature else []
            return {**block, "thinking": "", "signature": ""}, added
        case "tool_use" | "server_tool_use":
            text = msgspec.json.encode(block.get("input") or {}).decode()
            return {**block, "input": {}}, [("input_json_delta", "partial_json", text)]
        case _:
            return dict(block), []
