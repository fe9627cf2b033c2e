"""Writes the recording of a session: line by line, as exchanges end, without secrets."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, NamedTuple, Self

import msgspec
from msgspec import Raw

from proctor.core.files import append_whole, sync_data, sync_directory, truncate_torn_line
from proctor.core.record import Record
from proctor.gateway.dialects.base import Dialect, TextPath
from proctor.gateway.dialects.messages import strip_blocks
from proctor.gateway.model_call import ModelCall
from proctor.gateway.recording import (
    RecordedExchange,
    RecordedMark,
    RecordedRefusal,
    RecordedRequest,
    RecordedResponse,
    RecordingHeader,
    SharedPart,
    pop_text,
    with_text,
)
from proctor.gateway.redact import Redactor
from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text, decode_text
from proctor.gateway.sse import SseEvent

# Events beyond this size go to a temporary file, so that a stream of any length takes the same memory.
MAX_IN_MEMORY_BYTES: Final = 64 * 1024
# Joined deltas are written after this many characters, at a space if one comes in time: a secret has none.
SOFT_DELTA_LIMIT: Final = 16 * 1024
HARD_DELTA_LIMIT: Final = 64 * 1024
_BLOCK: Final = 256 * 1024
# Of the last requests of all conversations of a session, held for the next ones.
MAX_RECENT_BYTES: Final = 4 * 1024 * 1024

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The current time."""
    return datetime.now(UTC)


def format_timestamp(moment: datetime) -> str:
    """A time as it is written in recordings."""
    return moment.isoformat(timespec="milliseconds")


class _PendingText(NamedTuple):
    """An event whose text is being joined: the event without it, where it is, and the event's number."""

    event: SseEvent
    path: TextPath
    number: int


class EventBuffer:
    """The events of one streamed response, encoded while they are relayed."""

    def __init__(self, dialect: Dialect, redactor: Redactor, directory: Path) -> None:
        self._dialect = dialect
        self._redactor = redactor
        self._directory = directory
        self._written = bytearray()
        self._file: IO[bytes] | None = None
        self._empty = True
        self._pending: _PendingText | None = None
        self._texts: list[str] = []
        self._pieces: list[tuple[int, int]] = []
        self._length = 0

    def add(self, payload: bytes, at_ms: int) -> None:
        """Add the data of one event."""
        if not self._join(payload, at_ms):
            self._flush()
            self._write(b"%d,%b" % (at_ms, _as_json(self._redactor.redact_bytes(payload))))

    def _join(self, payload: bytes, at_ms: int) -> bool:
        """Add a piece of text to the pieces before it; False for an event of another kind."""
        try:
            event = msgspec.json.decode(payload)
            path = self._dialect.text_path(event) if isinstance(event, dict) else None
            if path is None:
                return False
            for name in self._dialect.unrecorded_event_fields:
                event.pop(name, None)
            text = pop_text(event, path)
            number = self._take_number(event)
            before = self._pending
            fits = before is not None and before.path == path and before.event == event
            fits = fits and before is not None and before.number + len(self._pieces) * self._numbered == number
        except DECODE_ERRORS:
            return False  # not JSON, or nested too deep: stored as it is
        full = self._length > HARD_DELTA_LIMIT or (self._length > SOFT_DELTA_LIMIT and text[:1].isspace())
        if not fits or full:
            self._flush()
            self._pending = _PendingText(event, path, number)
        self._texts.append(text)
        self._pieces.append((len(text), at_ms))
        self._length += len(text)
        return True

    def _take_number(self, event: SseEvent) -> int:
        """An event's number, which is 0 afterwards."""
        counter = self._dialect.counter
        number = 0 if counter is None else event.get(counter, 0)
        if counter is not None:
            event[counter] = 0
        return number if isinstance(number, int) else 0

    @property
    def _numbered(self) -> bool:
        return self._dialect.counter is not None

    def _flush(self) -> None:
        if self._pending is None:
            return
        whole = "".join(self._texts)
        clean = self._redactor.redact_text(whole)
        pieces = b"" if clean != whole or len(self._pieces) == 1 else b"," + msgspec.json.encode(self._pieces)
        event, path, number = self._pending
        numbers = {} if self._dialect.counter is None else {self._dialect.counter: number}
        encoded = msgspec.json.encode({**with_text(event, path, clean), **numbers})
        self._write(b"%d,%b%b" % (self._pieces[0][1], self._redactor.redact_bytes(encoded), pieces))
        self._pending, self._texts, self._pieces, self._length = None, [], [], 0

    def _write(self, entry: bytes) -> None:
        self._written += b"[%b]" % entry if self._empty else b",[%b]" % entry
        self._empty = False
        if len(self._written) > MAX_IN_MEMORY_BYTES:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._directory)  # noqa: SIM115 - closed in `close`
            self._file.write(self._written)
            self._written.clear()

    def blocks(self) -> Iterable[bytes]:
        """All events: the inside of a JSON array."""
        self._flush()
        if self._file is not None:
            self._file.seek(0)
            while block := self._file.read(_BLOCK):
                yield block
        yield bytes(self._written)

    def close(self) -> None:
        """Delete the temporary file."""
        if self._file is not None:
            self._file.close()


