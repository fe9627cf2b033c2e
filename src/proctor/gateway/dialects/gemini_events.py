"""Responses of the Gemini API, and the chunks that stream them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from proctor.core.result import Tokens
from proctor.gateway.dialects.base import EventReader, count_of, dicts_in, error_text, pieces, text_bytes
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.prices import Usage
from proctor.gateway.safe_json import DECODE_ERRORS
from proctor.gateway.sse import SseEvent

# The tier in which a response was made, as Google's two services write it: "priority", "ON_DEMAND_PRIORITY".
_TIER: Final = re.compile(r"(?:^|_)(flex|priority)$", re.IGNORECASE)
# Servers write every member of a chunk, also where it says nothing.
_UNFINISHED: Final = (None, "", "FINISH_REASON_UNSPECIFIED")
# What has a price of its own, by the member of a usage report.
_PRICED_MEDIA: Final[dict[str, tuple[str, ...]]] = {
    "promptTokensDetails": ("AUDIO",),
    "toolUsePromptTokensDetails": ("AUDIO",),
    "candidatesTokensDetails": ("AUDIO", "IMAGE"),
}


class _GeminiPart(msgspec.Struct, rename="camel"):
    text: Any = None
    function_call: Raw = Raw()


class _GeminiContent(msgspec.Struct):
    parts: list[_GeminiPart] | None = None


class _GeminiCandidate(msgspec.Struct, rename="camel"):
    content: _GeminiContent | None = None
    finish_reason: Any = None
    grounding_metadata: Any = None


class _GeminiChunk(msgspec.Struct, rename="camel"):
    candidates: list[_GeminiCandidate] | None = None
    usage_metadata: Any = None
    model_version: Any = None
    prompt_feedback: Any = None
    error: Any = None


_CHUNK: Final = msgspec.json.Decoder(_GeminiChunk)
_BODY: Final = msgspec.json.Decoder(list[_GeminiChunk] | _GeminiChunk)


def read_response(body: bytes, usage: UsageAccumulator) -> bool:
    """Read the usage of a response, or of an array of chunks; False when it does not say why the model stopped."""
    try:
        read = _BODY.decode(body)
    except DECODE_ERRORS:
        return False
    reader = GeminiEventReader(usage)
    for chunk in read if isinstance(read, list) else [read]:
        reader.read_chunk(chunk)
    return reader.finished and reader.error is None


def tier(value: Any) -> str | None:
    """A tier of service that has its own price."""
    found = _TIER.search(value) if isinstance(value, str) else None
    return None if found is None else found[1].lower()


def is_complete(events: Sequence[Any]) -> bool:
    """Whether one of the chunks says why the model stopped, and none is broken."""
    if not all(isinstance(event, dict) and not event.get("error") for event in events):
        return False
    return any(
        any(candidate.get("finishReason") not in _UNFINISHED for candidate in dicts_in(event.get("candidates")))
        or _is_blocked(event.get("promptFeedback"))
        for event in events
    )


class GeminiEventReader(EventReader):
    """Reads chunks up to the one that says why the model stopped."""

    def __init__(self, usage: UsageAccumulator) -> None:
        super().__init__(usage)
        self._searches: set[str] = set()

    def read(self, payload: bytes) -> None:
        """Read one chunk."""
        try:
            chunk = _CHUNK.decode(payload)
        except DECODE_ERRORS:
            self.count_unreadable(payload)
            return
        self.read_chunk(chunk)

    def read_chunk(self, chunk: _GeminiChunk) -> None:
        """Read a chunk that is decoded."""
        if chunk.error:
            self.error = error_text(chunk.error, "status")
            return
        for candidate in chunk.candidates or ():
            for part in (candidate.content.parts if candidate.content else None) or ():
                self._usage.add_delivered(text_bytes(part.text) + len(bytes(part.function_call)))
            self.finished = self.finished or candidate.finish_reason not in _UNFINISHED
        self.finished = self.finished or _is_blocked(chunk.prompt_feedback)
        if isinstance(chunk.model_version, str) and chunk.model_version:
            self._usage.model = chunk.model_version
        for candidate in chunk.candidates or ():
            self._searches.update(_searches(candidate.grounding_metadata))
        self._report(chunk.usage_metadata)

    def _report(self, reported: Any) -> None:
        tokens = _read_tokens(reported)
        if tokens is None:
            return
        for name in ("serviceTier", "trafficType"):
            if reported.get(name):
                self._usage.speed = tier(reported[name])
        usage = Usage(
            model=self._usage.model,
            tokens=tokens,
            web_searches=len(self._searches),
            speed=self._usage.speed,
            unknown=_has_priced_media(reported),
        )
        self._usage.report((usage,), final=self.finished)


def _read_tokens(reported: Any) -> Tokens | None:
    """Cached tokens are a part of the prompt; thoughts are beside the candidates. A count of 0 is left out."""
    if not isinstance(reported, dict):
        return None
    names = ("promptTokenCount", "toolUsePromptTokenCount", "cachedContentTokenCount")
    prompt, used, cached = (count_of(reported.get(name)) for name in names)
    if prompt is None:
        return None
    prompt += used or 0
    cached = min(cached or 0, prompt)
    thoughts = count_of(reported.get("thoughtsTokenCount")) or 0
    output = count_of(reported.get("candidatesTokenCount")) or 0
    return Tokens(input=prompt - cached, output=output + thoughts, cache_read=cached, reasoning=thoughts)


def _has_priced_media(reported: dict[str, Any]) -> bool:
    """Whether there are tokens with a price of their own: of sounds, or of pictures that were made."""
    return any(
        count_of(detail.get("tokenCount")) and detail.get("modality") in modalities
        for name, modalities in _PRICED_MEDIA.items()
        for detail in dicts_in(reported.get(name))
    )


def _searches(grounding: Any) -> Iterator[str]:
    queries = grounding.get("webSearchQueries") if isinstance(grounding, dict) else None
    yield from map(str, queries if isinstance(queries, list) else ())


def _is_blocked(feedback: Any) -> bool:
    return isinstance(feedback, dict) and bool(feedback.get("blockReason"))


def message_from_events(events: Iterable[SseEvent]) -> dict[str, Any]:
    """The response of a stream: parts of text are joined."""
    whole: dict[str, Any] = {}
    candidate: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    for event in events:
        whole |= {name: value for name, value in event.items() if name != "candidates"}
        for one in dicts_in(event.get("candidates"))[:1]:
            candidate |= {name: value for name, value in one.items() if name != "content"}
            for part in content_parts(one.get("content")):
                _add_part(parts, part)
    if not candidate and not whole:
        return {}
    return {**whole, "candidates": [{**candidate, "content": {"role": "model", "parts": parts}}]}


def events_from_message(message: Any, *, piece_length: int = 0) -> Iterator[SseEvent | str]:
    """The chunks that stream a response; the last one has its usage."""
    if isinstance(message, list):
        yield from message
        return
    head = {name: value for name, value in message.items() if name not in {"candidates", "usageMetadata"}}
    candidate = next(iter(dicts_in(message.get("candidates"))), {})
    parts: list[dict[str, Any]] = []
    for part in content_parts(candidate.get("content")):
        text = part.get("text")
        is_text = isinstance(text, str) and text
        parts += [{**part, "text": piece} for piece in pieces(text or "", piece_length)] if is_text else [part]
    for part in parts:
        yield {**head, "candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
    ended = {**candidate, "content": {"role": "model", "parts": [{"text": ""}]}}
    yield {**head, "candidates": [ended], "usageMetadata": message.get("usageMetadata")}


def content_parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a content."""
    parts = content.get("parts") if isinstance(content, dict) else None
    return dicts_in([parts] if isinstance(parts, dict) else parts)


def _add_part(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    last = parts[-1] if parts else None
    if part.get("text") == "" and len(part) == 1:
        return
    joins = last is not None and isinstance(part.get("text"), str) and isinstance(last.get("text"), str)
    if joins and last is not None and last.get("thought") == part.get("thought"):
        parts[-1] = {**last, **part, "text": last["text"] + part["text"]}
    else:
        parts.append(part)
