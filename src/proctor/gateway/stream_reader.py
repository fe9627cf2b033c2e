"""Reads usage and errors from a response while it is relayed, and passes its events to the recorder."""

from collections.abc import Callable

from proctor.gateway.dialects.base import Dialect, EventReader, is_whole_event
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.sse import EventSplitter


class EventStreamReader:
    """Reads a streamed response.

    Attributes:
        events: reads its events.
    """

    def __init__(
        self, dialect: Dialect, usage: UsageAccumulator, on_event: Callable[[bytes, int], None] | None = None
    ) -> None:
        self.events: EventReader = dialect.event_reader(usage)
        self._on_event = on_event
        self._splitter = EventSplitter()

    def feed(self, chunk: bytes, at_ms: int) -> None:
        """Read a chunk that was relayed."""
        for payload in self._splitter.feed(chunk):
            self._read(payload, at_ms)

    def finish(self, at_ms: int) -> None:
        """Read an event that lacks nothing but the empty line after it: clients read it, too."""
        payload = self._splitter.finish()
        if payload and is_whole_event(payload):
            self._read(payload, at_ms)

    def _read(self, payload: bytes, at_ms: int) -> None:
        if self._on_event is not None:
            self._on_event(payload, at_ms)
        self.events.read(payload)


class BodyReader:
    """Reads a response that is one JSON document; `is_message`: it was a whole message of a model."""

    def __init__(self, dialect: Dialect, usage: UsageAccumulator) -> None:
        self._dialect = dialect
        self._usage = usage
        self._chunks: list[bytes] = []
        self.is_message = False

    def feed(self, chunk: bytes) -> None:
        """Read a chunk that was relayed."""
        self._chunks.append(chunk)
        self._usage.add_delivered(len(chunk))

    def finish(self) -> bytes:
        """The whole body, at its end."""
        body = b"".join(self._chunks)
        self.is_message = self._dialect.read_body(body, self._usage)
        return body