class ExchangeStart(Record):
    """The position of an exchange in the recording: exchanges are read in the order of their requests."""

    number: int
    at: datetime


class PreparedRequest(Record):
    """A request that is ready to be written as soon as its response has ended."""

    start: ExchangeStart
    request: RecordedRequest
    digests: tuple[bytes, ...]


class _RecentRequest(NamedTuple):
    """The last request of a conversation: most of the next one is the same, byte for byte, and needs no new digests.

    Attributes:
        parts: each with its id, by member.
    """

    size: int
    messages: list[Raw]
    digests: list[bytes]
    parts: dict[str, tuple[Raw, str]]


_NO_REQUEST: Final = _RecentRequest(0, [], [], {})


class Recorder:
    """Appends to the recording of one session. A write blocks until the line is in the page cache.

    There it survives a kill of this process; `sync` makes it survive a power cut.
    """

    def __init__(self, path: Path, header: RecordingHeader, redactor: Redactor, *, clock: Clock = utc_now) -> None:
        self.path = path
        self._redactor = redactor
        self._clock = clock
        self._parts: set[str] = set()
        self._canonical: dict[bytes, bytes] = {}
        self._written: dict[str, tuple[int, tuple[bytes, ...]]] = {}
        self._recent: dict[tuple[str, str], _RecentRequest] = {}
        self._numbers = 0
        self._new = True
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        truncate_torn_line(self._descriptor)
        self._write_line([redactor.redact_bytes(msgspec.json.encode(header))])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def size(self) -> int:
        """How many bytes have been written."""
        return os.fstat(self._descriptor).st_size

    def new_event_buffer(self, dialect: Dialect) -> EventBuffer:
        """A buffer for one streamed response."""
        return EventBuffer(dialect, self._redactor, self.path.parent)

    def start_exchange(self) -> ExchangeStart:
        """A request has arrived."""
        self._numbers += 1
        return ExchangeStart(number=self._numbers, at=self._clock())

    def prepare_request(self, start: ExchangeStart, call: ModelCall, conversation: str) -> PreparedRequest:
        """Prepare a request: its new messages are kept, the parts that requests share are written now."""
        fields = call.fields
        dialect = call.dialect
        separate = {"model", "stream", dialect.system, dialect.tools, dialect.conversation, *dialect.unrecorded}
        rest = {name: value for name, value in sorted(fields.items()) if name not in separate}
        recent = self._recent.pop((dialect.name, conversation), _NO_REQUEST)
        messages, new = call.messages, dict[bytes, bytes]()
        digests = [
            known if raw == before else self._message_digest(raw, dialect, new)
            for raw, before, known in zip(messages, recent.messages, recent.digests, strict=False)
        ]
        digests += [self._message_digest(raw, dialect, new) for raw in messages[len(digests) :]]
        base, written = self._written.get(conversation, (None, ()))
        keep = next((i for i, pair in enumerate(zip(written, digests, strict=False)) if pair[0] != pair[1]), None)
        keep = min(len(written), len(digests)) if keep is None else keep
        parts: dict[str, tuple[Raw, str]] = {}

        def identity(name: str, raw: Raw | None, strip: Callable[[Any], Any]) -> str | None:
            if raw is None:
                return None
            before, known = recent.parts.get(name, (None, ""))
            parts[name] = (raw, known if raw == before else self._shared_part(raw, strip))
            return parts[name][1]

        added = (
            new[known] if known in new else _canonical(raw, dialect.recorded_item)
            for raw, known in zip(messages[keep:], digests[keep:], strict=True)
        )
        request = RecordedRequest(
            dialect=dialect.name,
            model=call.model,
            stream=call.stream,
            system=identity("system", fields.get(dialect.system), strip_blocks),
            tools=identity("tools", fields.get(dialect.tools), strip_blocks),
            params=identity("params", Raw(msgspec.json.encode(rest)), lambda value: value) if rest else None,
            base=base if keep else None,
            keep=keep,
            add=[Raw(self._redactor.redact_bytes(value)) for value in added],
        )
        self._remember((dialect.name, conversation), _RecentRequest(call.size, messages, digests, parts))
        return PreparedRequest(start=start, request=request, digests=tuple(digests))

    def write_exchange(
        self, exchange: RecordedExchange, prepared: PreparedRequest, buffer: EventBuffer | None = None
    ) -> None:
        """Append one finished exchange."""
        head = msgspec.json.encode(exchange)
        pieces: Iterable[bytes] = [head]
        if buffer is not None:
            # `events` is the last member and None until here: it is replaced by the buffer.
            pieces = chain([head.removesuffix(b"null}") + b"["], buffer.blocks(), [b"]}"])
        self._write_line(pieces)
        self._written[exchange.conversation] = (prepared.start.number, prepared.digests)

    def write_mark(self, mark: RecordedMark) -> None:
        """Append the mark of a request."""
        self._write_line([self._redactor.redact_bytes(msgspec.json.encode(mark))])

    def write_refusal(self, conversation: str, status: int, message: str) -> None:
        """Append a request that was refused."""
        refusal = RecordedRefusal(
            conversation=conversation, at=format_timestamp(self._clock()), status=status, message=message
        )
        self._write_line([self._redactor.redact_bytes(msgspec.json.encode(refusal))])

    def make_response(
        self, status: int | None, headers: dict[str, str], ms: int, body: bytes, cut: str | None
    ) -> RecordedResponse:
        """A response without secrets, ready to be written."""
        clean = {name: self._redactor.redact_text(value) for name, value in headers.items()}
        value = Raw(_as_json(self._redactor.redact_bytes(body))) if body else None
        return RecordedResponse(status=status, headers=clean, ms=ms, body=value, cut=cut)

    def sync(self) -> None:
        """Sync what was written, unless the file is closed. May be called in another thread."""
        if self._descriptor >= 0:
            sync_data(self._descriptor)
            if self._new:
                sync_directory(self.path.parent)
                self._new = False

    def close(self) -> None:
        """Sync what was written, and close the file."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _remember(self, conversation: tuple[str, str], request: _RecentRequest) -> None:
        """Hold a request for the next one of its conversation; the oldest go when all of them are too large."""
        self._recent[conversation] = request
        while sum(one.size for one in self._recent.values()) > MAX_RECENT_BYTES:
            del self._recent[next(iter(self._recent))]

    def _message_digest(self, raw: Raw, dialect: Dialect, new: dict[bytes, bytes]) -> bytes:
        """The digest of a message without what moves; one that was not seen before is added to `new` without it."""
        seen = digest(raw)
        if (known := self._canonical.get(seen)) is None:
            value = _canonical(raw, dialect.recorded_item)
            known = self._canonical[seen] = digest(value)
            new[known] = value
        return known

    def _shared_part(self, raw: Raw, strip: Callable[[Any], Any]) -> str:
        """The id of a part that requests share, which is written when it is new."""
        seen = digest(raw)
        if seen not in self._canonical:
            value = self._redactor.redact_bytes(_canonical(raw, strip))
            self._canonical[seen] = digest(value)
            identity = self._canonical[seen].hex()
            if identity not in self._parts:
                self._write_line([msgspec.json.encode(SharedPart(id=identity, value=Raw(value)))])
                self._parts.add(identity)
        return self._canonical[seen].hex()

    def _write_line(self, pieces: Iterable[bytes]) -> None:
        append_whole(self._descriptor, chain(pieces, [b"\n"]))


def _as_json(data: bytes) -> bytes:
    """The same JSON on one line; what is not JSON becomes a string."""
    try:
        value = msgspec.json.decode(data)
    except DECODE_ERRORS:
        return msgspec.json.encode(decode_text(data))
    return msgspec.json.encode(value) if b"\n" in data else data


def _canonical(raw: Raw, strip: Callable[[Any], Any]) -> bytes:
    return msgspec.json.encode(strip(decode_or_text(raw)))


def digest(data: bytes | Raw) -> bytes:
    """A short digest of some bytes."""
    return hashlib.blake2b(memoryview(data), digest_size=16).digest()
