"""Replays a cassette: the same answers again, by conversation and order, without asking anybody."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from proctor.gateway.backend import (
    EVENT_STREAM,
    JSON,
    Beat,
    Ending,
    Incoming,
    Reply,
    Responder,
    SessionSpec,
    Sleep,
    StreamBroken,
    diverged_reply,
    offline_other,
    played,
)
from proctor.gateway.cassette import Cassette, Moved, Recorded, is_whole, read_cassette
from proctor.gateway.classify import Call, Role
from proctor.gateway.events import Diverged
from proctor.gateway.match import Matcher
from proctor.gateway.prices import canonical_model
from proctor.gateway.sse import Event, encode_event, fold, unfold

_OK: Final = 200
Tolerance = Literal["normal", "order"]


class ReplayBackend:
    """Answers from cassettes.

    Args:
        find: where the cassette for a session is.
        pace: 0 answers at once, 1 as fast as it was recorded, 2 in twice the time.
        tolerance: `normal` compares what is said and reports a divergence; `order` compares nothing but counts,
            for tasks whose tools print something else each time.
    """

    def __init__(
        self,
        find: Callable[[SessionSpec], Path],
        *,
        name: str = "replay",
        pace: float = 0.0,
        tolerance: Tolerance = "normal",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self.name = name
        self.secrets: tuple[str, ...] = ()
        self.passes_login = False
        self._find = find
        self._pace = pace
        self._tolerance: Tolerance = tolerance
        self._sleep = sleep

    async def start(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do."""

    def responder(self, spec: SessionSpec) -> Responder:
        """A player of the session's cassette.

        Raises:
            InvalidData: there is no such cassette, or it is broken.
        """
        cassette = read_cassette(self._find(spec))
        return ReplayPlayer(cassette, values=spec.values, pace=self._pace, tolerance=self._tolerance, sleep=self._sleep)


class _Thread:
    """One recorded conversation, and how far it has been played."""

    def __init__(self, name: str, recorded: list[Recorded]) -> None:
        self.name = name
        self.recorded = recorded
        self.position = 0


