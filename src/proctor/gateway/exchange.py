"""One request that was let through, until its answer has ended: what is read off it, counted and written down."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from proctor.gateway.meter import ExchangeOutcome, UsageAccumulator
from proctor.gateway.model_call import ModelCall
from proctor.gateway.recorder import EventBuffer, ExchangeStart, PreparedRequest, Recorder, format_timestamp
from proctor.gateway.recording import RecordedExchange as CassetteLine
from proctor.gateway.session import GatewaySession
from proctor.gateway.stream_reader import BodyReader, EventStreamReader

# What a client acts upon, or a person needs to ask the provider about an answer.
RECORDED_HEADERS: Final = frozenset({"content-type", "request-id", "retry-after", "x-should-retry"})
# To take a long request down takes a while. It is done while the model thinks; where it answers sooner than this,
# when the first of the answer has been passed on.
PREPARE_DELAY_SECONDS: Final = 0.02


class ExchangeTracker:
    """One request and its answer."""

    def __init__(self, session: GatewaySession, call: ModelCall, conversation: str) -> None:
        self._session = session
        self._conversation = conversation
        self._role = call.role
        self._agent = call.agent
        self._tally = UsageAccumulator(call.model)
        self._started = time.perf_counter()
        self._prepared: PreparedRequest | None = None
        self._to_prepare: tuple[ExchangeStart, ModelCall, asyncio.TimerHandle] | None = None
        self._event_buffer: EventBuffer | None = None
        self._stream: EventStreamReader | None = None
        self._body: BodyReader | None = None
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._errors: tuple[int, ...] = ()
        self._paid = False
        if session.recorder is not None:
            timer = asyncio.get_running_loop().call_later(PREPARE_DELAY_SECONDS, self._prepare_request)
            self._to_prepare = session.recorder.start_exchange(), call, timer

    def start_response(self, status: int, headers: Mapping[str, str], errors: tuple[int, ...], *, paid: bool) -> None:
        """The first of the answer has come."""
        self._paid = paid
        self._status = status
        self._headers = {name: value for name, value in headers.items() if name in RECORDED_HEADERS}
        self._errors = errors
        if headers.get("content-type", "").startswith("text/event-stream"):
            recorder = self._session.recorder
            self._event_buffer = recorder.new_event_buffer() if recorder is not None else None
            self._stream = EventStreamReader(self._tally, None if self._event_buffer is None else self._record_event)
        else:
            self._body = BodyReader(self._tally)

    def feed_chunk(self, chunk: bytes) -> None:
        """Some of the answer has been passed on."""
        self._prepare_request()
        if self._stream is not None:
            self._stream.feed(chunk, self._elapsed_ms())
        elif self._body is not None:
            self._body.feed(chunk)

    def finish(self, cut: str | None) -> None:
        """The answer has ended, or broken off for the given reason. Blocks, so that nothing can come between."""
        if self._stream is not None:
            if self._stream.finished:
                cut = None
            elif cut is None:
                cut = self._stream.error or "the stream ended too early"
        self._prepare_request()
        body = self._body.finish() if self._body is not None else b""
        usages = () if self._paid else self._tally.total()
        outcome = ExchangeOutcome(
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
        self._session.record(lambda recorder: self._write(recorder, outcome, cut, body))
        self._session.finish_exchange(outcome, time.perf_counter() - self._started, cut)
        if self._event_buffer is not None:
            self._event_buffer.close()

    def _prepare_request(self) -> None:
        """Take down the request, unless that has been done."""
        if self._to_prepare is None:
            return
        (entry, call, timer), self._to_prepare = self._to_prepare, None
        timer.cancel()

        def note(recorder: Recorder) -> None:
            self._prepared = recorder.prepare_request(entry, call, self._conversation)

        self._session.record(note)

    def _record_event(self, payload: bytes, at_ms: int) -> None:
        if (tape := self._event_buffer) is not None:
            self._session.record(lambda _: tape.add(payload, at_ms))

    def _elapsed_ms(self) -> int:
        return int((time.perf_counter() - self._started) * 1000)

    def _write(self, recorder: Recorder, outcome: ExchangeOutcome, cut: str | None, body: bytes) -> None:
        if self._prepared is None:
            return
        line = CassetteLine(
            number=self._prepared.start.number,
            conversation=self._conversation,
            role=self._role,
            agent=self._agent,
            at=format_timestamp(self._prepared.start.at),
            request=self._prepared.request,
            response=recorder.make_response(self._status, self._headers, self._elapsed_ms(), body, cut),
            usage=outcome.usages,
            cost_usd=outcome.cost_usd,
            errors=self._errors,
            paid=self._paid,
        )
        recorder.write_exchange(line, self._prepared, self._event_buffer)
