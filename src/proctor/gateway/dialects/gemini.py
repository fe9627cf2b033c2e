"""Google's Gemini API: generateContent and streamGenerateContent. The path names the model."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec
from msgspec import Raw

from proctor.core.result import Tokens
from proctor.gateway.dialects.base import (
    FINAL_STATUS,
    Dialect,
    EventReader,
    Route,
    ScriptedMessage,
    TextPath,
    call_block,
    is_retryable_status,
    pieces,
    result_block,
    text_block,
    text_bytes,
    without_keys,
)
from proctor.gateway.dialects.clients import client_info
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import ModelCall, Role, decode_request
from proctor.gateway.prices import Usage
from proctor.gateway.safe_json import DECODE_ERRORS, decode_or_text
from proctor.gateway.server_tools import gemini_server_tools
from proctor.gateway.sse import SseEvent

_PATH: Final = re.compile(
    r"(?:/(?P<version>v\d+[a-z0-9]*))?/models/(?P<model>[^/:]+):(?P<action>generateContent|streamGenerateContent)"
)
_KEY_PARAMETER: Final = "key"
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


class _GeminiGenerationConfig(msgspec.Struct, rename="camel"):
    candidate_count: int | None = None
    response_schema: Any = None
    response_json_schema: Any = None


class _GeminiRequest(msgspec.Struct, rename="camel"):
    contents: Raw
    tools: Any = None
    generation_config: _GeminiGenerationConfig | None = None


class _GeminiPart(msgspec.Struct, rename="camel"):
    text: str | None = None
    function_call: Raw = Raw()


class _GeminiContent(msgspec.Struct):
    parts: list[_GeminiPart] | None = None


class _GeminiCandidate(msgspec.Struct, rename="camel"):
    content: _GeminiContent | None = None
    finish_reason: str | None = None
    grounding_metadata: Any = None


class _GeminiFeedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class _GeminiUsage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None

    def tokens(self) -> Tokens:
        """Cached tokens are a part of the prompt; thoughts are beside the candidates."""
        prompt = (self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0)
        cached = min(self.cached_content_token_count or 0, prompt)
        thoughts = self.thoughts_token_count or 0
        return Tokens(
            input=prompt - cached,
            output=(self.candidates_token_count or 0) + thoughts,
            cache_read=cached,
            reasoning=thoughts,
        )


class _GeminiChunk(msgspec.Struct, rename="camel"):
    candidates: list[_GeminiCandidate] | None = None
    usage_metadata: _GeminiUsage | None = None
    model_version: str | None = None
    prompt_feedback: _GeminiFeedback | None = None
    error: Any = None


_REQUEST: Final = msgspec.json.Decoder(_GeminiRequest)
_CONTENTS: Final = msgspec.json.Decoder(list[Raw])
_CHUNK: Final = msgspec.json.Decoder(_GeminiChunk)
_BODY: Final = msgspec.json.Decoder(list[_GeminiChunk] | _GeminiChunk)


class GeminiDialect(Dialect):
    """The Gemini API."""

    name = "gemini"
    provider = "gemini"
    conversation = "contents"
    system = "systemInstruction"
    priced_tools = frozenset({"content from a URL", "googleSearch", "google_search"})
    malformed_event = '{"candidates":[{"conte'

    def route(self, method: str, path: str, query: str) -> Route | None:
        """``…/models/M:generateContent`` and ``…/models/M:streamGenerateContent``, with and without a version."""
        found = _PATH.fullmatch(path) if method == "POST" else None
        if found is None:
            return None
        parameters = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != _KEY_PARAMETER]
        streams = found["action"] == "streamGenerateContent"
        events = ("alt", "sse") in parameters
        name = f"/{found['version'] or 'v1beta'}/models/{found['model']}:{found['action']}"
        return Route(
            self,
            f"{name}?{urlencode(parameters)}" if parameters else name,
            model=found["model"],
            stream=streams and events,
            array=streams and not events,
        )

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request; one for JSON without tools is a side call, such as that of a router."""
        decoded = decode_request(body, _REQUEST)
        if decoded is None:
            return None
        read, body = decoded
        try:
            contents = _CONTENTS.decode(read.contents)
        except DECODE_ERRORS:
            contents = [read.contents]
        tools = tuple(_tool_names(read.tools))
        client = client_info(headers, tools)
        config = read.generation_config or _GeminiGenerationConfig()
        routes = not tools and (config.response_schema is not None or config.response_json_schema is not None)
        return ModelCall(
            dialect=self,
            path=route.path,
            agent=agent,
            client_session_id=client.session_id,
            subagent_id=client.subagent_id,
            role=Role.SIDE if routes else client.role,
            model=route.model,
            stream=bool(route.stream),
            array=route.array,
            messages=contents,
            body=body,
            tools=tools,
            server_tools=gemini_server_tools(read.tools, contents),
            unsupported=("candidateCount > 1",) if (config.candidate_count or 1) > 1 else (),
        )

    def with_model(self, call: ModelCall, model: str) -> ModelCall:
        """The same request to another model, which the path names."""
        path = call.path.replace(f"/models/{call.model}:", f"/models/{model}:", 1)
        return msgspec.structs.replace(call, model=model, path=path)

    def system_text(self, call: ModelCall) -> str:
        """The system instruction as one text."""
        fields = call.fields()
        given = fields.get("systemInstruction") or fields.get("system_instruction")
        return "" if given is None else self.item_text(decode_or_text(given))

    def item_text(self, item: Any) -> str:
        """The text in a content, and what functions returned."""
        if isinstance(item, str):
            return item
        parts = item.get("parts") if isinstance(item, dict) else None
        texts = [_part_text(part) for part in parts or () if isinstance(part, dict)] if isinstance(parts, list) else []
        return "\n".join(text for text in texts if text)

    def content_blocks(self, item: Any) -> list[dict[str, Any]]:
        """Its texts, thoughts and calls, and what functions have returned."""
        parts = item.get("parts") if isinstance(item, dict) else None
        blocks: list[dict[str, Any]] = []
        for part in parts if isinstance(parts, list) else ():
            if not isinstance(part, dict):
                continue
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
        return [candidate.get("content") for candidate in whole.get("candidates") or ()][:1]

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

    def event_reader(self, usage: UsageAccumulator) -> EventReader:
        """Reads chunks up to the one that says why the model stopped."""
        return _GeminiEventReader(usage)

    def read_body(self, body: bytes, usage: UsageAccumulator) -> bool:
        """Read a response, or an array of chunks."""
        try:
            read = _BODY.decode(body)
        except DECODE_ERRORS:
            return False
        chunks = read if isinstance(read, list) else [read]
        reader = _GeminiEventReader(usage)
        for chunk in chunks:
            reader.read_chunk(chunk)
        return reader.finished

    def is_message(self, body: Any) -> bool:
        """Whether a response, or the last chunk of an array, says why the model stopped."""
        chunks = body if isinstance(body, list) else [body]
        return bool(chunks) and self.is_complete(chunks)

    def is_complete(self, events: Sequence[Any]) -> bool:
        """Whether one of the chunks says why the model stopped, and none is broken."""
        if not all(isinstance(event, dict) and "error" not in event for event in events):
            return False
        candidates = [one for event in events for one in event.get("candidates") or ()]
        return any(isinstance(one, dict) and one.get("finishReason") for one in candidates) or any(
            (event.get("promptFeedback") or {}).get("blockReason") for event in events
        )

    def message_from_events(self, events: Iterable[SseEvent]) -> dict[str, Any]:
        """The response of a stream: parts of text are joined."""
        whole: dict[str, Any] = {}
        candidate: dict[str, Any] = {}
        parts: list[dict[str, Any]] = []
        for event in events:
            whole |= {name: value for name, value in event.items() if name != "candidates"}
            for one in (event.get("candidates") or ())[:1]:
                candidate |= {name: value for name, value in one.items() if name != "content"}
                for part in (one.get("content") or {}).get("parts") or ():
                    _add_part(parts, part)
        if not candidate and not whole:
            return {}
        return {**whole, "candidates": [{**candidate, "content": {"role": "model", "parts": parts}}]}

    def events_from_message(self, message: Any, *, piece_length: int = 0) -> Iterator[SseEvent | str]:
        """The chunks that stream a response; the last one has its usage."""
        if isinstance(message, list):
            yield from message
            return
        head = {name: value for name, value in message.items() if name not in {"candidates", "usageMetadata"}}
        candidate = (message.get("candidates") or [{}])[0]
        parts: list[dict[str, Any]] = []
        for part in (candidate.get("content") or {}).get("parts") or ():
            text = part.get("text")
            parts += [{**part, "text": piece} for piece in pieces(text, piece_length)] if text else [part]
        for part in parts:
            yield {**head, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
        ended = {**candidate, "content": {"role": "model", "parts": [{"text": ""}]}}
        yield {**head, "candidates": [ended], "usageMetadata": message.get("usageMetadata")}

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

    def error_body(self, status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:  # noqa: ARG002 - the status says it
        """An error with its status in words."""
        name = _STATUSES.get(status, "UNKNOWN")
        return {"error": {"code": status, "message": message, "status": name, "details": []}}

    def too_long_message(self, tokens: int, maximum: int) -> str:
        """As Google says it."""
        return f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({maximum})."

    def refusal_status(self, status: int) -> int:
        """402 and 403 are final for programs of this dialect; what is no provider's status becomes 400."""
        return 400 if status == FINAL_STATUS else status

    def final_error_status(self, status: int) -> int:
        """Gemini CLI tries again after 429 and 5xx for minutes."""
        return 400 if is_retryable_status(status) else status


class _GeminiEventReader(EventReader):
    def read(self, payload: bytes) -> None:
        try:
            chunk = _CHUNK.decode(payload)
        except DECODE_ERRORS:
            self._usage.add_delivered(len(payload))
            return
        self.read_chunk(chunk)

    def read_chunk(self, chunk: _GeminiChunk) -> None:
        if chunk.error is not None:
            error = chunk.error if isinstance(chunk.error, dict) else {}
            self.error = f"{error.get('status') or 'error'}: {error.get('message') or ''}"
            return
        for candidate in chunk.candidates or ():
            for part in (candidate.content.parts if candidate.content else None) or ():
                self._usage.add_delivered(text_bytes(part.text) + len(bytes(part.function_call)))
            self.finished = self.finished or candidate.finish_reason is not None
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            self.finished = True
        if chunk.model_version:
            self._usage.model = chunk.model_version
        reported = chunk.usage_metadata
        if reported is not None and reported.prompt_token_count is not None:
            searches = sum(_searches(candidate.grounding_metadata) for candidate in chunk.candidates or ())
            usage = Usage(model=self._usage.model, tokens=reported.tokens(), web_searches=searches)
            self._usage.report((usage,), final=self.finished)


def _searches(grounding: Any) -> int:
    queries = grounding.get("webSearchQueries") if isinstance(grounding, dict) else None
    return len(queries) if isinstance(queries, list) else 0


def _tool_names(tools: Any) -> Iterator[str]:
    for tool in tools if isinstance(tools, list) else [tools]:
        if not isinstance(tool, dict):
            continue
        for function in tool.get("functionDeclarations") or tool.get("function_declarations") or ():
            if isinstance(function, dict) and isinstance(function.get("name"), str):
                yield function["name"]


def _part_text(part: dict[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return str(part["text"])
    returned = part.get("functionResponse") or part.get("function_response")
    response = returned.get("response") if isinstance(returned, dict) else None
    if not isinstance(response, dict):
        return ""
    values = [value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in response.values()]
    return "\n".join(values)


def _add_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    last = parts[-1] if parts else None
    if part.get("text") == "" and len(part) == 1:
        return
    joins = last is not None and isinstance(part.get("text"), str) and "text" in last
    if joins and last is not None and last.get("thought") == part.get("thought"):
        parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
    else:
        parts.append(part)


def _scripted_parts(scripted: ScriptedMessage) -> Iterator[dict[str, Any]]:
    if scripted.thinking is not None:
        yield {"text": scripted.thinking, "thought": True}
    if scripted.text is not None:
        yield {"text": scripted.text}
    for tool in scripted.tools:
        arguments = {"input": tool.arguments} if isinstance(tool.arguments, str) else tool.arguments
        yield {"functionCall": {"name": tool.name, "args": arguments}}
