"""Parses model requests as far as the gateway needs it: which agent sent a request, and for what."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text
from proctor.gateway.server_tools import messages_server_tools

# How Claude Code asks for a summary of its own conversation; only the text distinguishes it from a turn.
_SUMMARY_START: Final = "CRITICAL: Respond with TEXT ONLY"
_SUMMARY_TASK: Final = "Your task is to create a detailed summary of the conversation"
# Half of a character, as left by a program that cuts text anywhere. JSON allows it; our decoder does not.
_LONE_SURROGATE: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
# Ids that agents send are stored, so their length and number are limited.
_MAX_ID_LENGTH: Final = 128
MAX_CONVERSATIONS: Final = 10_000
_WORKING_TOOLS: Final = frozenset({"Bash", "Edit"})


class Role(StrEnum):
    """What a request is for."""

    MAIN = "main"
    SUBAGENT = "subagent"
    SIDE = "side"
    COMPACTION = "compaction"


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One model request.

    Attributes:
        agent: which agent of a pod sent it, where the base URL says so.
        client_session_id: the client program's own session id; a pod's agents have one each.
        subagent_id: empty for a main thread.
        messages: the conversation, each message as it was sent.
        body: the whole request, as valid JSON.
        cache_writes: for how long the prompt is to be cached, at most; empty where it is not.
        speed: what the request asks for, beside the model, that its price depends on; `geo` likewise.
        server_tools: what the provider is to execute or to fetch for it.
    """

    agent: str
    client_session_id: str
    subagent_id: str
    role: Role
    model: str
    stream: bool
    messages: list[Raw]
    body: bytes
    cache_writes: Literal["", "5m", "1h"] = ""
    speed: str | None = None
    geo: str | None = None
    server_tools: tuple[str, ...] = ()

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
        system = self.fields().get("system")
        return "" if system is None else content_text(decode_or_text(system))

    def last_text(self) -> str:
        """The text and the tool results of the last message."""
        return content_text(self.message(-1).get("content"))

    def first_text(self) -> str:
        """The text of the first message."""
        return content_text(self.message(0).get("content"))


class _Tool(msgspec.Struct):
    name: str = ""
    type: Any = None


class _MessagesRequestBody(msgspec.Struct):
    """The members that every request is checked for; decoding the rest would take as long again."""

    model: str
    messages: list[Raw]
    stream: bool | None = None
    tools: list[_Tool] | None = None
    mcp_servers: Raw = Raw()
    speed: Any = None
    inference_geo: Any = None


_BODY: Final = msgspec.json.Decoder(_MessagesRequestBody)


def parse_model_call(body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
    """Parse a request to the Messages API; None when its body is no such request."""
    try:
        read = _BODY.decode(body)
    except DECODE_ERRORS:
        body = _LONE_SURROGATE.sub(lambda _: b"\\ufffd", body)
        try:
            read = _BODY.decode(body)
        except DECODE_ERRORS:
            return None
    client = headers.get("x-claude-code-session-id", "")[:_MAX_ID_LENGTH]
    subagent = headers.get("x-claude-code-agent-id", "")[:_MAX_ID_LENGTH]
    call = ModelCall(
        agent=agent,
        client_session_id=client,
        subagent_id=subagent,
        role=Role.SUBAGENT if subagent else Role.MAIN,
        model=read.model,
        stream=bool(read.stream),
        messages=read.messages,
        body=body,
        cache_writes=_cache_writes(body),
        speed=_text_or_none(read.speed),
        geo=_text_or_none(read.inference_geo),
        server_tools=messages_server_tools((tool.type for tool in read.tools or ()), read.mcp_servers, read.messages),
    )
    if _is_compaction(call):
        return msgspec.structs.replace(call, role=Role.COMPACTION)
    # Only Claude Code's side calls are recognised by their tools; other programs may work without any.
    if client and not subagent and not any(tool.name in _WORKING_TOOLS for tool in read.tools or ()):
        return msgspec.structs.replace(call, role=Role.SIDE)
    return call


def _cache_writes(body: bytes) -> Literal["", "5m", "1h"]:
    """By the marks in a request; text of the conversation that looks like one makes an estimate higher, at worst."""
    if b'"cache_control"' not in body:
        return ""
    return "1h" if b'"1h"' in body else "5m"


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def content_text(content: Any) -> str:
    """The text in a message's content, tool results included, one part per line."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    blocks = [block for block in content if isinstance(block, dict)]
    parts = [
        block["text"] if isinstance(block.get("text"), str) else content_text(block.get("content")) for block in blocks
    ]
    return "\n".join(part for part in parts if part)


def _is_compaction(call: ModelCall) -> bool:
    if not call.messages or _SUMMARY_START.encode() not in bytes(call.messages[-1]):
        return False
    content = call.message(-1).get("content")
    last = content_text(content[-1:]) if isinstance(content, list) else content_text(content)
    return last.lstrip().startswith(_SUMMARY_START) and _SUMMARY_TASK in last


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
