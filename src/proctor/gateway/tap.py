"""Watches an answer pass by: reads its usage, notes how it ended, and hands its events to be written down."""

from collections.abc import Callable
from typing import Final

import msgspec

from proctor.gateway.meter import UsageTally, WireUsage
from proctor.gateway.readable import UNREADABLE
from proctor.gateway.sse import EventSplitter

# What the meter must see. Nearly all of a stream is deltas, which hold none of these and are not even decoded.
_MARKS: Final = (b'"message_', b'"error"')


class _Message(msgspec.Struct):
    model: str | None = None
    usage: WireUsage | None = None


class _Error(msgspec.Struct):
    type: str = ""
    message: str = ""


class _Watched(msgspec.Struct):
    type: str | None = None
    message: _Message | None = None
    usage: WireUsage | None = None
    error: _Error | None = None


class _Body(_Message):
    type: str | None = None


_EVENT = msgspec.json.Decoder(_Watched)
_BODY = msgspec.json.Decoder(_Body)


class StreamTap:
    """Follows a streamed answer.

    Attributes:
        finished: the stream came to its proper end.
        error: what the provider said when it broke the answer off itself.
    """

    def __init__(self, tally: UsageTally, note: Callable[[bytes, int], None] | None = None) -> None:
        self.finished = False
        self.error: str | None = None
        self._tally = tally
        self._note = note
        self._events = EventSplitter()

    def feed(self, chunk: bytes, at_ms: int) -> None:
        """Look at what was just passed on."""
        unmarked = _MARKS[0] not in chunk and _MARKS[1] not in chunk
        if self._note is None and unmarked and self._events.clean and chunk.endswith(b"\n\n"):
            return
        for payload in self._events.feed(chunk):
            if self._note is not None:
                self._note(payload, at_ms)
            if _MARKS[0] in payload or _MARKS[1] in payload:
                self._watch(payload)

    def _watch(self, payload: bytes) -> None:
        try:
            event = _EVENT.decode(payload)
        except UNREADABLE:
            return
        match event.type:
            case "message_start" if event.message is not None:
                self._tally.report(event.message.usage, event.message.model)
            case "message_delta":
                self._tally.report(event.usage)
            case "message_stop":
                self.finished = True
            case "error" if event.error is not None:
                self.error = f"{event.error.type}: {event.error.message}"


class BodyTap:
    """Follows an answer that is one JSON document."""

    def __init__(self, tally: UsageTally) -> None:
        self._tally = tally
        self._chunks: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        """Look at what was just passed on."""
        self._chunks.append(chunk)

    def end(self) -> bytes:
        """The whole body, once it has passed."""
        body = b"".join(self._chunks)
        try:
            message = _BODY.decode(body)
        except UNREADABLE:
            return body
        if message.type == "message":
            self._tally.report(message.usage, message.model)
        return body
