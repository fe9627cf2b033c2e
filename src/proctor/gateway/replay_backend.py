"""Replays a recording: the same responses again, by conversation and order, without a provider."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Literal

import msgspec

from proctor.gateway.backend import (
    EVENT_STREAM_HEADERS,
    JSON_HEADERS,
    Backend,
    BackendReply,
    GatewaySessionSpec,
    IncomingRequest,
    Responder,
    Sleep,
    StreamBroken,
    StreamEnd,
    TimedChunk,
    divergence_reply,
    offline_reply,
    synthetic_reply,
)
from proctor.gateway.dialects import DIALECTS
from proctor.gateway.dialects.base import Dialect
from proctor.gateway.events import ReplayDivergence
from proctor.gateway.model_call import ModelCall, Role
from proctor.gateway.prices import canonical_model
from proctor.gateway.recording import ExpandedExchange, PathTranslator, Recording, is_complete, load_recording
from proctor.gateway.request_matching import RequestMatcher
from proctor.gateway.sse import SseEvent

Tolerance = Literal["normal", "order"]


class ReplayBackend(Backend):
    """Responds from recordings.

    Args:
        find: where the recording for a session is.
        pace: 0 responds at once, 1 as fast as it was recorded, 2 in twice the time.
        tolerance: `normal` compares the messages and reports a divergence; `order` compares only the number, kind
            and model of the requests, for tasks whose tools print something else each time.
    """

    def __init__(
        self,
        find: Callable[[GatewaySessionSpec], Path],
        *,
        name: str = "replay",
        pace: float = 0.0,
        tolerance: Tolerance = "normal",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = name
        self._find = find
        self._pace = pace
        self._tolerance: Tolerance = tolerance
        self._sleep = sleep

    def responder(self, spec: GatewaySessionSpec) -> Responder:
        """A responder that replays the session's recording.

        Raises:
            InvalidData: there is no such recording, or it is broken.
        """
        recording = load_recording(self._find(spec))
        return ReplayResponder(
            recording, values=spec.values, pace=self._pace, tolerance=self._tolerance, sleep=self._sleep
        )


class _RecordedConversation:
    """One recorded conversation, and how much of it has been replayed."""

    def __init__(self, name: str, recorded: list[ExpandedExchange]) -> None:
        self.name = name
        self.exchanges = recorded
        self.position = 0


class ReplayResponder(Responder):
    """Replays one session."""

    def __init__(
        self,
        recording: Recording,
        *,
        values: dict[str, str] | None = None,
        pace: float = 0.0,
        tolerance: Tolerance = "normal",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._pace = pace
        self._tolerance = tolerance
        self._sleep = sleep
        self._matchers = {name: RequestMatcher(dialect) for name, dialect in DIALECTS.items()}
        self._paths = PathTranslator(recording.header.values, values or {})
        self._conversations: dict[str, _RecordedConversation] = {}
        self._assigned: dict[str, _RecordedConversation] = {}
        self._models = sorted({recorded.exchange.request.model for recorded in recording.exchanges})
        self._request_counts: dict[str, int] = {}
        for recorded in recording.exchanges:
            name = recorded.exchange.conversation
            self._conversations.setdefault(name, _RecordedConversation(name, [])).exchanges.append(recorded)

    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Estimate token counts; list the recorded models."""
        return await offline_reply(incoming, self._models)

    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """The recorded response, streamed or not as requested."""
        number = self._request_counts[conversation] = self._request_counts.get(conversation, 0) + 1
        recorded_conversation = self._conversation(conversation, call)
        if recorded_conversation is None:
            return self._diverge(call, conversation, number, "no such conversation was recorded")
        recorded, reason = self._select(recorded_conversation, call)
        if recorded is None:
            return self._diverge(call, conversation, number, reason)
        return self.reply(recorded, call)

    def skip(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> None:
        """Skip the recorded response to this request, and the errors that were recorded before it."""
        self._request_counts[conversation] = self._request_counts.get(conversation, 0) + 1
        recorded_conversation = self._conversation(conversation, call)
        before = -1
        while recorded_conversation is not None and recorded_conversation.position != before:
            before = recorded_conversation.position
            recorded, _ = self._select(recorded_conversation, call)
            if recorded is None or is_complete(recorded.exchange):
                return

    def _conversation(self, conversation: str, call: ModelCall) -> _RecordedConversation | None:
        """The recorded conversation that corresponds to this one.

        Sub-agents that start together may arrive in any order, so each is found by its first request.
        """
        if conversation not in self._assigned:
            free = [one for one in self._conversations.values() if one not in self._assigned.values()]
            same_kind = [one for one in free if _conversation_kind(one.name) == _conversation_kind(conversation)]
            same_start = [one for one in same_kind if self._difference(one.exchanges[0], call, strict=True) is None]
            same_name = [one for one in same_kind if one.name == conversation]
            chosen = next(iter([*same_start, *same_name, *same_kind]), None)
            if chosen is None:
                return None
            self._assigned[conversation] = chosen
        return self._assigned[conversation]

    def _select(self, recorded: _RecordedConversation, call: ModelCall) -> tuple[ExpandedExchange | None, str]:
        """The next response; for a request that is repeated, the response that it got before."""
        upcoming = recorded.exchanges[recorded.position :]
        # Side calls are independent and may come in any order; a conversation continues from its position.
        candidates = upcoming if call.role is Role.SIDE else upcoming[:1]
        reasons = []
        for offset, candidate in enumerate(candidates):
            reason = self._difference(candidate, call)
            if reason is None:
                position = recorded.position + offset
                recorded.exchanges.insert(recorded.position, recorded.exchanges.pop(position))
                recorded.position += 1
                return candidate, ""
            reasons.append(reason)
        for candidate in recorded.exchanges[: recorded.position][-1:]:
            if self._difference(candidate, call, strict=True) is None:
                return candidate, ""
        return None, reasons[0] if reasons else f"only {len(recorded.exchanges)} requests were recorded"

    def _difference(self, recorded: ExpandedExchange, call: ModelCall, *, strict: bool = False) -> str | None:
        before, now = canonical_model(recorded.exchange.request.model), canonical_model(call.model)
        if before != now:
            return f"it is for {now} where {before} was recorded"
        if recorded.dialect is not call.dialect:
            return f"it is in the dialect {call.dialect.name} where {recorded.dialect.name} was recorded"
        if recorded.exchange.role is not call.role:
            return f"it is a {call.role} request where a {recorded.exchange.role} request was recorded"
        if self._tolerance == "order" and not strict:
            return None
        return self._matchers[call.dialect.name].difference(recorded.messages, call.messages)

    def _diverge(self, call: ModelCall, conversation: str, number: int, reason: str) -> BackendReply:
        message = f"replay_diverged: request {number} of {conversation!r}: {reason}"
        divergence = ReplayDivergence(conversation=conversation, request=number, message=message)
        return divergence_reply(divergence, call.dialect)

    def reply(self, recorded: ExpandedExchange, call: ModelCall) -> BackendReply:
        """One recorded response, streamed or not as requested."""
        dialect = call.dialect
        response = recorded.exchange.response
        if response.status is None:
            raise StreamBroken("no response was recorded")
        headers = dict(response.headers)
        ending: StreamEnd = "close" if response.cut else "done"
        if recorded.exchange.events is not None:
            return self._stream_reply(recorded, headers, ending, call)
        message = self._paths.translate(response.body)
        if call.stream and response.status == HTTPStatus.OK and dialect.is_message(message):
            timeline = [(response.ms, event) for event in dialect.events_from_message(message)]
            return self._timed_reply(dialect, headers | EVENT_STREAM_HEADERS, timeline, ending)
        text = message.encode() if isinstance(message, str) else msgspec.json.encode(message)
        chunks = [TimedChunk(response.ms / 1000 * self._pace, text)]
        return synthetic_reply(response.status, headers, chunks, ending=ending, sleep=self._sleep)

    def _stream_reply(
        self, recorded: ExpandedExchange, headers: dict[str, str], ending: StreamEnd, call: ModelCall
    ) -> BackendReply:
        timeline = list(recorded.timeline(self._paths))
        if call.stream:
            return self._timed_reply(call.dialect, headers | EVENT_STREAM_HEADERS, timeline, ending)
        events = [event for _, event in timeline]
        if ending != "done" or not call.dialect.is_complete(events):
            raise StreamBroken("the recorded response broke off")
        message = call.dialect.message_from_events([event for event in events if isinstance(event, dict)])
        message = call.dialect.whole_body(message, call)
        chunk = TimedChunk(recorded.exchange.response.ms / 1000 * self._pace, msgspec.json.encode(message))
        return synthetic_reply(HTTPStatus.OK, headers | JSON_HEADERS, [chunk], sleep=self._sleep)

    def _timed_reply(
        self,
        dialect: Dialect,
        headers: dict[str, str],
        timeline: Iterable[tuple[int, SseEvent | str]],
        ending: StreamEnd,
    ) -> BackendReply:
        chunks = self._timed_chunks(dialect, timeline)
        return synthetic_reply(HTTPStatus.OK, headers, chunks, ending=ending, sleep=self._sleep)

    def _timed_chunks(self, dialect: Dialect, timeline: Iterable[tuple[int, SseEvent | str]]) -> Iterator[TimedChunk]:
        before = 0
        for at, event in timeline:
            yield TimedChunk(max(0, at - before) / 1000 * self._pace, dialect.encode_event(event))
            before = at


def _conversation_kind(conversation: str) -> str:
    """A conversation's name without its number: the agent, and main, sub-agent or side."""
    name, _, number = conversation.rpartition("-")
    return name if number.isdigit() else conversation
