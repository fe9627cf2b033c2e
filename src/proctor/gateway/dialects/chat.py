"""OpenAI's Chat Completions, which most other providers and local servers speak, too."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Raw

from proctor.gateway.dialects import openai
from proctor.gateway.dialects.base import (
    ClientFilter,
    Dialect,
    Route,
    ScriptedMessage,
    call_block,
    dicts_in,
    result_block,
    text_block,
    unique,
    without_keys,
)
from proctor.gateway.dialects.chat_events import (
    DONE,
    USAGE,
    ChatEventReader,
    UsageFilter,
    events_from_message,
    is_unbroken,
    message_from_events,
    read_completion,
    text_path,
)
from proctor.gateway.dialects.clients import client_info
from proctor.gateway.model_call import ModelCall, decode_request
from proctor.gateway.remote_content import FROM_URL, PlainMessage, fetches_content
from proctor.gateway.safe_json import decode_or_text
from proctor.gateway.server_tools import chat_server_tools
from proctor.gateway.sse import SseEvent, encode_data

_PATH: Final = "/chat/completions"
# The end of a request that has another member before it, and no such one.
_ASKS_USAGE: Final = b',"stream_options":{"include_usage":true}}'
# Members by which providers search the web, read an account's data, or use what is stored under a name: OpenAI,
# OpenRouter, xAI, Alibaba, Baidu, Azure.
_SERVER_TOOLS: Final = (
    "web_search_options",
    "plugins",
    "search_parameters",
    "enable_search",
    "web_search",
    "data_sources",
    "preset",
)
# Members of a message that are made up anew each time.
_VOLATILE: Final = frozenset(
    {"id", "tool_call_id", "cache_control", "reasoning", "reasoning_content", "reasoning_details"}
)

Message = TypeVar("Message")


class _ChatNamed(msgspec.Struct):
    name: str = ""


class _ChatTool(msgspec.Struct):
    type: Any = None
    function: _ChatNamed | None = None
    custom: _ChatNamed | None = None


class _ChatStreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _ChatRequest(msgspec.Struct, Generic[Message]):
    """A request. Its messages are read as plain ones, or as they are."""

    model: str
    messages: list[Message]
    stream: bool | None = None
    stream_options: _ChatStreamOptions | msgspec.UnsetType | None = msgspec.UNSET
    tools: list[_ChatTool] | None = None
    functions: list[_ChatNamed] | None = None
    n: int | None = None
    models: Any = None
    modalities: Any = None
    store: Any = None
    service_tier: Any = None
    web_search_options: Raw = Raw()
    plugins: Raw = Raw()
    search_parameters: Raw = Raw()
    enable_search: Raw = Raw()
    web_search: Raw = Raw()
    data_sources: Raw = Raw()
    preset: Raw = Raw()


_PLAIN: Final[msgspec.json.Decoder[_ChatRequest[Any]]] = msgspec.json.Decoder(_ChatRequest[PlainMessage])
_REQUEST: Final[msgspec.json.Decoder[_ChatRequest[Any]]] = msgspec.json.Decoder(_ChatRequest[Raw])


class ChatDialect(Dialect):
    """Chat Completions."""

    name = "chat"
    provider = openai.PROVIDER
    unrecorded = frozenset({"metadata", "user", "prompt_cache_key", "safety_identifier"})
    text_members = ("content", "reasoning_content", "reasoning", "refusal", "arguments", "input", "text", "data")
    unrecorded_event_fields = frozenset({"obfuscation"})
    malformed_event = '{"object":"chat.completion.chunk","choi'
    event_reader = ChatEventReader
    read_body = staticmethod(read_completion)
    text_path = staticmethod(text_path)
    message_from_events = staticmethod(message_from_events)
    events_from_message = staticmethod(events_from_message)
    error_body = staticmethod(openai.error_body)

    def route(self, method: str, path: str, query: str) -> Route | None:
        """``…/chat/completions``."""
        if method != "POST" or not path.endswith(_PATH):
            return None
        return Route(self, f"{_PATH}?{query}" if query else _PATH)

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request; the usage of a stream is asked for where the client does not."""
        decoded = decode_request(body, _PLAIN, _REQUEST)
        if decoded is None:
            return None
        read = decoded.read
        tools = tuple(name for name in _tool_names(read) if name)
        client = client_info(headers, tools)
        hides_usage = bool(read.stream) and not (read.stream_options and read.stream_options.include_usage)
        dropped = ("store",) if read.store else ()
        server_tools = chat_server_tools(
            read.model,
            (tool.type for tool in read.tools or ()),
            {name: getattr(read, name) for name in _SERVER_TOOLS},
        )
        if not decoded.is_plain and fetches_content(read.messages):
            server_tools.append(FROM_URL)
        return ModelCall(
            dialect=self,
            path=route.path,
            agent=agent,
            client_session_id=client.session_id,
            subagent_id=client.subagent_id,
            role=client.role,
            model=read.model,
            stream=bool(read.stream),
            body=_sent_body(decoded.body, read, hides_usage=hides_usage, dropped=dropped),
            altered=hides_usage or bool(dropped),
            tools=tools,
            speed=openai.tier(read.service_tier),
            server_tools=unique(server_tools),
            unsupported=tuple(_unsupported(read)),
            dropped=dropped,
            hides_usage=hides_usage,
        )

    def client_filter(self, call: ModelCall) -> ClientFilter | None:
        """Without the usage, for a client that has not asked for it."""
        return UsageFilter() if call.hides_usage else None

    def without_usage_options(self, body: bytes) -> bytes:
        """Without all options of the stream."""
        fields = msgspec.json.decode(body, type=dict[str, Raw])
        return msgspec.json.encode({name: value for name, value in fields.items() if name != "stream_options"})

    def system_text(self, call: ModelCall) -> str:
        """The system's and the developer's messages."""
        items = [decode_or_text(raw) for raw in call.messages]
        return "\n".join(self.item_text(item) for item in items if self.is_instruction(item))

    def item_text(self, item: Any) -> str:
        """The text in a message."""
        return openai.content_text(item.get("content")) if isinstance(item, dict) else ""

    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        """Its text, its thoughts and its calls; or what a tool has returned."""
        if not isinstance(item, dict):
            return []
        if item.get("role") == "tool":
            return [result_block(item.get("tool_call_id"), self.item_text(item))]
        thought = item.get("reasoning_content") or item.get("reasoning")
        blocks = [{"type": "thinking", "thinking": thought}] if isinstance(thought, str) and thought else []
        blocks += text_block(self.item_text(item))
        for call in dicts_in(item.get("tool_calls")):
            called = call.get("function") or call.get("custom")
            called = called if isinstance(called, dict) else {}
            blocks.append(
                call_block(call.get("id"), called.get("name"), called.get("arguments") or called.get("input"))
            )
        return blocks

    def message_items(self, message: Any) -> list[Any]:
        """The message of the only choice."""
        return [choice.get("message") for choice in dicts_in(message.get("choices"))][:1]

    def is_from_model(self, item: Any) -> bool:
        """Whether it is the assistant's."""
        return isinstance(item, dict) and item.get("role") == "assistant"

    def is_instruction(self, item: Any) -> bool:
        """Whether it is the system's or the developer's."""
        return isinstance(item, dict) and str(item.get("role")) in openai.INSTRUCTION_ROLES

    def comparable_item(self, item: Any) -> Any:
        """A message without ids and thoughts; of the system prompt, only that it is there."""
        return {"role": "system"} if self.is_instruction(item) else without_keys(item, _VOLATILE)

    def is_message(self, body: Any) -> bool:
        """Whether it has choices."""
        return is_unbroken(body) and isinstance(body.get("choices"), list)

    def is_complete(self, events: Sequence[Any]) -> bool:
        """Whether the model says why it stopped, and nothing is broken."""
        if not all(event == DONE or is_unbroken(event) for event in events):
            return False
        choices = [choice for event in events if event != DONE for choice in dicts_in(event.get("choices"))]
        return any(choice.get("finish_reason") for choice in choices)

    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        """A scripted response as a chat completion."""
        answer: dict[str, Any] = {"role": "assistant", "content": scripted.text}
        if scripted.content is not None:
            for part in scripted.content:
                answer |= part
        if scripted.thinking is not None:
            answer["reasoning_content"] = scripted.thinking
        if scripted.tools:
            answer["tool_calls"] = [_scripted_call(tool.number, tool.name, tool.arguments) for tool in scripted.tools]
        finish = scripted.stop_reason or ("tool_calls" if answer.get("tool_calls") else "stop")
        return {
            "id": f"chatcmpl-script-{scripted.number:06}",
            "object": "chat.completion",
            "created": 0,
            "model": scripted.model,
            "choices": [{"index": 0, "message": answer, "finish_reason": finish}],
            "usage": openai.scripted_usage(scripted.tokens, USAGE),
        }

    def encode_event(self, event: SseEvent | str) -> bytes:
        """An event without a name."""
        return encode_data(event.encode() if isinstance(event, str) else msgspec.json.encode(event))

    def too_long_message(self, tokens: int, maximum: int) -> str:
        """As OpenAI says it."""
        return (
            f"This model's maximum context length is {maximum} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages."
        )


