"""What the gateway must know of a dialect, the HTTP API in which an agent talks to its model.

A dialect is one module beside this one with one subclass of `Dialect`. It parses requests, reads the usage and the end
of responses, writes errors that agents take as final, and converts between streamed and whole messages.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple

import msgspec

from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import ModelCall
from proctor.gateway.remote_content import FROM_URL
from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text
from proctor.gateway.sse import SseEvent

BUDGET_STATUS: Final = 402
CLOSED_STATUS: Final = 403
# Claude Code gives up at once on this status, as on 402 and 403, and no provider responds with it.
FINAL_STATUS: Final = 451
OVERLOADED: Final = 529  # a provider's own, not in HTTPStatus

RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429})  # and those of servers' errors
_FIRST_ERROR: Final = 400
_SERVER_ERROR: Final = 500
_MAX_COUNT: Final = 2**53
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])

CacheWrites = Literal["", "5m", "1h"]
TextPath = tuple[str | int, ...]


class Route(NamedTuple):
    """A path that is one of a dialect's.

    Attributes:
        path: what is added to the provider's address, however the agent has spelt it, with the query.
        model: where the path names it, and not the body.
        stream: where the path says whether a stream is wanted, and not the body.
        array: the stream is one JSON array, not events.
    """

    dialect: "Dialect"
    path: str
    model: str = ""
    stream: bool | None = None
    array: bool = False


class ScriptedTool(NamedTuple):
    """A tool call of a script; arguments that are a text are those of a tool without a schema."""

    number: int
    name: str
    arguments: dict[str, Any] | str


class ScriptedMessage(Record):
    """A response of a script, in no dialect yet.

    Attributes:
        number: counts the responses of a session, for ids.
        content: as the dialect writes it, instead of `thinking`, `text` and `tools`.
        stop_reason: as the dialect writes it; None for the usual one.
    """

    number: int
    model: str
    thinking: str | None = None
    text: str | None = None
    tools: tuple[ScriptedTool, ...] = ()
    content: list[dict[str, Any]] | None = None
    stop_reason: str | None = None
    tokens: Tokens = Tokens()


class _JsonObject(msgspec.Struct):
    """Any object, of which nothing is kept."""


_OBJECT: Final = msgspec.json.Decoder(_JsonObject)


def is_whole_event(payload: bytes) -> bool:
    """Whether the data of an event is a whole JSON object, or the word with which some streams end."""
    try:
        _OBJECT.decode(payload)
    except DECODE_ERRORS:
        return payload == b"[DONE]"
    return True


class EventReader(ABC):
    """Reads the events of one streamed response.

    Attributes:
        finished: the event has arrived with which such a stream ends.
        may_end: the stream is whole if it ends here.
        error: the error with which the provider ended the stream.
        malformed: how many of its events were no JSON.
    """

    def __init__(self, usage: UsageAccumulator) -> None:
        self.finished = False
        self.may_end = False
        self.error: str | None = None
        self.malformed = 0
        self._usage = usage

    @abstractmethod
    def read(self, payload: bytes) -> None:
        """Read the data of one event; what cannot be read is counted as text."""

    def count_unreadable(self, payload: bytes) -> None:
        """Count an event that cannot be read as text; one of an unknown form is not malformed."""
        self._usage.add_delivered(len(payload))
        self.check_syntax(payload)

    def check_syntax(self, payload: bytes) -> None:
        """Count an event that is no JSON object, without making anything of what is in it."""
        self.malformed += not is_whole_event(payload)


class ClientFilter(ABC):
    """Takes out of a stream what the gateway has asked for and the client has not."""

    @abstractmethod
    def feed(self, chunk: bytes) -> bytes:
        """What the client gets, now that this chunk has arrived."""

    @abstractmethod
    def finish(self) -> bytes:
        """What is left at the end."""


class Dialect(ABC):
    """One dialect.

    Attributes:
        name: its name in recordings and messages.
        provider: whose dialect it is: the name by which its address and its key are configured.
        conversation: the member of a request that holds the conversation; `system` and `tools` likewise.
        unrecorded: members of a request that differ each time and are not recorded.
        priced_tools: of what a provider may execute, that which is paid by the token, or counted and priced apart;
            None for all of it.
        text_members: where events, in whatever object, have pieces of what the model wrote.
        counter: the member that numbers the events of a stream, where there is one.
        unrecorded_event_fields: members of events that mean nothing.
        event_reader: reads one streamed response.
    """

    name: ClassVar[str]
    provider: ClassVar[str]
    conversation: ClassVar[str] = "messages"
    system: ClassVar[str] = "system"
    tools: ClassVar[str] = "tools"
    unrecorded: ClassVar[frozenset[str]] = frozenset()
    priced_tools: ClassVar[frozenset[str] | None] = frozenset({FROM_URL})
    text_members: ClassVar[tuple[str, ...]]
    counter: ClassVar[str | None] = None
    unrecorded_event_fields: ClassVar[frozenset[str]] = frozenset()
    malformed_event: ClassVar[str] = '{"type":'
    event_reader: ClassVar[type[EventReader]]

    # Requests

    @abstractmethod
    def route(self, method: str, path: str, query: str) -> Route | None:
        """The model request at this path, if it is one in this dialect."""

    @abstractmethod
    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request as far as the gateway needs it; None when its body is no such request."""

    def conversation_items(self, conversation: msgspec.Raw) -> list[msgspec.Raw]:
        """The messages in the member of a request that holds them; one alone need not be in a list."""
        try:
            return _ITEMS.decode(conversation)
        except DECODE_ERRORS:
            return [conversation]

    def cache_writes(self, call: ModelCall) -> CacheWrites:
        """For how long the prompt is to be cached, at most; empty where that costs nothing of its own."""
        return ""

    @abstractmethod
    def system_text(self, call: ModelCall) -> str:
        """The system prompt as one text."""

    @abstractmethod
    def item_text(self, item: Any) -> str:
        """The text in one message of a conversation, tool results included."""

    @abstractmethod
    def is_from_model(self, item: Any) -> bool:
        """Whether the model wrote this message of the conversation."""

    @abstractmethod
    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        """What a message of a conversation consists of, in the words of the Messages API: text, thinking, tool_use and
        tool_result; for whoever shows it.
        """

    @abstractmethod
    def message_items(self, message: Any) -> list[Any]:
        """What a response adds to its conversation."""

    def is_instruction(self, item: Any) -> bool:
        """Whether this message of the conversation is a part of the system prompt."""
        return False

    def first_text(self, call: ModelCall) -> str:
        """The text of the first message."""
        items = (decode_or_text(raw) for raw in call.messages)
        return self.item_text(next((item for item in items if not self.is_instruction(item)), {}))

    def last_text(self, call: ModelCall) -> str:
        """The text and the tool results since the model's last message."""
        texts: list[str] = []
        for raw in reversed(call.messages):
            item = decode_or_text(raw)
            if self.is_from_model(item):
                break
            if not self.is_instruction(item):
                texts.append(self.item_text(item))
        return "\n".join(text for text in reversed(texts) if text)

    def client_filter(self, call: ModelCall) -> ClientFilter | None:
        """What must be taken out of the response for this client; None where nothing is."""
        return None

    def without_usage_options(self, body: bytes) -> bytes:
        """The body of a request without what asks for the usage of its stream, for a server that refuses it."""
        return body

    def with_model(self, call: ModelCall, model: str) -> ModelCall:
        """The same request to another model."""
        return msgspec.structs.replace(call, model=model, body=with_members(call.body, model=model), altered=True)

    # Recordings

    def recorded_item(self, item: Any) -> Any:
        """A message as it is recorded: without what moves from one request to the next."""
        return item

    def comparable_item(self, item: Any) -> Any:
        """A message as it is compared with a recorded one: without what differs between sessions."""
        return self.recorded_item(item)

    @abstractmethod
    def text_path(self, event: SseEvent) -> TextPath | None:
        """Where in an event the text is, if it is a piece of text and nothing else, so that pieces can be joined."""

    # Responses

    def served_speed(self, headers: Mapping[str, str], asked: str | None) -> str | None:
        """The tier of service of a response, as far as its headers say it; else the one that was asked for."""
        return asked

    @abstractmethod
    def read_body(self, body: bytes, usage: UsageAccumulator) -> bool:
        """Read the usage of a response that is one document; False when it is no whole message of a model."""

    @abstractmethod
    def is_message(self, body: Any) -> bool:
        """Whether a decoded body is a whole message of a model."""

    @abstractmethod
    def is_complete(self, events: Sequence[Any]) -> bool:
        """Whether these events are a whole response of a model, without an error."""

    @abstractmethod
    def message_from_events(self, events: Iterable[SseEvent]) -> Any:
        """The message of a stream, as the same request without a stream would get it."""

    @abstractmethod
    def events_from_message(self, message: Any, *, piece_length: int = 0) -> Iterator[SseEvent | str]:
        """The events that stream this message; `piece_length` is the number of characters per event, 0 for all."""

    def whole_body(self, message: Any, call: ModelCall) -> Any:
        """A message as the body of a response that is not a stream of events."""
        return message

    @abstractmethod
    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        """A scripted response in this dialect."""

    @abstractmethod
    def encode_event(self, event: SseEvent | str) -> bytes:
        """One event of a stream, encoded; a string is sent as its data."""

    # Errors

    @abstractmethod
    def error_body(self, status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
        """An error as this dialect writes it; `kind` defaults to that of the status."""

    def error_event(self, kind: str, message: str) -> SseEvent:
        """The event by which a stream reports an error."""
        return self.error_body(500, message, kind=kind)

    def too_long_message(self, tokens: int, maximum: int) -> str:
        """The error message for a conversation that does not fit into the context."""
        return f"prompt is too long: {tokens} tokens > {maximum} maximum"

    def refusal_status(self, status: int) -> int:
        """The status of a refusal of the gateway's own that agents take as final, for the one that Claude Code does.

        402 and 403 are final for most programs; what is no provider's status becomes 400.
        """
        return _FIRST_ERROR if status == FINAL_STATUS else status

    def final_error_status(self, status: int, headers: Mapping[str, str]) -> int:
        """The status with which the gateway relays a provider's error once it has given up.

        Programs try again after 429 and 5xx for minutes, or for ever. The headers are those of the request.
        """
        is_retried = status in RETRYABLE_STATUSES or status >= _SERVER_ERROR or status < _FIRST_ERROR
        return _FIRST_ERROR if is_retried else status


def text_bytes(*texts: Any) -> int:
    """The length of texts in bytes; what is no text has none."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts if isinstance(text, str))


def count_of(value: Any) -> int | None:
    """A number of tokens that a provider reports; None for what is none."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    is_count = isinstance(whole, int) and not isinstance(whole, bool) and 0 <= whole <= _MAX_COUNT
    return whole if is_count else None


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list that somebody else has written; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def as_list(value: Any) -> list[Any]:
    """A list that need not be one where it has one item; None is an empty one."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def unique(names: Iterable[str]) -> tuple[str, ...]:
    """The names without repetitions."""
    return tuple(dict.fromkeys(names))


def error_text(error: Any, *kinds: str) -> str:
    """An error of a stream, for a message; `kinds` are the members that may say its kind."""
    if not isinstance(error, dict):
        return str(error)
    kind = next((error[name] for name in kinds if error.get(name)), "error")
    return f"{kind}: {error.get('message') or ''}"


def with_members(body: bytes, **members: Any) -> bytes:
    """The body of a request with these members, in place of those that it has."""
    fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode(fields | members)


def without_keys(value: Any, keys: frozenset[str], opaque: frozenset[str] = frozenset()) -> Any:
    """A decoded value without these members and those that are null; what is below an `opaque` one is left as it is."""
    if isinstance(value, list):
        return [without_keys(item, keys, opaque) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in opaque else without_keys(item, keys, opaque)
            for key, item in value.items()
            if key not in keys and item is not None
        }
    return value


def text_block(text: str) -> list[dict[str, Any]]:
    """A text as blocks of the Messages API; none where it is empty."""
    return [{"type": "text", "text": text}] if text else []


def call_block(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """A tool call as a block of the Messages API; arguments may come as JSON in a text."""
    if isinstance(arguments, str):
        decoded = decode_or_text(arguments.encode())
        arguments = decoded if isinstance(decoded, dict) else {"input": arguments}
    return {"type": "tool_use", "id": call_id or "", "name": name, "input": arguments or {}}


def result_block(call_id: Any, output: str) -> dict[str, Any]:
    """What a tool has returned, as a block of the Messages API."""
    return {"type": "tool_result", "tool_use_id": call_id or "", "content": output}


def pieces(text: str, size: int) -> list[str]:
    """A text in pieces of so many characters; 0 for one piece."""
    if size <= 0 or len(text) <= size:
        return [text]
    return [text[start : start + size] for start in range(0, len(text), size)]
