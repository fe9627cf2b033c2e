"""Google's Gemini API: generateContent and streamGenerateContent. The path names the model."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar
from urllib.parse import parse_qsl, quote, unquote

import msgspec
from msgspec import Raw, field

from proctor.gateway.dialects.base import (
    Dialect,
    Route,
    ScriptedMessage,
    TextPath,
    as_list,
    call_block,
    dicts_in,
    result_block,
    text_block,
    unique,
    without_keys,
)
from proctor.gateway.dialects.clients import client_info
from proctor.gateway.dialects.gemini_events import (
    GeminiEventReader,
    content_parts,
    events_from_message,
    is_complete,
    message_from_events,
    read_response,
    tier,
)
from proctor.gateway.model_call import ModelCall, Role, decode_request
from proctor.gateway.remote_content import FROM_URL, PlainContent, fetches_content
from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text
from proctor.gateway.server_tools import gemini_server_tools
from proctor.gateway.sse import SseEvent

_TIER_HEADER: Final = "x-gemini-service-tier"
_MODELS: Final = "/models/"
_ACTIONS: Final = frozenset({"generateContent", "streamGenerateContent"})
_VERSION: Final = re.compile(r"/(v\d+[a-z0-9]*)(?=/|$)")
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    402: "RESOURCE_EXHAUSTED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
# Members of parts that are made up anew each time; what a tool gets and gives is its own.
_VOLATILE: Final = frozenset({"thoughtSignature", "thought_signature", "id"})
_OPAQUE: Final = frozenset({"args", "response"})

Content = TypeVar("Content")


class _GeminiGenerationConfig(msgspec.Struct):
    """Google's APIs take every name in both spellings."""

    camel_count: Any = field(name="candidateCount", default=None)
    snake_count: Any = field(name="candidate_count", default=None)
    camel_schema: Any = field(name="responseSchema", default=None)
    snake_schema: Any = field(name="response_schema", default=None)
    camel_json_schema: Any = field(name="responseJsonSchema", default=None)
    snake_json_schema: Any = field(name="response_json_schema", default=None)
    camel_modalities: Any = field(name="responseModalities", default=None)
    snake_modalities: Any = field(name="response_modalities", default=None)

    @property
    def wants_json(self) -> bool:
        schemas = (self.camel_schema, self.snake_schema, self.camel_json_schema, self.snake_json_schema)
        return any(schema is not None for schema in schemas)

    def unsupported(self) -> Iterator[str]:
        if any(count not in (None, 0, 1) for count in (self.camel_count, self.snake_count)):
            yield "candidateCount > 1"
        modalities = [*as_list(self.camel_modalities), *as_list(self.snake_modalities)]
        if any(str(one).upper() not in {"TEXT", "MODALITY_UNSPECIFIED"} for one in modalities):
            yield "responseModalities"


class _GeminiNamed(msgspec.Struct):
    name: Any = None


class _GeminiRequest(msgspec.Struct, Generic[Content]):
    """A request. Its contents are read as plain ones, or as they are."""

    contents: list[Content] | Content
    tools: list[dict[str, Raw]] | dict[str, Raw] | None = None
    camel_config: _GeminiGenerationConfig | None = field(name="generationConfig", default=None)
    snake_config: _GeminiGenerationConfig | None = field(name="generation_config", default=None)
    camel_tier: Any = field(name="serviceTier", default=None)
    snake_tier: Any = field(name="service_tier", default=None)
    camel_cache: Any = field(name="cachedContent", default=None)
    snake_cache: Any = field(name="cached_content", default=None)


class _AnyContent(msgspec.Struct):
    """A content whose parts may be anything."""


_PLAIN: Final[msgspec.json.Decoder[_GeminiRequest[Any]]] = msgspec.json.Decoder(_GeminiRequest[PlainContent])
_REQUEST: Final[msgspec.json.Decoder[_GeminiRequest[Any]]] = msgspec.json.Decoder(_GeminiRequest[_AnyContent])
_DECLARED: Final = msgspec.json.Decoder(list[_GeminiNamed])


