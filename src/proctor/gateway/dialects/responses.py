"""OpenAI's Responses API over HTTP, as Codex uses it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from proctor.gateway.dialects import openai
from proctor.gateway.dialects.base import (
    Dialect,
    Route,
    ScriptedMessage,
    ScriptedTool,
    TextPath,
    call_block,
    dicts_in,
    result_block,
    text_block,
    unique,
    with_members,
    without_keys,
)
from proctor.gateway.dialects.clients import client_info
from proctor.gateway.dialects.responses_events import (
    TEXT_DELTAS,
    USAGE,
    ResponsesEventReader,
    events_from_message,
    is_complete,
    is_response,
    message_from_events,
    read_response,
)
from proctor.gateway.model_call import ModelCall, Role, decode_request
from proctor.gateway.remote_content import FROM_URL, PlainPart, fetches_content
from proctor.gateway.safe_json import decode_or_text
from proctor.gateway.server_tools import responses_server_tool
from proctor.gateway.sse import SseEvent, encode_named_event

_PATHS: Final = ("/responses", "/responses/compact")
# Items of a conversation that the model wrote.
_MODEL_ITEMS: Final = frozenset(
    {"function_call", "custom_tool_call", "reasoning", "local_shell_call", "shell_call", "apply_patch_call"}
)
# Members of items that are made up anew each time.
_VOLATILE: Final = frozenset({"id", "call_id", "status", "encrypted_content", "annotations", "logprobs", "phase"})
# A conversation that the provider holds can neither be recorded nor be replayed, and what runs there not be ended.
_AT_PROVIDER: Final = ("background", "previous_response_id", "conversation", "prompt")

Item = TypeVar("Item")


class _ResponsesTool(msgspec.Struct):
    type: Any = None
    name: Any = None
    environment: Any = None
    tools: "list[_ResponsesTool] | None" = None


class _ResponsesItem(msgspec.Struct, gc=False):
    """An item of the conversation, as far as it is looked at in every request."""

    type: Any = None
    tools: list[_ResponsesTool] | None = None


class _PlainItem(_ResponsesItem, gc=False):
    content: str | list[PlainPart] | None = None
    output: str | list[PlainPart] | PlainPart | None = None


class _ResponsesRequest(msgspec.Struct, Generic[Item]):
    """A request. The items of its conversation are read as plain ones, or as any."""

    model: str
    input: str | list[Item] = msgspec.field(default_factory=list)
    stream: bool | None = None
    tools: list[_ResponsesTool] | None = None
    background: Any = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    store: Any = None
    service_tier: Any = None


_PLAIN: Final[msgspec.json.Decoder[_ResponsesRequest[Any]]] = msgspec.json.Decoder(_ResponsesRequest[_PlainItem])
_REQUEST: Final[msgspec.json.Decoder[_ResponsesRequest[Any]]] = msgspec.json.Decoder(_ResponsesRequest[_ResponsesItem])


class ResponsesDialect(Dialect):
    """The Responses API."""

    name = "responses"
    provider = openai.PROVIDER
    conversation = "input"
    system = "instructions"
    unrecorded = frozenset({"metadata", "client_metadata", "user", "prompt_cache_key", "safety_identifier"})
    priced_tools = frozenset({FROM_URL, "web_search", "web_search_preview"})
    text_members = ("delta", "text", "arguments", "input", "refusal", "encrypted_content")
    counter = "sequence_number"
    unrecorded_event_fields = frozenset({"obfuscation"})
    malformed_event = '{"type":"response.output_text.del'
    event_reader = ResponsesEventReader
    read_body = staticmethod(read_response)
    is_message = staticmethod(is_response)
    is_complete = staticmethod(is_complete)
    message_from_events = staticmethod(message_from_events)
    events_from_message = staticmethod(events_from_message)
    encode_event = staticmethod(encode_named_event)
    error_body = staticmethod(openai.error_body)

    def route(self, method: str, path: str, query: str) -> Route | None:
        """``…/responses`` and ``…/responses/compact``."""
        name = next((one for one in _PATHS if path.endswith(one)), None) if method == "POST" else None
        return None if name is None else Route(self, f"{name}?{query}" if query else name)

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request; Codex says what each of its requests is for."""
        decoded = decode_request(body, _PLAIN, _REQUEST)
        if decoded is None:
            return None
        read = decoded.read
        items = read.input if isinstance(read.input, list) else []
        # The newest models get their tools as an item of the conversation.
        added = [item.tools for item in items if item.type == "additional_tools"]
        offered = [tool for given in (read.tools, *added) for tool in _flat_tools(given)]
        tools = tuple(tool.name for tool in offered if isinstance(tool.name, str))
        client = client_info(headers, tools)
        is_compact = route.path.partition("?")[0].endswith("/compact")
        unsupported = [name for name in _AT_PROVIDER if getattr(read, name)]
        unsupported += ["item_reference"] if any(item.type == "item_reference" for item in items) else []
        dropped = ("store",) if read.store else ()
        call = ModelCall(
            dialect=self,
            path=route.path,
            agent=agent,
            client_session_id=client.session_id,
            subagent_id=client.subagent_id,
            role=Role.COMPACTION if is_compact else client.role,
            model=read.model,
            stream=bool(read.stream),
            body=with_members(decoded.body, store=False) if dropped else decoded.body,
            altered=bool(dropped),
            tools=tools,
            speed=openai.tier(read.service_tier),
            unsupported=tuple(unsupported),
            dropped=dropped,
        )
        server_tools = [responses_server_tool(tool.type, tool.environment) for tool in offered]
        if not decoded.is_plain and fetches_content(call.messages):
            server_tools.append(FROM_URL)
        if not any(server_tools):
            return call
        return msgspec.structs.replace(call, server_tools=unique(filter(None, server_tools)))

    def conversation_items(self, conversation: Raw) -> list[Raw]:
        """The items of an input, which may be a text."""
        items = super().conversation_items(conversation)
        text = decode_or_text(conversation) if items == [conversation] else None
        if not isinstance(text, str):
            return items
        return [Raw(msgspec.json.encode({"type": "message", "role": "user", "content": text}))]

    def system_text(self, call: ModelCall) -> str:
        """The instructions, and the system's and the developer's messages."""
        given = call.fields.get("instructions")
        texts = [] if given is None else [decode_or_text(given)]
        items = [decode_or_text(raw) for raw in call.messages]
        texts += [self.item_text(item) for item in items if self.is_instruction(item)]
        return "\n".join(text for text in texts if isinstance(text, str) and text)

    def item_text(self, item: Any) -> str:
        """The text of a message, or the output of a tool."""
        if not isinstance(item, dict):
            return ""
        output = item.get("output")
        if isinstance(output, dict):
            output = output.get("content") or output.get("output")
        return openai.content_text(item.get("content")) or openai.content_text(output)

    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        """A message's text, a thought's summary, a call, or what a tool has returned."""
        if not isinstance(item, dict):
            return []
        kind = str(item.get("type"))
        if kind == "reasoning":
            thought = openai.content_text(item.get("summary")) or openai.content_text(item.get("content"))
            return [{"type": "thinking", "thinking": thought}] if thought else []
        if kind.endswith("_call_output"):
            return [result_block(item.get("call_id"), self.item_text(item))]
        if kind.endswith("_call"):
            arguments = item.get("arguments") or item.get("input") or item.get("action") or {}
            return [call_block(item.get("call_id") or item.get("id"), item.get("name") or kind, arguments)]
        return text_block(self.item_text(item))

    def message_items(self, message: Any) -> list[Any]:
        """The items of its output."""
        return dicts_in(message.get("output"))

    def is_from_model(self, item: Any) -> bool:
        """Whether it is the assistant's message, a call or a thought."""
        return isinstance(item, dict) and (item.get("role") == "assistant" or str(item.get("type")) in _MODEL_ITEMS)

    def is_instruction(self, item: Any) -> bool:
        """Whether it is the system's or the developer's, or brings tools."""
        return isinstance(item, dict) and (
            str(item.get("role")) in openai.INSTRUCTION_ROLES or item.get("type") == "additional_tools"
        )

    def comparable_item(self, item: Any) -> Any:
        """An item without ids; of the system prompt and of thoughts, only that they are there."""
        if self.is_instruction(item):
            return {"role": "system"}
        if isinstance(item, dict) and item.get("type") == "reasoning":
            return {"type": "reasoning"}
        return without_keys(item, _VOLATILE)

    def text_path(self, event: SseEvent) -> TextPath | None:
        """Where a delta has its text."""
        plain = str(event.get("type")) in TEXT_DELTAS and isinstance(event.get("delta"), str)
        return ("delta",) if plain and isinstance(event.get("sequence_number"), int) else None

    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        """A scripted response."""
        output = list(_output_items(scripted)) if scripted.content is None else scripted.content
        reason = scripted.stop_reason
        return {
            "id": f"resp_script_{scripted.number:06}",
            "object": "response",
            "created_at": 0,
            "status": "completed" if reason is None else "incomplete",
            "error": None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "model": scripted.model,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": openai.scripted_usage(scripted.tokens, USAGE),
        }

    def error_event(self, kind: str, message: str) -> SseEvent:
        """A response that failed."""
        failed: dict[str, Any] = {"object": "response", "status": "failed", "output": [], "usage": None}
        return {
            "type": "response.failed",
            "sequence_number": 0,
            "response": {"id": "resp_script_failed", **failed, "error": {"code": kind, "message": message}},
        }

    def too_long_message(self, tokens: int, maximum: int) -> str:
        """As OpenAI says it."""
        return (
            f"Your input exceeds the context window of this model ({tokens} tokens, {maximum} at most). "
            "Please adjust your input and try again."
        )

    def refusal_status(self, status: int) -> int:
        """Codex gives up at once on this status alone, whatever its configuration."""
        return 400

    def final_error_status(self, status: int, headers: Mapping[str, str]) -> int:
        """Likewise: it tries again after 401, 403 and 404 as well."""
        return 400


