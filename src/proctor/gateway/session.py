"""A gateway session: one attempt's access to the model. It meters, limits, records, and notifies the runner."""

import asyncio
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from proctor.core.causes import Cause
from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.gateway.backend import (
    GatewaySessionSpec,
    IncomingRequest,
    RecordingGate,
    RecordingLost,
    RequestRefused,
    Responder,
)
from proctor.gateway.budget import BudgetReservation
from proctor.gateway.dialects.base import BUDGET_STATUS, CLOSED_STATUS, FINAL_STATUS, Dialect
from proctor.gateway.events import BudgetLimitHit, ExchangeFinished, GatewayEvent, GatewayFailure, ReplayDivergence
from proctor.gateway.meter import ExchangeOutcome, GatewayUsage, Meter
from proctor.gateway.model_call import ConversationNames, ModelCall, Role
from proctor.gateway.prices import Prices, canonical_model
from proctor.gateway.recorder import Clock, Recorder, format_timestamp, utc_now
from proctor.gateway.recording import RecordingHeader
from proctor.gateway.redact import CREDENTIAL_HEADERS, Redactor
from proctor.gateway.server_tools import is_remote_work
from proctor.gateway.sync_queue import SyncQueue

# How long a response that is already complete may take to be sent when its session closes.
GRACE_SECONDS: Final = 1.0
MAX_LOGINS: Final = 100
_LOGIN: Final = re.compile(r"(?:Bearer )?([A-Za-z0-9._~+/=-]{16,})")

GatewayEventCallback = Callable[[GatewayEvent], None]


class GatewayRefusal(Record):
    """A final error of the gateway's own.

    Attributes:
        web: because of a tool that the provider executes.
        request: because of something else that the request asks for.

    `status` is that of the Messages API; each dialect has its own: `Dialect.refusal_status`.
    """

    status: int
    kind: str
    message: str
    web: bool = False
    request: bool = False


SESSION_CLOSED: Final = GatewayRefusal(
    status=CLOSED_STATUS, kind="permission_error", message="session_closed: this attempt has ended"
)
RECORDING_LOST: Final = GatewayRefusal(
    status=FINAL_STATUS, kind="api_error", message="recording_lost: the request was not sent, as it cannot be recorded"
)