class GeminiDialect(Dialect):
    """The Gemini API."""

    name = "gemini"
    provider = "gemini"
    conversation = "contents"
    system = "systemInstruction"
    priced_tools = frozenset({FROM_URL, "googleSearch", "google_search"})
    text_members = ("text", "thoughtSignature", "data")
    malformed_event = '{"candidates":[{"conte'
    event_reader = GeminiEventReader
    read_body = staticmethod(read_response)
    is_complete = staticmethod(is_complete)
    message_from_events = staticmethod(message_from_events)
    events_from_message = staticmethod(events_from_message)

    def route(self, method: str, path: str, query: str) -> Route | None:
        """``…/models/M:generateContent`` and ``…/models/M:streamGenerateContent``, with and without a version.

        Names of models that are not Google's may have slashes and colons.
        """
        before, _, rest = path.partition(_MODELS)
        model, _, action = rest.rpartition(":")
        if method != "POST" or action not in _ACTIONS or not model:
            return None
        version = _VERSION.search(before)
        streams = action == "streamGenerateContent"
        events = streams and ("alt", "sse") in parse_qsl(query)
        name = f"/{version[1] if version else 'v1beta'}{_MODELS}{rest}"
        return Route(
            self,
            f"{name}?{query}" if query else name,
            model=unquote(model),
            stream=events,
            array=streams and not events,
        )

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request; one for JSON without tools is a side call, such as that of a router."""
        decoded = decode_request(body, _PLAIN, _REQUEST)
        if decoded is None:
            return None
        read = decoded.read
        offered = read.tools if isinstance(read.tools, list) else [read.tools or {}]
        tools = tuple(name for tool in offered for name in _tool_names(tool))
        client = client_info(headers, tools)
        configs = [config for config in (read.camel_config, read.snake_config) if config is not None]
        unsupported = [what for config in configs for what in config.unsupported()]
        unsupported += ["cachedContent"] if read.camel_cache or read.snake_cache else []
        routes = not tools and any(config.wants_json for config in configs)
        call = ModelCall(
            dialect=self,
            path=route.path,
            agent=agent,
            client_session_id=client.session_id,
            subagent_id=client.subagent_id,
            role=Role.SIDE if routes else client.role,
            model=route.model,
            stream=bool(route.stream),
            array=route.array,
            body=decoded.body,
            tools=tools,
            speed=tier(read.camel_tier or read.snake_tier),
            unsupported=unique(unsupported),
        )
        server_tools = gemini_server_tools(name for tool in offered for name in tool)
        if not decoded.is_plain and fetches_content(call.messages):
            server_tools.append(FROM_URL)
        return msgspec.structs.replace(call, server_tools=unique(server_tools)) if server_tools else call

    def with_model(self, call: ModelCall, model: str) -> ModelCall:
        """The same request to another model, which the path names."""
        path, mark, query = call.path.partition("?")
        before, action = path.partition(_MODELS)[0], path.rpartition(":")[2]
        path = f"{before}{_MODELS}{quote(model.removeprefix('models/'), safe='/:')}:{action}{mark}{query}"
        return msgspec.structs.replace(call, model=model, path=path)

    def system_text(self, call: ModelCall) -> str:
        """The system instruction as one text."""
        fields = call.fields
        given = fields.get("systemInstruction") or fields.get("system_instruction")
        return "" if given is None else self.item_text(decode_or_text(given))

    def item_text(self, item: Any) -> str:
        """The text in a content, and what functions returned."""
        if isinstance(item, str):
            return item
        texts = (_part_text(part) for part in content_parts(item))
        return "\n".join(text for text in texts if text)

    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        """Its texts, thoughts and calls, and what functions have returned."""
        blocks: list[dict[str, Any]] = []
        for part in content_parts(item):
            called, returned = part.get("functionCall"), part.get("functionResponse")
            if isinstance(called, dict):
                blocks.append(call_block(called.get("id"), called.get("name"), called.get("args")))
            elif isinstance(returned, dict):
                blocks.append(result_block(returned.get("id"), _part_text(part)))
            elif part.get("thought"):
                blocks.append({"type": "thinking", "thinking": part.get("text") or ""})
            else:
                blocks += text_block(_part_text(part))
        return blocks

    def message_items(self, message: Any) -> list[Any]:
        """The content of the only candidate."""
        whole = self.message_from_events(message) if isinstance(message, list) else message
        return [candidate.get("content") for candidate in dicts_in(whole.get("candidates"))][:1]

    def is_from_model(self, item: Any) -> bool:
        """Whether it is the model's."""
        return isinstance(item, dict) and item.get("role") == "model"

    def comparable_item(self, item: Any) -> Any:
        """A content without ids and the signatures of thoughts."""
        return without_keys(item, _VOLATILE, _OPAQUE)

    def text_path(self, event: SseEvent) -> TextPath | None:
        """Where a chunk has its text."""
        match event.get("candidates"):
            case [{"content": {"parts": [{"text": str(), **others}]}, **more}] if more.get("finishReason") is None:
                return ("candidates", 0, "content", "parts", 0, "text") if others.keys() <= {"thought"} else None
        return None

    def served_speed(self, headers: Mapping[str, str], asked: str | None) -> str | None:
        """The tier in its header: where the one that was asked for is full, it is the usual one."""
        return tier(headers[_TIER_HEADER]) if headers.get(_TIER_HEADER) else asked

    def is_message(self, body: Any) -> bool:
        """Whether a response, or the last chunk of an array, says why the model stopped."""
        chunks = body if isinstance(body, list) else [body]
        return bool(chunks) and self.is_complete(chunks)

    def whole_body(self, message: Any, call: ModelCall) -> Any:
        """An array of chunks where the request wants a stream that is none of events."""
        return [*self.events_from_message(message)] if call.array else message

    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        """A scripted response."""
        parts = list(_scripted_parts(scripted)) if scripted.content is None else scripted.content
        tokens = scripted.tokens
        return {
            "candidates": [
                {
                    "content": {"role": "model", "parts": parts},
                    "finishReason": scripted.stop_reason or "STOP",
                    "index": 0,
                }
            ],
            "usageMetadata": {
                "promptTokenCount": tokens.total - tokens.output,
                "cachedContentTokenCount": tokens.cache_read,
                "candidatesTokenCount": tokens.output - tokens.reasoning,
                "thoughtsTokenCount": tokens.reasoning,
                "totalTokenCount": tokens.total,
            },
            "modelVersion": scripted.model,
            "responseId": f"script-{scripted.number:06}",
        }

    def encode_event(self, event: SseEvent | str) -> bytes:
        """An event without a name, on lines as Google ends them."""
        return b"data: " + (event.encode() if isinstance(event, str) else msgspec.json.encode(event)) + b"\r\n\r\n"

    def error_body(self, status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
        """An error with its status in words."""
        name = _STATUSES.get(status, "UNKNOWN")
        return {"error": {"code": status, "message": message, "status": name, "details": []}}

    def too_long_message(self, tokens: int, maximum: int) -> str:
        """As Google says it."""
        return f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({maximum})."


def _tool_names(tool: dict[str, Raw]) -> Iterator[str]:
    """The names of the functions that a tool declares."""
    for member in ("functionDeclarations", "function_declarations"):
        if member in tool:
            with suppress(*DECODE_ERRORS):
                yield from (one.name for one in _DECLARED.decode(tool[member]) if isinstance(one.name, str))


def _part_text(part: dict[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    returned = part.get("functionResponse") or part.get("function_response")
    response = returned.get("response") if isinstance(returned, dict) else None
    if not isinstance(response, dict):
        return ""
    values = [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in response.values()]
    return "\n".join(values)


def _scripted_parts(scripted: ScriptedMessage) -> Iterator[dict[str, Any]]:
    if scripted.thinking is not None:
        yield {"text": scripted.thinking, "thought": True}
    if scripted.text is not None:
        yield {"text": scripted.text}
    for tool in scripted.tools:
        arguments = {"input": tool.arguments} if isinstance(tool.arguments, str) else tool.arguments
        yield {"functionCall": {"name": tool.name, "args": arguments}}