class ReplayPlayer:
    """Plays one session."""

    def __init__(
        self,
        cassette: Cassette,
        *,
        values: dict[str, str] | None = None,
        pace: float = 0.0,
        tolerance: Tolerance = "normal",
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._pace = pace
        self._tolerance = tolerance
        self._sleep = sleep
        self._matcher = Matcher()
        self._moved = Moved(cassette.header.values, values or {})
        self._threads: dict[str, _Thread] = {}
        self._taken: dict[str, _Thread] = {}
        self._models = sorted({recorded.exchange.request.model for recorded in cassette.exchanges})
        self._asked: dict[str, int] = {}
        for recorded in cassette.exchanges:
            name = recorded.exchange.conversation
            self._threads.setdefault(name, _Thread(name, [])).recorded.append(recorded)

    async def other(self, incoming: Incoming) -> Reply:
        """Count tokens by a guess; list the models that were recorded."""
        return await offline_other(incoming, self._models)

    async def answer(self, call: Call, conversation: str, incoming: Incoming) -> Reply:  # noqa: ARG002 - `call` holds it
        """Give the recorded answer, in the form that is asked for."""
        number = self._asked[conversation] = self._asked.get(conversation, 0) + 1
        thread = self._thread(conversation, call)
        if thread is None:
            return self._diverge(conversation, number, "no such conversation was recorded")
        recorded, reason = self._choose(thread, call)
        if recorded is None:
            return self._diverge(conversation, number, reason)
        return self.reply(recorded, stream=call.stream)

    def passed(self, call: Call, conversation: str, incoming: Incoming) -> None:  # noqa: ARG002 - `call` holds it
        """Go past the recorded answer to this request, and past the errors that were recorded before it."""
        self._asked[conversation] = self._asked.get(conversation, 0) + 1
        thread = self._thread(conversation, call)
        before = -1
        while thread is not None and thread.position != before:
            before = thread.position
            recorded, _ = self._choose(thread, call)
            if recorded is None or is_whole(recorded.exchange):
                return

    def _thread(self, conversation: str, call: Call) -> _Thread | None:
        """The recorded conversation that this one is.

        Sub-agents that start together may arrive in any order, so each is found by what it was first asked.
        """
        if conversation not in self._taken:
            free = [thread for thread in self._threads.values() if thread not in self._taken.values()]
            alike = [thread for thread in free if _kind(thread.name) == _kind(conversation)]
            begun = [thread for thread in alike if self._differs(thread.recorded[0], call, strict=True) is None]
            same = [thread for thread in alike if thread.name == conversation]
            chosen = next(iter([*begun, *same, *alike]), None)
            if chosen is None:
                return None
            self._taken[conversation] = chosen
        return self._taken[conversation]

    def _choose(self, thread: _Thread, call: Call) -> tuple[Recorded | None, str]:
        """The answer that is due; when the request was asked before, the answer that it got before."""
        upcoming = thread.recorded[thread.position :]
        # Side calls stand alone and may come in any order; a conversation goes on from where it was.
        candidates = upcoming if call.role is Role.SIDE else upcoming[:1]
        reasons = []
        for offset, candidate in enumerate(candidates):
            reason = self._differs(candidate, call)
            if reason is None:
                position = thread.position + offset
                thread.recorded.insert(thread.position, thread.recorded.pop(position))
                thread.position += 1
                return candidate, ""
            reasons.append(reason)
        played_last = thread.recorded[: thread.position][-1:]
        for candidate in played_last:
            if self._differs(candidate, call, strict=True) is None:
                return candidate, ""
        return None, reasons[0] if reasons else f"only {len(thread.recorded)} requests were recorded"

    def _differs(self, recorded: Recorded, call: Call, *, strict: bool = False) -> str | None:
        before, now = canonical_model(recorded.exchange.request.model), canonical_model(call.model)
        if before != now:
            return f"it is for {now} where {before} was recorded"
        if recorded.exchange.role is not call.role:
            return f"it is a {call.role} request where a {recorded.exchange.role} request was recorded"
        if self._tolerance == "order" and not strict:
            return None
        return self._matcher.difference(recorded.messages, call.messages)

    def _diverge(self, conversation: str, number: int, reason: str) -> Reply:
        message = f"replay_diverged: request {number} of {conversation!r}: {reason}"
        return diverged_reply(Diverged(conversation=conversation, request=number, message=message))

    def reply(self, recorded: Recorded, *, stream: bool) -> Reply:
        """One recorded answer, in the form that is asked for."""
        response = recorded.exchange.response
        if response.status is None:
            raise StreamBroken("no answer was recorded")
        headers = dict(response.headers)
        ending: Ending = "close" if response.cut else "done"
        if recorded.exchange.events is not None:
            return self._from_stream(recorded, headers, ending, stream=stream)
        message = self._moved.translate(response.body)
        if stream and response.status == _OK and isinstance(message, dict) and message.get("type") == "message":
            return self._played(headers | EVENT_STREAM, [(response.ms, event) for event in unfold(message)], ending)
        text = message.encode() if isinstance(message, str) else msgspec.json.encode(message)
        beats = [Beat(response.ms / 1000 * self._pace, text)]
        return played(response.status, headers, beats, ending=ending, sleep=self._sleep)

    def _from_stream(self, recorded: Recorded, headers: dict[str, str], ending: Ending, *, stream: bool) -> Reply:
        timeline = list(recorded.timeline(self._moved))
        if stream:
            return self._played(headers | EVENT_STREAM, timeline, ending)
        events = [event for _, event in timeline if isinstance(event, dict)]
        if ending != "done" or not events or events[-1].get("type") != "message_stop":
            raise StreamBroken("the answer that was recorded broke off")
        beat = Beat(recorded.exchange.response.ms / 1000 * self._pace, msgspec.json.encode(fold(events)))
        return played(_OK, headers | JSON, [beat], sleep=self._sleep)

    def _played(self, headers: dict[str, str], timeline: Iterable[tuple[int, Event | str]], ending: Ending) -> Reply:
        return played(_OK, headers, self._beats(timeline), ending=ending, sleep=self._sleep)

    def _beats(self, timeline: Iterable[tuple[int, Event | str]]) -> Iterator[Beat]:
        before = 0
        for at, event in timeline:
            yield Beat(max(0, at - before) / 1000 * self._pace, encode_event(event))
            before = at


def _kind(conversation: str) -> str:
    """A conversation's name without its number: which agent's, and main, sub-agent or side."""
    name, _, number = conversation.rpartition("-")
    return name if number.isdigit() else conversation
