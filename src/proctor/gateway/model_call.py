"""Model requests as far as the gateway needs them: which agent sent a request, in which dialect, and for what."""

import re
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

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

Read = TypeVar("Read")


class Role(StrEnum):
    """What a request is for."""

    MAIN = "main"
    SUBAGENT = "subagent"
    SIDE = "side"
    COMPACTION = "compaction"


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One model request. What only a recording or a script needs is decoded when it is asked for.

    Attributes:
        dialect: the dialect that it is written in.
        path: what is added to the provider's address, with the query.
        agent: which agent of a pod sent it, where the base URL says so.
        client_session_id: the client program's own session id; a pod's agents have one each.
        subagent_id: empty for a main thread.
        array: a stream is wanted as one JSON array, not as events.
        body: the whole request, as valid JSON.
        altered: `body` is sent instead of what the agent sent.
        tools: the names of the tools that the model may call.
        speed: what the request asks for, beside the model, that its price depends on; `geo` likewise.
        server_tools: what the provider is to execute or to fetch for it.
        unsupported: what it asks for that cannot be metered, recorded or limited, each in a few words.
        dropped: what it asks for that is not sent to the provider.
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
    body: bytes
    altered: bool = False
    tools: tuple[str, ...] = ()
    speed: str | None = None
    geo: str | None = None
    server_tools: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    hides_usage: bool = False

    @property
    def size(self) -> int:
        """The length of the request."""
        return len(self.body)

    @cached_property
    def fields(self) -> dict[str, Raw]:
        """The members of the body, each as it was sent; none where their names cannot be read."""
        try:
            return msgspec.json.decode(self.body, type=dict[str, Raw])
        except DECODE_ERRORS:
            return {}

    @cached_property
    def messages(self) -> list[Raw]:
        """The conversation, each message as it was sent."""
        given = self.fields.get(self.dialect.conversation)
        # Where the name of some member cannot be read, the conversation still can.
        return self.dialect.conversation_items(
            _member(self.body, self.dialect.conversation) if given is None else given
        )

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


@lru_cache(maxsize=16)
def _member_decoder(name: str) -> msgspec.json.Decoder[msgspec.Struct]:
    return msgspec.json.Decoder(msgspec.defstruct("OneMember", [(name, Raw, Raw(b"[]"))]))


def _member(body: bytes, name: str) -> Raw:
    """One member of a request; an empty list where it is not there."""
    try:
        found: Raw = getattr(_member_decoder(name).decode(body), name)
    except DECODE_ERRORS:
        return Raw(b"[]")
    return found


class DecodedRequest(NamedTuple, Generic[Read]):
    """A request, its body as valid JSON, and whether it is a plain one: nothing in it must be looked at again."""

    read: Read
    body: bytes
    is_plain: bool


def decode_request(
    body: bytes, plain: msgspec.json.Decoder[Read], other: msgspec.json.Decoder[Read]
) -> DecodedRequest[Read] | None:
    """Decode a request; None when it is none.

    Args:
        body: as it was sent.
        plain: fails for whatever must be looked at more closely, so that most requests are read once.
        other: decodes every request.
    """
    try:
        return DecodedRequest(plain.decode(body), body, is_plain=True)
    except DECODE_ERRORS:
        pass
    for text in (body, _LONE_SURROGATE.sub(lambda _: b"\\ufffd", body)):
        try:
            return DecodedRequest(other.decode(text), text, is_plain=False)
        except DECODE_ERRORS:
            continue
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