def _flat_tools(tools: list[_ResponsesTool] | None) -> Iterator[_ResponsesTool]:
    """The tools, and those of namespaces."""
    for tool in tools or ():
        if tool.type == "namespace" and tool.tools is not None:
            yield from _flat_tools(tool.tools)
        else:
            yield tool


def _output_items(scripted: ScriptedMessage) -> Iterator[dict[str, Any]]:
    number = f"script_{scripted.number:06}"
    if scripted.thinking is not None:
        summary = [{"type": "summary_text", "text": scripted.thinking}]
        yield {"type": "reasoning", "id": f"rs_{number}", "summary": summary}
    if scripted.text is not None:
        content = [{"type": "output_text", "text": scripted.text, "annotations": []}]
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed"}
        yield {**message, "content": content}
    for tool in scripted.tools:
        yield _call_item(tool)


def _call_item(tool: ScriptedTool) -> dict[str, Any]:
    number = f"script_{tool.number:06}"
    if isinstance(tool.arguments, str):
        call = {"type": "custom_tool_call", "id": f"ctc_{number}", "input": tool.arguments}
    else:
        text = msgspec.json.encode(tool.arguments).decode()
        call = {"type": "function_call", "id": f"fc_{number}", "arguments": text}
    return {**call, "call_id": f"call_{number}", "name": tool.name, "status": "completed"}
