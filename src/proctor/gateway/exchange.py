"""One model request and its response: reads its usage, counts it, and records it."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

from proctor.gateway.meter import ExchangeOutcome, UsageAccumulator
from proctor.gateway.model_call import ModelCall
from proctor.gateway.recorder import EventBuffer, ExchangeStart, PreparedRequest, Recorder, format_timestamp
from proctor.gateway.recording import RecordedExchange
from proctor.gateway.session import GatewaySession
from proctor.gateway.stream_reader import BodyReader, EventStreamReader

# What clients act upon, and the id for questions to the provider.
RECORDED_HEADERS: Final = frozenset({"content-type", "request-id", "retry-after", "x-should-retry"})
# Preparing a long request for the recording takes a while. It is done while the model works; where the response comes
# sooner than this, after its first bytes have been relayed.
PREPARE_DELAY_SECONDS: Final = 0.02


class ExchangeTracker:
    """One request and its response."""

    def __init__(self, session: GatewaySession, call: ModelCall, conversation: str) -> None:
        self._session = session
        self._conversation = conversation
        self._role = call.role
        self._agent = call.agent
        self._usage = UsageAccumulator(call.model)
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
        """The head of the response has arrived."""
        self._paid = paid
        self._status = status
        self._headers = {name: value for name, value in headers.items() if name in RECORDED_HEADERS}
        self._errors = errors
        if headers.get("content-type", "").startswith("text/event-stream"):
            recorder = self._session.recorder
            self._event_buffer = recorder.new_event_buffer() if recorder is not None else None
            self._stream = EventStreamReader(self._usage, None if self._event_buffer is None else self._record_event)
        else:
            self._body = BodyReader(self._usage)

    def feed_chunk(self, chunk: bytes) -> None:
        """Some of the response has been relayed."""
        self._prepare_request()
        if self._stream is not None:
            self._stream.feed(chunk, self._elapsed_ms())
        elif self._body is not None:
            self._body.feed(chunk)

    def finish(self, cut: str | None) -> None:
        """The response has ended, or broken off for the given reason. Synchronous, so that nothing comes in between."""
        if self._stream is not None:
            if self._stream.finished:
                cut = None
            elif cut is None:
                cut = self._stream.error or "the stream ended too early"
        self._prepare_request()
        body = self._body.finish() if self._body is not None else b""
        usages = () if self._paid else self._usage.total()
        outcome = ExchangeOutcome(
            conversation=self._conversation,
            role=self._role,
            agent=self._agent,
            model=self._usage.model,
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
        """Prepare the request for the recording, unless that has been done."""
        if self._to_prepare is None:
            return
        (start, call, timer), self._to_prepare = self._to_prepare, None
        timer.cancel()

        def prepare(recorder: Recorder) -> None:
            self._prepared = recorder.prepare_request(start, call, self._conversation)

        self._session.record(prepare)

    def _record_event(self, payload: bytes, at_ms: int) -> None:
        if (buffer := self._event_buffer) is not None:
            self._session.record(lambda _: buffer.add(payload, at_ms))

    def _elapsed_ms(self) -> int:
        return int((time.perf_counter() - self._started) * 1000)

    def _write(self, recorder: Recorder, outcome: ExchangeOutcome, cut: str | None, body: bytes) -> None:
        if self._prepared is None:
            return
        exchange = RecordedExchange(
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
        recorder.write_exchange(exchange, self._prepared, self._event_buffer)