def _tool_names(read: _ChatRequest[Any]) -> Iterator[str]:
    for tool in read.tools or ():
        named = tool.function or tool.custom
        yield named.name if named is not None else ""
    for function in read.functions or ():
        yield function.name


def _unsupported(read: _ChatRequest[Any]) -> Iterator[str]:
    if (read.n or 1) > 1:
        yield "n > 1"
    if read.models:
        yield "models"  # other models that a router may choose
    if read.modalities not in (None, [], ["text"]):
        yield "modalities"  # sounds and images have prices of their own


def _sent_body(body: bytes, read: _ChatRequest[Any], *, hides_usage: bool, dropped: tuple[str, ...]) -> bytes:
    """What is sent to the provider: with the usage asked for, and without what is not to be sent."""
    if not hides_usage and not dropped:
        return body
    if read.stream_options is msgspec.UNSET and not dropped:
        return body[: body.rindex(b"}")] + _ASKS_USAGE
    fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Raw])
    for name in dropped:
        fields.pop(name, None)
    if hides_usage:
        given = decode_or_text(fields["stream_options"]) if "stream_options" in fields else None
        fields["stream_options"] = {**(given if isinstance(given, dict) else {}), "include_usage": True}
    return msgspec.json.encode(fields)


def _scripted_call(number: int, name: str, arguments: dict[str, Any] | str) -> dict[str, Any]:
    call = {"id": f"call_script_{number:06}"}
    if isinstance(arguments, str):
        return {**call, "type": "custom", "custom": {"name": name, "input": arguments}}
    text = msgspec.json.encode(arguments).decode()
    return {**call, "type": "function", "function": {"name": name, "arguments": text}}
