"""Recordings: the exchanges of one session, one JSON object per line, written as exchanges end.

    {"kind": "cassette", …}   the header. A second header starts over: the session was run again into the same
                              file, and what precedes it belongs to an earlier attempt.
    {"kind": "part", …}       a system prompt, a tool list or the other members of a request, once, under its id
    {"kind": "mark", …}       a request that is about to leave this machine, and what it uses at most; later marks of
                              the same number, written as its response arrives, replace it
    {"kind": "exchange", …}   a request and its response; the marks of its number have served their purpose
    {"kind": "refusal", …}    a request that the gateway refused

Every request of a conversation repeats all previous messages. An exchange therefore holds only the new ones: `keep`
messages of the exchange `base` come first, then `add`. So a recording grows with the conversation, not with its square.
Cache marks and metadata, which differ between requests, are not recorded.

A streamed response is a list of `[ms, event]`, the time counted from the request. Consecutive deltas are one event with
the joined text; `[ms, event, [[length, ms], …]]` says in which pieces it arrived. An event that was not JSON is a
string. A process that is killed while it writes leaves an unfinished last line, which is ignored.
"""

from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import field

from proctor.core.errors import InvalidData
from proctor.core.record import Record
from proctor.core.user_files import check_json, read_user_bytes
from proctor.gateway.dialects import DIALECTS, MESSAGES
from proctor.gateway.dialects.base import Dialect, TextPath
from proctor.gateway.model_call import Role
from proctor.gateway.prices import Usage
from proctor.gateway.sse import SseEvent


class RecordingHeader(Record, tag_field="kind", tag="cassette"):
    """What was recorded: the task, the backend, and the session's values, such as the path of its workspace."""

    task_id: str
    label: str
    backend: str
    created_at: str
    values: dict[str, str] = field(default_factory=dict)
    schema_version: Literal["proctor.cassette@1"] = "proctor.cassette@1"


class SharedPart(Record, tag_field="kind", tag="part"):
    """A part that many requests have in common."""

    id: str
    value: Any


class RecordedRequest(Record):
    """The new messages of a request; `system`, `tools` and `params` are ids of parts."""

    model: str
    stream: bool
    system: str | None
    tools: str | None
    params: str | None
    base: int | None
    keep: int
    add: list[Any]
    dialect: str = MESSAGES.name


class RecordedResponse(Record):
    """A response, without the events of a stream.

    Attributes:
        status: None when there was no response.
        body: of a response that was not streamed: its JSON, or its text.
        cut: why the response broke off; None when it is complete.
    """

    status: int | None
    headers: dict[str, str]
    ms: int
    body: Any = None
    cut: str | None = None


class RecordedExchange(Record, tag_field="kind", tag="exchange"):
    """A request and its response. `errors` are the statuses of the gateway's earlier tries.

    `paid` says that the response was replayed from the recording of an interrupted attempt, at no cost.
    """

    number: int
    conversation: str
    role: Role
    agent: str
    at: str
    request: RecordedRequest
    response: RecordedResponse
    usage: tuple[Usage, ...] = ()
    cost_usd: float | None = None
    errors: tuple[int, ...] = ()
    paid: bool = False
    events: list[list[Any]] | None = None


class RecordedMark(Record, tag_field="kind", tag="mark"):
    """A request that leaves this machine, written and synced before it does, with what it uses at most.

    Without an exchange of the same number, the process was killed while the request was under way.
    """

    number: int
    conversation: str
    role: Role
    agent: str
    at: str
    usage: tuple[Usage, ...]
    cost_usd: float | None


class RecordedRefusal(Record, tag_field="kind", tag="refusal"):
    """A request that the gateway refused, and the error message."""

    conversation: str
    at: str
    status: int
    message: str


class ExpandedExchange(Record):
    """One recorded exchange with all messages and parts."""

    exchange: RecordedExchange
    system: Any
    tools: Any
    params: Any
    messages: list[Any]

    @property
    def dialect(self) -> Dialect:
        """The dialect of the request."""
        return DIALECTS[self.exchange.request.dialect]

    def timeline(self, paths: "PathTranslator | None" = None) -> Iterator[tuple[int, SseEvent | str]]:
        """The events of a streamed response in the pieces in which they arrived, each with its time in ms.

        A text in which `paths` changes a path comes in one piece.
        """
        for entry in self.exchange.events or ():
            at, event, *pieces = entry
            translated = event if paths is None else paths.translate(event)
            path = self.dialect.text_path(event) if pieces and translated == event else None
            if path is None:
                yield at, translated
                continue
            counter, text, position = self.dialect.counter, _text_at(event, path), 0
            for number, (length, piece_at) in enumerate(pieces[0]):
                piece = with_text(event, path, text[position : position + length])
                yield piece_at, piece if counter is None else {**piece, counter: event[counter] + number}
                position += length


