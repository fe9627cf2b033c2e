"""Model requests as far as the gateway needs them: which agent sent a request, in which dialect, and for what."""

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Raw

from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text

if TYPE_CHECKING:
    from proctor.gateway.dialects.base import Dialect

# Half of a character, as left by a program that cuts text anywhere. JSON allows it; our decoder does not.
_LONE_SURROGATE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
# Ids that agents send are stored, so their length and number are limited.
MAX_ID_LENGTH: Final = 128
MAX_CONVERSATIONS: Final = 10_000

Body = TypeVar("Body")


class Role(StrEnum):
    """What a request is for."""

    MAIN = "main"
    SUBAGENT = "subagent"
    SIDE = "side"
    COMPACTION = "compaction"


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One model request.

    Attributes:
        dialect: the dialect that it is written in.
        path: what is added to the provider's address, with the query.
        agent: which agent of a pod sent it, where the base URL says so.
        client_session_id: the client program's own session id; a pod's agents have one each.
        subagent_id: empty for a main thread.
        array: a stream is wanted as one JSON array, not as events.
        messages: the conversation, each message as it was sent.
        body: the whole request, as valid JSON.
        altered: `body` is sent instead of what the agent sent.
        tools: the names of the tools that the model may call.
        cache_writes: for how long the prompt is to be cached, at most; empty where it is not.
        speed: what the request asks for, beside the model, that its price depends on; `geo` likewise.
        server_tools: what the provider is to execute or to fetch for it.
        unsupported: what it asks for that cannot be metered, recorded or limited, each in a few words.
        hides_usage: the client has not asked for the usage of its stream; the gateway has.
    """

    dialect: "Dialect"
    path: str
    agent: str = ""
    client_session_id: str = ""
    subagent_id: str = ""
    role: Role = Role.MAIN
    model: str
    stream: bool
    array: bool = False
    messages: list[Raw]
    body: bytes
    altered: bool = False
    tools: tuple[str, ...] = ()
    cache_writes: Literal["", "5m", "1h"] = ""
    speed: str | None = None
    geo: str | None = None
    server_tools: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    hides_usage: bool = False

    @property
    def size(self) -> int:
        """The length of the request."""
        return len(self.body)

    def fields(self) -> dict[str, Raw]:
        """The members of the body, each as it was sent; none where their names cannot be read."""
        try:
            return msgspec.json.decode(self.body, type=dict[str, Raw])
        except DECODE_ERRORS:
            return {}

    def message(self, index: int) -> dict[str, Any]:
        """One message, decoded; empty when it is not there or not a message."""
        try:
            message = decode_or_text(self.messages[index])
        except IndexError:
            return {}
        return message if isinstance(message, dict) else {}

    def system_text(self) -> str:
        """The system prompt as one text."""
        return self.dialect.system_text(self)

    def last_text(self) -> str:
        """The text and the tool results since the model's last message."""
        return self.dialect.last_text(self)

    def first_text(self) -> str:
        """The text of the first message."""
        return self.dialect.first_text(self)


def decode_request(body: bytes, decoder: msgspec.json.Decoder[Body]) -> tuple[Body, bytes] | None:
    """A request, and its body as valid JSON; None when it is no such request."""
    try:
        return decoder.decode(body), body
    except DECODE_ERRORS:
        body = _LONE_SURROGATE.sub(lambda _: b"\\ufffd", body)
    try:
        return decoder.decode(body), body
    except DECODE_ERRORS:
        return None


def text_or_none(value: Any) -> str | None:
    """A value that should be a text, if it is one."""
    return value if isinstance(value, str) else None


class ConversationNames:
    """Names the conversations of a session in the order in which they appear.

    ``main`` is the first program's main thread and ``main-2`` the next one's; sub-agents are ``subagent-1``, …;
    side calls, which have no thread of their own, are ``side``. The agents of a pod have their name in front. Beyond
    `MAX_CONVERSATIONS`, all share one name.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def name(self, call: ModelCall) -> str:
        """The conversation of this request; a compaction belongs to the one that it summarises."""
        prefix = f"{call.agent}/" if call.agent else ""
        if call.role is Role.SIDE:
            return f"{prefix}side"
        key = (call.agent, call.client_session_id, call.subagent_id)
        if key not in self._names:
            kind = "subagent" if call.subagent_id else "main"
            if len(self._names) >= MAX_CONVERSATIONS:
                return f"{kind}-more"
            number = self._counts[call.agent, kind] = self._counts.get((call.agent, kind), 0) + 1
            plain = kind == "main" and number == 1
            self._names[key] = f"{prefix}{kind}" if plain else f"{prefix}{kind}-{number}"
        return self._names[key]