class GatewaySession:
    """One attempt's access to the model.

    Attributes:
        path: the end of the agent's base URL; it cannot be guessed.
        limit: the limit that ended the session, if one has.
        failure: the first failure that the agent did not cause.
        divergence: the first request that a replay or a script had no response to.
        gate: where the recording is copied to; None where it is not.
    """

    def __init__(
        self,
        spec: GatewaySessionSpec,
        *,
        backend: str,
        responder: Responder,
        reservation: BudgetReservation,
        prices: Prices,
        redactor: Redactor,
        syncs: SyncQueue,
        allow_unpriced: bool = False,
        on_event: GatewayEventCallback | None = None,
        gate: RecordingGate | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.spec = spec
        self.token = secrets.token_urlsafe(24)
        self.path = f"/t/{self.token}"
        self.responder = responder
        self.closed = False
        self.limit: BudgetLimitHit | None = None
        self.failure: GatewayFailure | None = None
        self.divergence: ReplayDivergence | None = None
        self.tasks: set[asyncio.Task[object]] = set()
        self._reservation = reservation
        self._prices = prices
        self._syncs = syncs
        self.meter = Meter(prices)
        self._conversations = ConversationNames()
        self._allow_unpriced = allow_unpriced
        self._on_event = on_event
        self.gate = gate
        self._logins: set[str] = set()
        self._redactor = redactor
        redactor.add(self.token)
        self.recorder: Recorder | None = None
        if spec.recording is not None:
            header = RecordingHeader(
                task_id=spec.task_id,
                label=spec.label,
                backend=backend,
                created_at=format_timestamp(clock()),
                values=spec.values,
            )
            self.recorder = Recorder(spec.recording, header, redactor, clock=clock)

    @property
    def usage(self) -> GatewayUsage:
        """What has been used so far."""
        return self.meter.snapshot()

    @property
    def spent_usd(self) -> float:
        """What has been charged in this session."""
        return self._reservation.spent_usd - self.spec.spent_usd

    @property
    def ended(self) -> bool:
        """Whether all further requests are refused."""
        return self.closed or self.limit is not None

    def pin_model(self, call: ModelCall) -> ModelCall:
        """The request, to the run's model: programs ask others for titles, or to choose a model."""
        model = self.spec.model
        if model is None or canonical_model(call.model) == canonical_model(model):
            return call
        self.meter.add_pinned(call.model)
        return call.dialect.with_model(call, model)

    def request_refusal(self, call: ModelCall) -> GatewayRefusal | None:
        """Why this request is refused, whatever was spent: for what it asks for."""
        if call.unsupported:
            wanted = ", ".join(call.unsupported)
            self.meter.add_unsupported(call.unsupported)
            message = f"not_supported: the gateway can neither meter nor record this: {wanted}; leave it out"
            return GatewayRefusal(status=FINAL_STATUS, kind="invalid_request_error", message=message, request=True)
        if not call.server_tools:
            return None
        if not self.spec.web:
            return _web_refusal(", ".join(call.server_tools[:3]))
        priced = call.dialect.priced_tools
        unpriced = [] if priced is None else [name for name in call.server_tools if name not in priced]
        if not unpriced:
            return None
        message = f"tool_without_price: what the provider charges for this is not known: {', '.join(unpriced[:3])}"
        return GatewayRefusal(status=FINAL_STATUS, kind="invalid_request_error", message=message, web=True)

    def remote_work_refusal(self, incoming: IncomingRequest) -> GatewayRefusal | None:
        """Why this request, which is none to a model, is refused: the provider would work by itself, with its tools."""
        if self.spec.web or not is_remote_work(incoming.method, incoming.path):
            return None
        return _web_refusal(f"{incoming.method} {incoming.path.partition('?')[0]}")

    def refusal(self, call: ModelCall | None = None) -> GatewayRefusal | None:
        """Why the next request is refused, if it is. After a limit is reached, all are."""
        if self.closed:
            return SESSION_CLOSED
        if self.limit is None:
            spent = self._reservation.exhausted_budget()
            if spent is not None:
                whose = "task" if spent.cause is Cause.TASK_BUDGET else "run"
                amounts = f"${spent.value_usd:.6g} of ${spent.limit_usd:.6g}"
                self._reach_limit(spent.cause, f"budget_exhausted: the {whose}'s budget is spent ({amounts})")
            elif call is not None and self._turns_are_used_up(call):
                message = f"turn_limit: the limit of {self.spec.max_turns} turns is reached"
                self._reach_limit(Cause.TURN_LIMIT, message)
            elif call is not None and not self._prices.has_price(call.model):
                self._check_unpriced(call.model)
        if self.limit is None:
            return None
        return GatewayRefusal(status=BUDGET_STATUS, kind="billing_error", message=self.limit.message)

    def record_refusal(self, refusal: GatewayRefusal, conversation: str, dialect: Dialect) -> None:
        """Count and record a request that was refused."""
        if not refusal.request:
            self.meter.add_refusal(web=refusal.web)
        status = self.refusal_status(refusal, dialect)
        self.record(lambda recorder: recorder.write_refusal(conversation, status, refusal.message))

    def refusal_status(self, refusal: GatewayRefusal, dialect: Dialect) -> int:
        """The status of a refusal: that which the agent's program takes as final, or its dialect's."""
        own = self.spec.refusal_status
        return dialect.refusal_status(refusal.status) if own is None else own

    def redact_login(self, headers: Mapping[str, str]) -> None:
        """Remember the agent's own login as a secret."""
        for name in CREDENTIAL_HEADERS:
            login = _LOGIN.fullmatch(headers.get(name, ""))
            # All that is recorded is searched for each secret, so an agent must not be able to add many.
            if login is not None and len(self._logins) < MAX_LOGINS:
                self._logins.add(login[1])
                self._redactor.add(login[1])

    def conversation_name(self, call: ModelCall) -> str:
        """The name of the conversation that a request belongs to."""
        return self._conversations.name(call)

    def report_failure(self, failure: GatewayFailure) -> None:
        """Report a failure; the first is kept."""
        self.failure = self.failure or failure
        self._emit(failure)

    def report_divergence(self, divergence: ReplayDivergence) -> None:
        """Report a request that a replay or a script has no response to; the first is kept."""
        self.divergence = self.divergence or divergence
        self._emit(divergence)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Refuse requests for the length of the block: what an agent has left running is not to ask the model then."""
        was, self.closed = self.closed, True
        try:
            yield
        finally:
            self.closed = was

    async def close(self) -> None:
        """Refuse further requests, cancel the current ones, and release what was not spent."""
        self.closed = True
        running = self.tasks - {asyncio.current_task()}
        try:
            if running:
                await asyncio.wait(running, timeout=GRACE_SECONDS)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._reservation.release()
            if self.recorder is not None:
                recorder, self.recorder = self.recorder, None
                await self._syncs.run(recorder.close)

    def _reach_limit(self, cause: Cause, message: str) -> None:
        if self.limit is None:
            self.limit = BudgetLimitHit(cause=cause, message=message)
            self._emit(self.limit)

    def _turns_are_used_up(self, call: ModelCall) -> bool:
        limit = self.spec.max_turns
        return limit is not None and call.role is Role.MAIN and self.meter.whole_turns >= limit

    def _check_unpriced(self, model: str, mode: str | None = None) -> None:
        if self._reservation.has_limit and not self._allow_unpriced:
            what = f"{model} in the mode {mode!r}" if mode is not None and self._prices.has_price(model) else model
            self._reach_limit(
                Cause.RUN_BUDGET,
                f"model_without_price: no price is known for {what}, so no budget can be kept;"
                " add it to a price table or allow models without a price",
            )

    def _emit(self, event: GatewayEvent) -> None:
        if self._on_event is not None:
            # Not directly: the callback must neither delay nor break a response.
            asyncio.get_running_loop().call_soon(self._on_event, event)

    def record(self, write: Callable[[Recorder], None]) -> None:
        """Record something. A full disk ends the recording and is reported; the response continues."""
        if self.recorder is None:
            return
        try:
            write(self.recorder)
            if self.gate is not None:
                self.gate.written(self.recorder.size)
        except OSError as error:
            self._lose_recording(self.recorder, error)

    def mark(self, write: Callable[[Recorder], None]) -> None:
        """Record something without which a request may not be sent.

        Raises:
            RecordingLost: the recording cannot be written, now or since an earlier time.
        """
        self.record(write)
        if self.recorder is None:
            raise RecordingLost

    async def sync_marks(self) -> None:
        """Return when all that was recorded would survive a power cut: here, or where it is copied to.

        Raises:
            RecordingLost: it cannot be synced.
            RequestRefused: there is a copy, and nothing may be sent any more; others spend of the budget as well.
        """
        recorder = self.recorder
        if recorder is None:
            raise RecordingLost
        if self.gate is not None:
            await self.gate.wait_for_copy(recorder.size)
            if self.refusal() is not None:
                raise RequestRefused
            return
        try:
            await self._syncs.sync(recorder)
        except OSError as error:
            self._lose_recording(recorder, error)
            raise RecordingLost from error

    def _lose_recording(self, recorder: Recorder, error: OSError) -> None:
        self.recorder = None
        message = f"the recording {recorder.path} cannot be written: {error.strerror}"
        self.report_failure(GatewayFailure(cause=Cause.DISK_FULL, message=message))

    def finish_exchange(self, outcome: ExchangeOutcome, seconds: float, cut: str | None) -> None:
        """Count an exchange that has ended, and charge it."""
        self.meter.add(outcome)
        cost, known = outcome.cost_usd, outcome.usages
        if cost is None:
            # What a response used that does not say it is unknown; a budget is charged the upper estimate.
            known = tuple(msgspec.structs.replace(usage, unknown=False) for usage in outcome.usages)
            cost = self.meter.cost(known)
        if cost is None:
            unpriced = next(usage for usage in known if self.meter.cost((usage,)) is None)
            self._check_unpriced(unpriced.model, unpriced.speed)
        else:
            self._reservation.charge(cost)
        self._emit(
            ExchangeFinished(
                conversation=outcome.conversation,
                role=outcome.role,
                model=outcome.model,
                status=outcome.status,
                seconds=seconds,
                tokens=sum((usage.tokens for usage in outcome.usages), Tokens()),
                cost_usd=outcome.cost_usd,
                cut=cut,
                malformed=outcome.malformed,
            )
        )
        # Notifies the runner at once when this response has used up a budget. What is replayed uses nothing, and a
        # trial whose budget was spent before may replay all that it has paid for.
        if outcome.usages:
            self.refusal()


def _web_refusal(wanted: str) -> GatewayRefusal:
    message = f"web_not_allowed: this run, without --web, does not allow what the provider would execute: {wanted}"
    return GatewayRefusal(status=FINAL_STATUS, kind="invalid_request_error", message=message, web=True)