def is_complete(exchange: RecordedExchange) -> bool:
    """Whether this is a complete response of the model, not an error, a part of one, or a proxy's HTML page."""
    response = exchange.response
    if response.status != HTTPStatus.OK or response.cut is not None:
        return False
    dialect = DIALECTS[exchange.request.dialect]
    if exchange.events is None:
        return dialect.is_message(response.body)
    return dialect.is_complete([event for _, event, *_ in exchange.events])


def pop_text(event: SseEvent, path: TextPath) -> str:
    """Take the text out of an event: it is empty afterwards."""
    *steps, last = path
    inner: Any = event
    for step in steps:
        inner = inner[step]
    text: str = inner[last]
    inner[last] = ""
    return text


def with_text(event: SseEvent, path: TextPath, text: str) -> SseEvent:
    """The same event with another text."""
    changed: SseEvent = _with_value(event, path, text)
    return changed


def _with_value(value: Any, path: TextPath, text: str) -> Any:
    if not path:
        return text
    step, *rest = path
    changed = _with_value(value[step], tuple(rest), text)
    if isinstance(value, list):
        return [changed if index == step else item for index, item in enumerate(value)]
    return {**value, step: changed}


def _text_at(event: SseEvent, path: TextPath) -> str:
    found: Any = event
    for step in path:
        found = found[step]
    return str(found)


class PathTranslator:
    """Replaces paths that have changed since a session was recorded, such as the workspace's."""

    def __init__(self, recorded: dict[str, str], current: dict[str, str]) -> None:
        moved = {old: current[name] for name, old in recorded.items() if old.startswith("/") and name in current}
        self._paths = {old: new for old, new in moved.items() if old != new and len(old) > 1}

    def translate(self, value: Any) -> Any:
        """The same value with the current paths."""
        if isinstance(value, str):
            for old, new in self._paths.items():
                value = value.replace(old, new)
            return value
        if isinstance(value, list):
            return [self.translate(item) for item in value]
        if isinstance(value, dict):
            return {key: self.translate(item) for key, item in value.items()}
        return value


class Recording(Record):
    """The recording of a session: of the last attempt, if the file holds several.

    Attributes:
        unanswered: the last mark of each request that was under way when the process was killed.
    """

    header: RecordingHeader
    exchanges: tuple[ExpandedExchange, ...]
    refusals: tuple[RecordedRefusal, ...] = field(default_factory=tuple)
    unanswered: tuple[RecordedMark, ...] = field(default_factory=tuple)


_MAX_BYTES: Final = 1 << 31
_LINE = msgspec.json.Decoder(RecordingHeader | SharedPart | RecordedMark | RecordedExchange | RecordedRefusal)


def load_recording(path: Path) -> Recording:
    """Read a recording.

    Raises:
        InvalidData: it cannot be read, or a line is not part of a recording; says which line.
    """
    data = read_user_bytes(path, "the recording", limit=_MAX_BYTES, error=InvalidData)
    header: RecordingHeader | None = None
    parts: dict[str, Any] = {}
    recorded: dict[int, ExpandedExchange] = {}
    refusals: list[RecordedRefusal] = []
    marks: dict[int, RecordedMark] = {}
    # What follows the last newline is an unfinished line.
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            check_json(line)
            entry = _LINE.decode(line)
            match entry:
                case RecordingHeader():
                    header, parts, recorded, refusals, marks = entry, {}, {}, [], {}
                case SharedPart():
                    parts[entry.id] = entry.value
                case RecordedMark():
                    marks[entry.number] = entry
                case RecordedExchange():
                    DIALECTS[entry.request.dialect]  # a dialect that this version does not know is an error here
                    recorded[entry.number] = _expand(entry, parts, recorded)
                case RecordedRefusal():
                    refusals.append(entry)
        except (msgspec.DecodeError, ValueError, RecursionError, KeyError) as error:
            raise InvalidData(f"line {number} is not part of a recording: {error}", where=path) from error
    if header is None:
        raise InvalidData("the recording is empty", where=path)
    exchanges = tuple(recorded[number] for number in sorted(recorded))
    unanswered = tuple(mark for number, mark in sorted(marks.items()) if number not in recorded)
    return Recording(header=header, exchanges=exchanges, refusals=tuple(refusals), unanswered=unanswered)


def _expand(
    exchange: RecordedExchange, parts: dict[str, Any], recorded: dict[int, ExpandedExchange]
) -> ExpandedExchange:
    request = exchange.request
    kept = [] if request.base is None else recorded[request.base].messages[: request.keep]
    return ExpandedExchange(
        exchange=exchange,
        system=None if request.system is None else parts[request.system],
        tools=None if request.tools is None else parts[request.tools],
        params=None if request.params is None else parts[request.params],
        messages=[*kept, *request.add],
    )
