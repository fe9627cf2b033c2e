"""One model request and its response: leaves its mark, reads its usage, counts it, and records it."""

import asyncio
import time
from http import HTTPStatus
from typing import Final

import msgspec

from proctor.gateway.backend import BackendReply, SendObserver
from proctor.gateway.estimates import unreported_usage, unseen_tokens
from proctor.gateway.meter import ExchangeOutcome, UsageAccumulator
from proctor.gateway.model_call import ModelCall
from proctor.gateway.prices import Usage
from proctor.gateway.recorder import EventBuffer, ExchangeStart, PreparedRequest, Recorder, format_timestamp
from proctor.gateway.recording import RecordedExchange, RecordedMark
from proctor.gateway.session import GatewaySession
from proctor.gateway.stream_reader import BodyReader, EventStreamReader

# What clients act upon, and the id for questions to the provider.
RECORDED_HEADERS: Final = frozenset({"content-type", "request-id", "retry-after", "x-should-retry"})
# Preparing a long request for the recording takes a while. It is done while the model works; where the response comes
# sooner than this, after its first bytes have been relayed.
PREPARE_DELAY_SECONDS: Final = 0.02


class ExchangeTracker(SendObserver):
    """One request and its response.

    A request that leaves this machine leaves a mark in the recording before, with what it uses at most: if this process
    is killed meanwhile, nothing else is known of it. As the response arrives, the mark is written anew: with the
    provider's own count of the input, and with more output each time that what has arrived comes near to it.
    """

    def __init__(self, session: GatewaySession, call: ModelCall, conversation: str) -> None:
        self._session = session
        self._conversation = conversation
        self._dialect = call.dialect
        self._role = call.role
        self._agent = call.agent
        self._usage = UsageAccumulator(call.model, call.speed)
        self._started = time.perf_counter()
        self._prepared: PreparedRequest | None = None
        self._to_prepare: tuple[ExchangeStart, ModelCall, asyncio.TimerHandle] | None = None
        self._event_buffer: EventBuffer | None = None
        self._stream: EventStreamReader | None = None
        self._body: BodyReader | None = None
        self._is_unread = False
        self._status: int | None = None
        self._provider_status: int | None = None
        self._headers: dict[str, str] = {}
        self._errors: tuple[int, ...] = ()
        self._paid = False
        self._to_estimate: ModelCall | None = call
        self._estimate: Usage | None = None
        self._under_way = False
        self._lost_tries = 0
        self._unseen_tokens = unseen_tokens(stream=call.stream)
        self._marked: tuple[Usage, ...] = ()
        self._marked_tokens = 0
        self._start: ExchangeStart | None = None
        if session.recorder is not None:
            timer = asyncio.get_running_loop().call_later(PREPARE_DELAY_SECONDS, self._prepare_request)
            self._start = session.recorder.start_exchange()
            self._to_prepare = self._start, call, timer

    async def before_send(self) -> None:
        """Leave a synced mark, unless there is the same one from an earlier try; a gate is asked before every try."""
        is_new = False
        if self._session.spec.recording is not None:
            usages = (self._unanswered,) * (self._lost_tries + 1)
            is_new = usages != self._marked
            if is_new:
                self._session.mark(lambda recorder: self._write_mark(recorder, usages))
        if is_new or self._session.gate is not None:
            await self._session.sync_marks()
        self._under_way = True

    async def before_resend(self) -> None:
        """Mark one more."""
        self.request_failed(sent=True)
        await self.before_send()

    def request_failed(self, *, sent: bool) -> None:
        """A try whose connection broke may have arrived, and may have been charged for."""
        self._under_way = False
        self._lost_tries += sent

    def response_received(self, *, error: bool) -> None:
        """Errors cost nothing."""
        self._under_way = not error

    def start_response(self, reply: BackendReply) -> None:
        """The head of the response has arrived."""
        headers = reply.headers
        self._paid = reply.paid
        self._status = reply.status
        self._provider_status = reply.provider_status
        self._headers = {name: value for name, value in headers.items() if name in RECORDED_HEADERS}
        self._errors = reply.errors
        self._is_unread = True
        self._usage.speed = self._dialect.served_speed(headers, self._usage.speed)

    def _open_reader(self) -> None:
        """Read what will be relayed; not before the first of it has been."""
        self._is_unread = False
        if self._headers.get("content-type", "").lower().startswith("text/event-stream"):
            recorder = self._session.recorder
            self._event_buffer = recorder.new_event_buffer(self._dialect) if recorder is not None else None
            self._stream = EventStreamReader(
                self._dialect, self._usage, None if self._event_buffer is None else self._record_event
            )
        else:
            self._body = BodyReader(self._dialect, self._usage)

    def feed_chunk(self, chunk: bytes) -> None:
        """Some of the response has been relayed."""
        if self._is_unread:
            self._open_reader()
            self._prepare_request()
            _ = self._unanswered  # now that the client has its first bytes
        if self._stream is not None:
            self._stream.feed(chunk, self._elapsed_ms())
        elif self._body is not None:
            self._body.feed(chunk)
        if self._marked and self._usage.has_usage and self._usage.unreported_bytes >= self._marked_tokens:
            self._session.record(self._write_progress)

    @property
    def _unanswered(self) -> Usage:
        """What the request has used if there is no response; the request itself is not kept for it."""
        if self._estimate is None and self._to_estimate is not None:
            self._estimate, self._to_estimate = unreported_usage(self._to_estimate), None
        assert self._estimate is not None  # noqa: S101 - of the two, there is always one
        return self._estimate

    def finish(self, cut: str | None) -> None:
        """The response has ended, or broken off for the given reason. Synchronous, so that nothing comes in between."""
        if self._is_unread:
            self._open_reader()
        if self._stream is not None:
            self._stream.finish(self._elapsed_ms())
            events = self._stream.events
            if events.error is not None:
                cut = cut or events.error
            elif events.finished:
                cut = None
            elif cut is None and not events.may_end:
                cut = "the stream ended too early"
        self._prepare_request()
        body = self._body.finish() if self._body is not None else b""
        is_message = cut is None if self._body is None else self._body.is_message
        usages = () if self._paid else self._used(cut, is_whole=cut is None and is_message)
        # What a proxy on the way, or a broken server, sends with 200 is recorded as it is and counts as broken off.
        is_garbage = cut is None and not is_message and self._status == HTTPStatus.OK
        failure = "it was no message of a model" if is_garbage else cut
        outcome = ExchangeOutcome(
            conversation=self._conversation,
            role=self._role,
            agent=self._agent,
            model=self._usage.model,
            status=self._status if self._provider_status is None else self._provider_status,
            usages=usages,
            cost_usd=self._session.meter.cost(usages),
            cut=failure is not None,
            errors=self._errors,
            malformed=0 if self._stream is None else self._stream.events.malformed,
        )
        self._session.record(lambda recorder: self._write(recorder, outcome, cut, body))
        self._session.finish_exchange(outcome, time.perf_counter() - self._started, failure)
        if self._event_buffer is not None:
            self._event_buffer.close()

    def _used(self, cut: str | None, *, is_whole: bool) -> tuple[Usage, ...]:
        """What the provider reported; estimates of what it did not, of every try that may have arrived there.

        A whole message that does not say what it used, or not after the last of its text, has used nobody knows how
        much.
        """
        unknown = is_whole and self._status == HTTPStatus.OK
        is_partial = unknown and self._usage.is_partial
        reported = self._usage.total(self._usage.unreported_bytes if cut is not None or is_partial else None)
        lost = (self._unanswered,) * self._lost_tries
        if is_partial:
            first, *others = reported
            return (*lost, msgspec.structs.replace(first, unknown=True), *others)
        if reported or not (self._under_way or unknown) or (self._is_foreign_page and not unknown):
            return (*lost, *reported)
        output = max(self._unanswered.tokens.output, self._usage.unreported_bytes)
        tokens = msgspec.structs.replace(self._unanswered.tokens, output=output)
        return (*lost, msgspec.structs.replace(self._unanswered, tokens=tokens, unknown=unknown))

    @property
    def _is_foreign_page(self) -> bool:
        """Whether it is no response of a model, but for instance the page of a proxy on the way."""
        kind = self._headers.get("content-type", "")
        return self._status is not None and self._stream is None and "json" not in kind

    def _write_mark(self, recorder: Recorder, usages: tuple[Usage, ...]) -> None:
        if self._start is None:
            return
        self._marked = usages
        recorder.write_mark(
            RecordedMark(
                number=self._start.number,
                conversation=self._conversation,
                role=self._role,
                agent=self._agent,
                at=format_timestamp(self._start.at),
                usage=usages,
                cost_usd=self._session.meter.cost(usages),
            )
        )

    def _write_progress(self, recorder: Recorder) -> None:
        """Mark twice as much output as has arrived, so that few marks are enough for a response of any length."""
        self._marked_tokens = self._unseen_tokens + 2 * self._usage.unreported_bytes
        usages = self._usage.total(self._marked_tokens)
        self._write_mark(recorder, ((self._unanswered,) * self._lost_tries) + usages)

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
