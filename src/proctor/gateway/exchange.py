"""One request that was let through, until its answer has ended: what is read off it, counted and written down."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from proctor.gateway.cassette import Exchange as CassetteLine
from proctor.gateway.classify import Call
from proctor.gateway.meter import Outcome, UsageTally
from proctor.gateway.recorder import Entry, Prepared, Recorder, Tape, stamp
from proctor.gateway.session import Session
from proctor.gateway.tap import BodyTap, StreamTap

# What a client acts upon, or a person needs to ask the provider about an answer.
RECORDED_HEADERS: Final = frozenset({"content-type", "request-id", "retry-after", "x-should-retry"})
# To take a long request down takes a while. It is done while the model thinks; where it answers sooner than this,
# when the first of the answer has been passed on.
THINKING_SECONDS: Final = 0.02


class Exchange:
    """One request and its answer."""

    def __init__(self, session: Session, call: Call, conversation: str) -> None:
        self._session = session
        self._conversation = conversation
        self._role = call.role
        self._agent = call.agent
        self._tally = UsageTally(call.model)
        self._started = time.perf_counter()
        self._prepared: Prepared | None = None
        self._to_prepare: tuple[Entry, Call, asyncio.TimerHandle] | None = None
        self._tape: Tape | None = None
        self._stream: StreamTap | None = None
        self._body: BodyTap | None = None
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._errors: tuple[int, ...] = ()
        self._paid = False
        if session.recorder is not None:
            timer = asyncio.get_running_loop().call_later(THINKING_SECONDS, self._prepare)
            self._to_prepare = session.recorder.enter(), call, timer

    def answered(self, status: int, headers: Mapping[str, str], errors: tuple[int, ...], *, paid: bool) -> None:
        """The first of the answer has come."""
        self._paid = paid
        self._status = status
        self._headers = {name: value for name, value in headers.items() if name in RECORDED_HEADERS}
        self._errors = errors
        if headers.get("content-type", "").startswith("text/event-stream"):
            recorder = self._session.recorder
            self._tape = recorder.tape() if recorder is not None else None
            self._stream = StreamTap(self._tally, None if self._tape is None else self._note)
        else:
            self._body = BodyTap(self._tally)

    def passed(self, chunk: bytes) -> None:
        """Some of the answer has been passed on."""
        self._prepare()
        if self._stream is not None:
            self._stream.feed(chunk, self._ms())
        elif self._body is not None:
            self._body.feed(chunk)

    def end(self, cut: str | None) -> None:
        """The answer has ended, or broken off for the given reason. Blocks, so that nothing can come between."""
        if self._stream is not None:
            if self._stream.finished:
                cut = None
            elif cut is None:
                cut = self._stream.error or "the stream ended too early"
        self._prepare()
        body = self._body.end() if self._body is not None else b""
        usages = () if self._paid else self._tally.total()
        outcome = Outcome(
            conversation=self._conversation,
            role=self._role,
            agent=self._agent,
            model=self._tally.model,
            status=self._status,
            usages=usages,
            cost_usd=self._session.meter.cost(usages),
            cut=cut is not None,
            errors=self._errors,
        )
        self._session.keep(lambda recorder: self._write(recorder, outcome, cut, body))
        self._session.finish(outcome, time.perf_counter() - self._started, cut)
        if self._tape is not None:
            self._tape.close()

    def _prepare(self) -> None:
        """Take down the request, unless that has been done."""
        if self._to_prepare is None:
            return
        (entry, call, timer), self._to_prepare = self._to_prepare, None
        timer.cancel()

        def note(recorder: Recorder) -> None:
            self._prepared = recorder.prepare(entry, call, self._conversation)

        self._session.keep(note)

    def _note(self, payload: bytes, at_ms: int) -> None:
        if (tape := self._tape) is not None:
            self._session.keep(lambda _: tape.event(payload, at_ms))

    def _ms(self) -> int:
        return int((time.perf_counter() - self._started) * 1000)

    def _write(self, recorder: Recorder, outcome: Outcome, cut: str | None, body: bytes) -> None:
        if self._prepared is None:
            return
        line = CassetteLine(
            number=self._prepared.entry.number,
            conversation=self._conversation,
            role=self._role,
            agent=self._agent,
            at=stamp(self._prepared.entry.at),
            request=self._prepared.request,
            response=recorder.response(self._status, self._headers, self._ms(), body, cut),
            usage=outcome.usages,
            cost_usd=outcome.cost_usd,
            errors=self._errors,
            paid=self._paid,
        )
        recorder.write(line, self._prepared, self._tape)
