"""OpenAI's Responses API over HTTP, as Codex uses it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from proctor.gateway.dialects import openai
from proctor.gateway.dialects.base import (
    Dialect,
    EventReader,
    Route,
    ScriptedMessage,
    ScriptedTool,
    TextPath,
    call_block,
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
from proctor.gateway.server_tools import responses_server_tools
from proctor.gateway.sse import SseEvent, encode_named_event

_PATH: Final = re.compile(r"(?:/[\w.-]+)*/responses(/compact)?")
_TEXT_DELTAS: Final = frozenset(
    {
        "response.output_text.delta",
        "response.refusal.delta",
        "response.function_call_arguments.delta",
        "response.custom_tool_call_input.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning_text.delta",
    }
)
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_FAILURES: Final = frozenset({"response.failed", "response.cancelled", "error"})
# Items of a conversation that the model wrote.
_MODEL_ITEMS: Final = frozenset(
    {"function_call", "custom_tool_call", "reasoning", "local_shell_call", "shell_call", "apply_patch_call"}
)
# Members of items that are made up anew each time.
_VOLATILE: Final = frozenset({"id", "call_id", "status", "encrypted_content", "annotations", "logprobs", "phase"})
# A conversation that the provider holds can neither be recorded nor be replayed, and what runs there not be ended.
_AT_PROVIDER: Final = ("previous_response_id", "conversation")


class _ResponsesRequest(msgspec.Struct):
    model: str
    input: Raw = Raw(b"[]")
    stream: bool | None = None
    tools: list[Raw] | None = None
    background: Any = None
    previous_response_id: Any = None
    conversation: Any = None


class _ResponsesUsage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: openai.PromptDetails | None = None
    output_tokens_details: openai.OutputDetails | None = None


class _ResponsesItem(msgspec.Struct):
    type: str | None = None
    action: Any = None

    @property
    def is_search(self) -> bool:
        action = self.action.get("type") if isinstance(self.action, dict) else None
        return self.type == "web_search_call" and action in {None, "search"}


class _ResponsesError(msgspec.Struct):
    code: Any = None
    type: Any = None
    message: Any = None

    @property
    def text(self) -> str:
        return f"{self.code or self.type or 'error'}: {self.message or ''}"


class _ResponseObject(msgspec.Struct):
    model: str | None = None
    usage: _ResponsesUsage | None = None
    output: list[_ResponsesItem] | None = None
    service_tier: Any = None
    error: _ResponsesError | None = None
    object: str | None = None
    status: str | None = None


class _ResponsesEvent(msgspec.Struct):
    type: str | None = None
    delta: Any = None
    item: _ResponsesItem | None = None
    response: _ResponseObject | None = None
    error: _ResponsesError | None = None
    code: Any = None
    message: Any = None


_REQUEST: Final = msgspec.json.Decoder(_ResponsesRequest)
_ITEMS: Final = msgspec.json.Decoder(list[Raw])
_EVENT: Final = msgspec.json.Decoder(_ResponsesEvent)
_BODY: Final = msgspec.json.Decoder(_ResponseObject)


class ResponsesDialect(Dialect):
    """The Responses API."""

    name = "responses"
    provider = openai.PROVIDER
    conversation = "input"
    system = "instructions"
    unrecorded = frozenset({"metadata", "client_metadata", "user", "prompt_cache_key", "safety_identifier"})
    priced_tools = frozenset({"content from a URL", "web_search", "web_search_preview"})
    counter = "sequence_number"
    unrecorded_event_fields = frozenset({"obfuscation"})
    malformed_event = '{"type":"response.output_text.del'

    def route(self, method: str, path: str, query: str) -> Route | None:
        """``…/responses`` and ``…/responses/compact``."""
        found = _PATH.fullmatch(path) if method == "POST" else None
        if found is None:
            return None
        name = f"/responses{found[1] or ''}"
        return Route(self, f"{name}?{query}" if query else name)

    def parse_call(self, route: Route, body: bytes, headers: Mapping[str, str], *, agent: str = "") -> ModelCall | None:
        """Parse a request; Codex says what each of its requests is for."""
        decoded = decode_request(body, _REQUEST)
        if decoded is None:
            return None
        read, body = decoded
        items = _input_items(read.input)
        if items is None:
            return None
        offered = [tool for raw in read.tools or () for tool in flat_tools(decode_or_text(raw))]
        if b'"additional_tools"' in body:
            offered += [tool for raw in items for tool in _added_tools(raw)]
        tools = tuple(tool["name"] for tool in offered if isinstance(tool.get("name"), str))
        client = client_info(headers, tools)
        is_compact = route.path.partition("?")[0].endswith("/compact")
        unsupported = [name for name in _AT_PROVIDER if getattr(read, name)]
        unsupported += ["background"] if read.background else []
        return ModelCall(
            dialect=self,
            path=route.path,
            agent=agent,
            client_session_id=client.session_id,
            subagent_id=client.subagent_id,
            role=Role.COMPACTION if is_compact else client.role,
            model=read.model,
            stream=bool(read.stream),
            messages=items,
            body=body,
            tools=tools,
            server_tools=responses_server_tools(offered, items),
            unsupported=tuple(unsupported),
        )

    def system_text(self, call: ModelCall) -> str:
        """The instructions, and the system's and the developer's messages."""
        given = call.fields().get("instructions")
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
        return list(message.get("output") or ())

    def is_from_model(self, item: Any) -> bool:
        """Whether it is the assistant's message, a call or a thought."""
        return isinstance(item, dict) and (item.get("role") == "assistant" or item.get("type") in _MODEL_ITEMS)

    def is_instruction(self, item: Any) -> bool:
        """Whether it is the system's or the developer's, or brings tools."""
        return isinstance(item, dict) and (
            item.get("role") in openai.INSTRUCTION_ROLES or item.get("type") == "additional_tools"
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
        plain = event.get("type") in _TEXT_DELTAS and isinstance(event.get("delta"), str)
        return ("delta",) if plain and isinstance(event.get("sequence_number"), int) else None

    def event_reader(self, usage: UsageAccumulator) -> EventReader:
        """Reads events up to response.completed, or whatever else ends a response."""
        return _ResponsesEventReader(usage)

    def read_body(self, body: bytes, usage: UsageAccumulator) -> bool:
        """Read a response, or a compaction."""
        try:
            response = _BODY.decode(body)
        except DECODE_ERRORS:
            return False
        if response.output is None or response.status in {"failed", "cancelled"}:
            return False
        _report(usage, response, sum(item.is_search for item in response.output), final=True)
        return True

    def is_message(self, body: Any) -> bool:
        """Whether it has an output, and did not fail."""
        return (
            isinstance(body, dict)
            and isinstance(body.get("output"), list)
            and body.get("status") not in {"failed", "cancelled"}
        )

    def is_complete(self, events: Sequence[Any]) -> bool:
        """Whether the stream ends with the whole response."""
        kinds = [event.get("type") if isinstance(event, dict) else None for event in events]
        return bool(kinds) and kinds[-1] in _ENDS and None not in kinds and _FAILURES.isdisjoint(kinds)

    def message_from_events(self, events: Iterable[SseEvent]) -> dict[str, Any]:
        """The response that the last event has; its items are those of the events before where it has none."""
        response: dict[str, Any] = {}
        items: list[Any] = []
        for event in events:
            if isinstance(event.get("response"), dict):
                response = event["response"]
            if event.get("type") == "response.output_item.done":
                items.append(event.get("item"))
        return {**response, "output": response.get("output") or items} if response else {}

    def events_from_message(self, message: Any, *, piece_length: int = 0) -> Iterator[SseEvent | str]:
        """The events that stream a response."""
        for number, event in enumerate(_events(message, piece_length)):
            yield {"type": event["type"], "sequence_number": number, **event}

    def render(self, scripted: ScriptedMessage) -> dict[str, Any]:
        """A scripted response."""
        output = list(_output_items(scripted)) if scripted.content is None else scripted.content
        reason = scripted.stop_reason
        tokens = scripted.tokens
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
            "usage": {
                "input_tokens": tokens.total - tokens.output,
                "input_tokens_details": {
                    "cached_tokens": tokens.cache_read,
                    "cache_write_tokens": tokens.cache_write_5m + tokens.cache_write_1h,
                },
                "output_tokens": tokens.output,
                "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
                "total_tokens": tokens.total,
            },
        }

    def encode_event(self, event: SseEvent | str) -> bytes:
        """An event with its type as its name."""
        return encode_named_event(event)

    def error_body(self, status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
        """An error with its type and code."""
        return openai.error_body(status, message, kind=kind)

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

    def refusal_status(self, status: int) -> int:  # noqa: ARG002 - one for all
        """Codex gives up at once on this status alone, whatever its configuration."""
        return 400

    def final_error_status(self, status: int) -> int:  # noqa: ARG002 - one for all
        """Likewise: it tries again after 401, 403 and 404 as well."""
        return 400


class _ResponsesEventReader(EventReader):
    def __init__(self, usage: UsageAccumulator) -> None:
        super().__init__(usage)
        self._searches = 0
        self._has_deltas = False

    def read(self, payload: bytes) -> None:
        try:
            event = _EVENT.decode(payload)
        except DECODE_ERRORS:
            self._usage.add_delivered(len(payload))
            return
        kind = event.type or ""
        if kind in _TEXT_DELTAS and isinstance(event.delta, str):
            self._has_deltas = True
            self._usage.add_delivered(max(1, text_bytes(event.delta)))
        elif kind == "response.output_item.done":
            # Its text has been counted, unless the server sends no deltas.
            if not self._has_deltas:
                self._usage.add_delivered(len(payload))
            self._has_deltas = False
            self._searches += event.item is not None and event.item.is_search
        elif kind in _ENDS or kind in _FAILURES:
            if event.response is not None:
                _report(self._usage, event.response, self._searches, final=True)
            if kind in _ENDS:
                self.finished = True
            else:
                failed = event.error or (event.response and event.response.error)
                self.error = (failed or _ResponsesError(code=event.code, message=event.message)).text
        elif event.response is not None and event.response.model:
            self._usage.model = event.response.model


def _report(usage: UsageAccumulator, response: _ResponseObject, searches: int, *, final: bool) -> None:
    if response.model:
        usage.model = response.model
    reported = response.usage
    if reported is None or reported.input_tokens is None:
        return
    tokens = openai.make_tokens(
        reported.input_tokens,
        reported.output_tokens or 0,
        reported.total_tokens,
        reported.input_tokens_details,
        reported.output_tokens_details,
    )
    tier = openai.tier(response.service_tier)
    usage.report((Usage(model=usage.model, tokens=tokens, web_searches=searches, speed=tier),), final=final)


def _input_items(given: Raw) -> list[Raw] | None:
    """The items of an input, which may be a text; None when it is neither."""
    try:
        return _ITEMS.decode(given)
    except DECODE_ERRORS:
        text = decode_or_text(given)
    if not isinstance(text, str):
        return None
    return [Raw(msgspec.json.encode({"type": "message", "role": "user", "content": text}))]


def flat_tools(tool: Any) -> Iterator[dict[str, Any]]:
    """A tool, or those of a namespace."""
    if isinstance(tool, dict) and tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
        for inner in tool["tools"]:
            yield from flat_tools(inner)
    else:
        yield tool if isinstance(tool, dict) else {"type": tool}


def _added_tools(raw: Raw) -> Iterator[dict[str, Any]]:
    """The tools that an item of the conversation brings: so the newest models get them."""
    item = decode_or_text(raw) if b'"additional_tools"' in bytes(raw) else None
    if isinstance(item, dict) and item.get("type") == "additional_tools" and isinstance(item.get("tools"), list):
        for tool in item["tools"]:
            yield from flat_tools(tool)


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


def _events(response: Any, piece_length: int) -> Iterator[SseEvent]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response.get("output") or ()):
        place = {"output_index": index, "item_id": item.get("id")}
        yield {"type": "response.output_item.added", "output_index": index, "item": _begun_item(item)}
        yield from ({**event, **place} for event in _item_events(item, piece_length))
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response.get('status') or 'completed'}", "response": response}


