"""Reads usage and errors from a response while it is relayed, and passes its events to the recorder."""

from collections.abc import Callable
from typing import Final

import msgspec

from proctor.gateway.meter import UsageAccumulator, WireUsage
from proctor.gateway.safe_json import DECODE_ERRORS
from proctor.gateway.sse import EventSplitter

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


class _MessageBody(_WireMessage):
    type: str | None = None


_EVENT = msgspec.json.Decoder(_WireEvent)
_BODY = msgspec.json.Decoder(_MessageBody)


class EventStreamReader:
    """Reads a streamed response.

    Attributes:
        finished: the stream was complete.
        error: the error with which the provider ended the stream.
    """

    def __init__(self, usage: UsageAccumulator, on_event: Callable[[bytes, int], None] | None = None) -> None:
        self.finished = False
        self.error: str | None = None
        self._usage = usage
        self._on_event = on_event
        self._events = EventSplitter()

    def feed(self, chunk: bytes, at_ms: int) -> None:
        """Read a chunk that was relayed."""
        for payload in self._events.feed(chunk):
            if self._on_event is not None:
                self._on_event(payload, at_ms)
            if _EVENT_MARKERS[0] in payload or _EVENT_MARKERS[1] in payload:
                self._read_event(payload)
            else:
                self._count_delta(payload)

    def _count_delta(self, payload: bytes) -> None:
        self._usage.add_delivered(max(1, len(payload) - _ENVELOPE_BYTES))

    def _read_event(self, payload: bytes) -> None:
        try:
            event = _EVENT.decode(payload)
        except DECODE_ERRORS:
            self._count_delta(payload)
            return
        match event.type:
            case "message_start" if event.message is not None:
                self._usage.update(event.message.usage, event.message.model)
            case "message_delta":
                self._usage.update(event.usage, final=True)
            case "message_stop":
                self.finished = True
            case "error" if event.error is not None:
                self.error = f"{event.error.type}: {event.error.message}"
            case _:
                self._count_delta(payload)  # its text has one of the markers


class BodyReader:
    """Reads a response that is one JSON document."""

    def __init__(self, usage: UsageAccumulator) -> None:
        self._usage = usage
        self._chunks: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Read a chunk that was relayed."""
        self._chunks.append(chunk)
        self._usage.add_delivered(len(chunk))

    def finish(self) -> bytes:
        """The whole body, at its end."""
        body = b"".join(self._chunks)
        try:
            message = _BODY.decode(body)
        except DECODE_ERRORS:
            return body
        if message.type == "message":
            self._usage.update(message.usage, message.model, final=True)
        return body
