"""Anthropic's Messages API, and Claude Code's requests to it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from proctor.gateway.dialects.base import (
    OVERLOADED,
    CacheWrites,
    Dialect,
    Route,
    ScriptedMessage,
    TextPath,
    unique,
)
from proctor.gateway.dialects.clients import CLAUDE_CODE_SESSION, client_info
from proctor.gateway.dialects.messages_events import (
    MessagesEventReader,
    events_from_message,
    message_from_events,
    read_message,
)
from proctor.gateway.model_call import ModelCall, Role, decode_request, text_or_none
from proctor.gateway.remote_content import FROM_URL, PlainBlock, messages_fetch_content
from proctor.gateway.safe_json import decode_or_text
from proctor.gateway.server_tools import messages_server_tools
from proctor.gateway.sse import SseEvent, encode_named_event

_PATH: Final = "/messages"
_CLAUDE_CODE: Final = re.compile(r"claude-(?:cli|code)/", re.IGNORECASE)
_CACHE_MARK: Final = b'"cache_control"'
# How long such a mark is, at most.
_CACHE_MARK_BYTES: Final = 96
# How Claude Code asks for a summary of its own conversation; only the text distinguishes it from a turn.
_SUMMARY_START: Final = "CRITICAL: Respond with TEXT ONLY"
_SUMMARY_TASK: Final = "Your task is to create a detailed summary of the conversation"
_WORKING_TOOLS: Final = frozenset({"Bash", "Edit"})
# For each kind of delta that is a piece of text, the member that has it.
_TEXT_MEMBERS: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_DELTA_MEMBERS: Final = frozenset({"type", "index", "delta"})
_REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_ERROR_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    OVERLOADED: "overloaded_error",
}

Message = TypeVar("Message")


class _MessagesTool(msgspec.Struct):
    name: str = ""
    type: Any = None


class _MessagesRequest(msgspec.Struct, Generic[Message]):
    """The members that every request is checked for. Its messages are read as plain ones, or as they are."""

    model: str
    messages: list[Message]
    stream: bool | None = None
    tools: list[_MessagesTool] | None = None
    mcp_servers: Raw = Raw()
    speed: Any = None
    inference_geo: Any = None


_PLAIN: Final[msgspec.json.Decoder[_MessagesRequest[Any]]] = msgspec.json.Decoder(_MessagesRequest[PlainBlock])
_REQUEST: Final[msgspec.json.Decoder[_MessagesRequest[Any]]] = msgspec.json.Decoder(_MessagesRequest[Raw])


class MessagesDialect(Dialect):
    """The Messages API."""

    name = "messages"
    provider = "anthropic"
    unrecorded = frozenset({"metadata"})
    text_members = ("text", "thinking", "partial_json", "signature", "data")
    priced_tools = None
    malformed_event = '{"type":"content_block_delta","index":0,"delt'
    event_reader = MessagesEventReader
    read_body = staticmethod(read_message)
    message_from_events = staticmethod(message_from_events)
    events_from_message = staticmethod(events_from_message)
    encode_event = staticmethod(encode_named_event)

    def route(self, method: str, path: str, query: str) -> Route | None:
        """``…/messages``."""
        if method != "POST" or not path.endswith(_PATH):
            return None
        return Route(self, f"/v1{_PATH}?{query}" if query else f"/v1{_PATH}")

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request; Claude Code's are classified by its headers, tools and texts."""
        decoded = decode_request(body, _PLAIN, _REQUEST)
        if decoded is None:
            return None
        read = decoded.read
        tools = read.tools or []
        client = client_info(headers, (tool.name for tool in tools if tool.name))
        server_tools = messages_server_tools((tool.type for tool in tools), read.mcp_servers)
        if not decoded.is_plain and messages_fetch_content(read.messages):
            server_tools.append(FROM_URL)
        call = ModelCall(
            dialect=self,
            path=route.path,
            agent=agent,
            client_session_id=client.session_id,
            subagent_id=client.subagent_id,
            role=client.role,
            model=read.model,
            stream=bool(read.stream),
            body=decoded.body,
            tools=tuple(tool.name for tool in tools if tool.name),
            speed=text_or_none(read.speed),
            geo=text_or_none(read.inference_geo),
            server_tools=unique(server_tools),
        )
        if _is_claude_code(headers) and _is_compaction(call):
            return msgspec.structs.replace(call, role=Role.COMPACTION)
        # Only Claude Code's side calls are recognised by their tools; other programs have tools of other names.
        is_main_of_claude_code = headers.get(CLAUDE_CODE_SESSION) and not client.subagent_id
        if is_main_of_claude_code and _WORKING_TOOLS.isdisjoint(call.tools):
            return msgspec.structs.replace(call, role=Role.SIDE)
        return call

    def cache_writes(self, call: ModelCall) -> CacheWrites:
        """By the marks in a request; text that looks like one makes an estimate higher, at worst."""
        at = call.body.find(_CACHE_MARK)
        found: CacheWrites = "" if at < 0 else "5m"
        while at >= 0:
            if b'"1h"' in call.body[at : at + _CACHE_MARK_BYTES]:
                return "1h"
            at = call.body.find(_CACHE_MARK, at + 1)
        return found

    def system_text(self, call: ModelCall) -> str:
        """The system prompt as one text."""
        system = call.fields.get("system")
        return "" if system is None else content_text(decode_or_text(system))

    def item_text(self, item: Any) -> str:
        """The text in a message, tool results included."""
        return content_text(item.get("content")) if isinstance(item, dict) else ""

    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        """Its content."""
        content = item.get("content") if isinstance(item, dict) else None
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []

    def message_items(self, message: Any) -> list[Any]:
        """The message itself."""
        return [message]

    def is_from_model(self, item: Any) -> bool:
        """Whether it is the assistant's."""
        return isinstance(item, dict) and item.get("role") == "assistant"

    def last_text(self, call: ModelCall) -> str:
        """The text and the tool results of the last message."""
        return self.item_text(call.message(-1))

    def recorded_item(self, item: Any) -> Any:
        """A message without cache marks, which move from one request to the next."""
        if isinstance(item, dict) and isinstance(item.get("content"), list):
            return {**item, "content": strip_blocks(item["content"])}
        return item

    def comparable_item(self, item: Any) -> Any:
        """A message without signatures and without Claude Code's own reminders to the model."""
        return _comparable(self.recorded_item(item))

    def text_path(self, event: SseEvent) -> TextPath | None:
        """Where a delta has its text."""
        delta = event.get("delta")
        if event.get("type") != "content_block_delta" or event.keys() != _DELTA_MEMBERS or not isinstance(delta, dict):
            return None
        name = _TEXT_MEMBERS.get(delta.get("type") or "")
        if name is None or len(delta) != 2 or not isinstance(delta.get(name), str):  # noqa: PLR2004 - type and text
            return None
        return "delta", name

    def is_message(self, body: Any) -> bool:
        """Whether it is a message, not an error."""
        return isinstance(body, dict) and body.get("type") == "message"

    def is_complete(self, events: Sequence[Any]) -> bool:
        """Whether the stream ends with a message_stop."""
        kinds = [event.get("type") if isinstance(event, dict) else None for event in events]
        return bool(kinds) and kinds[-1] == "message_stop" and None not in kinds and "error" not in kinds

    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        """A scripted response as a message."""
        content = list(_blocks(scripted)) if scripted.content is None else scripted.content
        calls_tools = any(block.get("type") == "tool_use" for block in content)
        tokens = scripted.tokens
        return {
            "id": f"msg_script_{scripted.number:06}",
            "type": "message",
            "role": "assistant",
            "model": scripted.model,
            "content": content,
            "stop_reason": scripted.stop_reason or ("tool_use" if calls_tools else "end_turn"),
            "stop_sequence": None,
            "usage": {
                "input_tokens": tokens.input,
                "cache_creation_input_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
                "cache_read_input_tokens": tokens.cache_read,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": tokens.cache_write_5m,
                    "ephemeral_1h_input_tokens": tokens.cache_write_1h,
                },
                "output_tokens": tokens.output,
                "service_tier": "standard",
            },
        }

    def error_body(self, status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
        """An error, without its status."""
        return {"type": "error", "error": {"type": kind or _ERROR_KINDS.get(status, "api_error"), "message": message}}

    def refusal_status(self, status: int) -> int:
        """Claude Code's own."""
        return status

    def final_error_status(self, status: int, headers: Mapping[str, str]) -> int:
        """Claude Code minds `x-should-retry` and reports the provider's status; other programs do not."""
        return status if _is_claude_code(headers) else super().final_error_status(status, headers)


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


def strip_blocks(blocks: Any) -> Any:
    """Content blocks, or tools, without cache marks."""
    if not isinstance(blocks, list):
        return blocks
    return [_strip_block(block) for block in blocks]


def _strip_block(block: Any) -> Any:
    if not isinstance(block, dict):
        return block
    clean = {name: value for name, value in block.items() if name != "cache_control"}
    if clean.get("type") == "tool_result":
        clean["content"] = strip_blocks(clean.get("content"))
    return clean


def _comparable(value: Any) -> Any:
    if isinstance(value, str):
        return _REMINDER.sub("", value)
    if isinstance(value, list):
        return [_comparable(item) for item in value]
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items() if key != "signature"}
    return value


def _blocks(scripted: ScriptedMessage) -> Iterator[dict[str, Any]]:
    if scripted.thinking is not None:
        yield {"type": "thinking", "thinking": scripted.thinking, "signature": "scripted"}
    if scripted.text is not None:
        yield {"type": "text", "text": scripted.text}
    for tool in scripted.tools:
        arguments = {"input": tool.arguments} if isinstance(tool.arguments, str) else tool.arguments
        yield {"type": "tool_use", "id": f"toolu_script_{tool.number:06}", "name": tool.name, "input": arguments}


def _is_claude_code(headers: Mapping[str, str]) -> bool:
    return CLAUDE_CODE_SESSION in headers or _CLAUDE_CODE.match(headers.get("user-agent", "")) is not None


def _is_compaction(call: ModelCall) -> bool:
    if _SUMMARY_START.encode() not in call.body:
        return False
    content = call.message(-1).get("content")
    last = content_text(content[-1:]) if isinstance(content, list) else content_text(content)
    return last.lstrip().startswith(_SUMMARY_START) and _SUMMARY_TASK in last