def _begun_item(item: dict[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {name: [] for name in ("content", "summary") if isinstance(item.get(name), list)}
    empty |= {name: "" for name in ("arguments", "input") if isinstance(item.get(name), str)}
    return {**item, **empty, **({"status": "in_progress"} if "status" in item else {})}


def _item_events(item: dict[str, Any], piece_length: int) -> Iterator[SseEvent]:
    for kind, member, name in (
        ("response.function_call_arguments", "arguments", "arguments"),
        ("response.custom_tool_call_input", "input", "input"),
    ):
        if isinstance(text := item.get(member), str):
            yield from ({"type": f"{kind}.delta", "delta": piece} for piece in pieces(text, piece_length))
            yield {"type": f"{kind}.done", name: text}
    for kind, part_kind, member, index_name in (
        ("response.output_text", "response.content_part", "content", "content_index"),
        ("response.reasoning_summary_text", "response.reasoning_summary_part", "summary", "summary_index"),
    ):
        for index, part in enumerate(item.get(member) or ()):
            text, place = part.get("text") or "", {index_name: index}
            yield {"type": f"{part_kind}.added", "part": {**part, "text": ""}, **place}
            yield from ({"type": f"{kind}.delta", "delta": piece, **place} for piece in pieces(text, piece_length))
            yield {"type": f"{kind}.done", "text": text, **place}
            yield {"type": f"{part_kind}.done", "part": part, **place}
