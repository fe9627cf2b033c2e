"""A session: one attempt's way to the model. It counts, limits and records what passes, and tells the runner."""

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping
from typing import Final

from proctor.core.causes import Cause
from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.gateway.backend import Responder, SessionSpec
from proctor.gateway.budget import Account
from proctor.gateway.cassette import Header
from proctor.gateway.classify import Call, Conversations
from proctor.gateway.events import Answered, Diverged, LimitHit, SessionEvent, Trouble
from proctor.gateway.meter import Meter, Outcome, SessionUsage
from proctor.gateway.prices import Prices
from proctor.gateway.recorder import Clock, Recorder, stamp, utc_now
from proctor.gateway.redact import Redactor

# How long an answer that is already complete may take to leave, when its session closes.
GRACE_SECONDS: Final = 1.0
MOST_LOGINS: Final = 100
_LOGIN: Final = re.compile(r"(?:Bearer )?([A-Za-z0-9._~+/=-]{16,})")

Listener = Callable[[SessionEvent], None]


class Refusal(Record):
    """A final answer of the gateway's own."""

    status: int
    kind: str
    message: str


SESSION_CLOSED: Final = Refusal(status=403, kind="permission_error", message="session_closed: this attempt has ended")


class Session:
    """One attempt's way to the model.

    Attributes:
        path: what the agent's base URL ends in; nobody can guess it.
        limit: the limit that ended the session, once one has.
        trouble: the first thing that went wrong and was not the agent's doing.
        diverged: where a replay or a script could not go on.
    """

    def __init__(
        self,
        spec: SessionSpec,
        *,
        backend: str,
        responder: Responder,
        account: Account,
        prices: Prices,
        redactor: Redactor,
        allow_unpriced: bool = False,
        on_event: Listener | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.spec = spec
        self.token = secrets.token_urlsafe(24)
        self.path = f"/t/{self.token}"
        self.responder = responder
        self.closed = False
        self.limit: LimitHit | None = None
        self.trouble: Trouble | None = None
        self.diverged: Diverged | None = None
        self.tasks: set[asyncio.Task[object]] = set()
        self._account = account
        self._prices = prices
        self.meter = Meter(prices)
        self._conversations = Conversations()
        self._allow_unpriced = allow_unpriced
        self._on_event = on_event
        self._logins: set[str] = set()
        self._redactor = redactor
        redactor.add(self.token)
        self.recorder: Recorder | None = None
        if spec.cassette is not None:
            header = Header(
                task_id=spec.task_id, label=spec.label, backend=backend, created_at=stamp(clock()), values=spec.values
            )
            self.recorder = Recorder(spec.cassette, header, redactor, clock=clock)

    def agent_path(self, agent: str) -> str:
        """What the base URL of one named agent of a pod ends in."""
        return f"{self.path}/a/{agent}"

    @property
    def usage(self) -> SessionUsage:
        """What has been used so far."""
        return self.meter.snapshot()

    def refusal(self, model: str | None = None) -> Refusal | None:
        """Why the next request is turned away, if it is. Once a limit is hit, all are."""
        if self.closed:
            return SESSION_CLOSED
        if self.limit is None:
            spent = self._account.exhausted()
            if spent is not None:
                whose = "task" if spent.cause is Cause.TASK_BUDGET else "run"
                amounts = f"${spent.value_usd:.6g} of ${spent.limit_usd:.6g}"
                self._hit(spent.cause, f"budget_exhausted: the {whose}'s budget is spent ({amounts})")
            elif model is not None and not self._prices.knows(model):
                self._unpriced(model)
        if self.limit is None:
            return None
        return Refusal(status=402, kind="billing_error", message=self.limit.message)

    def refuse(self, refusal: Refusal, conversation: str) -> None:
        """Count a request that was turned away."""
        self.meter.refuse()
        self.keep(lambda recorder: recorder.refuse(conversation, refusal.status, refusal.message))

    def learn_login(self, headers: Mapping[str, str]) -> None:
        """Remember the agent's own login as a secret."""
        for name in ("authorization", "x-api-key"):
            login = _LOGIN.fullmatch(headers.get(name, ""))
            # Each secret is looked for in all that is recorded: an agent must not be able to make them many.
            if login is not None and len(self._logins) < MOST_LOGINS:
                self._logins.add(login[1])
                self._redactor.add(login[1])

    def conversation(self, call: Call) -> str:
        """The name of the conversation that a request belongs to."""
        return self._conversations.name(call)

    def fail(self, trouble: Trouble) -> None:
        """Note what went wrong; the first is kept, all are told."""
        self.trouble = self.trouble or trouble
        self._tell(trouble)

    def diverge(self, diverged: Diverged) -> None:
        """Note where a replay or a script could not go on."""
        self.diverged = self.diverged or diverged
        self._tell(diverged)

    async def close(self) -> None:
        """Refuse whatever comes from now on, end what is under way, and give back what was not spent."""
        self.closed = True
        running = self.tasks - {asyncio.current_task()}
        try:
            if running:
                await asyncio.wait(running, timeout=GRACE_SECONDS)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._account.release()
            if self.recorder is not None:
                recorder, self.recorder = self.recorder, None
                await asyncio.to_thread(recorder.close)

    def _hit(self, cause: Cause, message: str) -> None:
        if self.limit is None:
            self.limit = LimitHit(cause=cause, message=message)
            self._tell(self.limit)

    def _unpriced(self, model: str) -> None:
        if self._account.limited and not self._allow_unpriced:
            self._hit(
                Cause.RUN_BUDGET,
                f"model_without_price: no price is known for {model}, so no budget can be kept;"
                " add it to a price table or allow models without a price",
            )

    def _tell(self, event: SessionEvent) -> None:
        if self._on_event is not None:
            # Not from here: what the listener does must neither delay nor break an answer.
            asyncio.get_running_loop().call_soon(self._on_event, event)

    def keep(self, write: Callable[[Recorder], None]) -> None:
        """Record something. A disk that is full ends the recording and is reported; the answer goes on."""
        if self.recorder is None:
            return
        try:
            write(self.recorder)
        except OSError as error:
            recorder, self.recorder = self.recorder, None
            message = f"the cassette {recorder.path} cannot be written: {error.strerror}"
            self.fail(Trouble(cause=Cause.DISK_FULL, message=message))

    def finish(self, outcome: Outcome, seconds: float, cut: str | None) -> None:
        """Count an exchange that has ended, and charge it."""
        self.meter.add(outcome)
        if outcome.cost_usd is None:
            self._unpriced(outcome.model)
        else:
            self._account.charge(outcome.cost_usd)
        self._tell(
            Answered(
                conversation=outcome.conversation,
                role=outcome.role,
                model=outcome.model,
                status=outcome.status,
                seconds=seconds,
                tokens=sum((usage.tokens for usage in outcome.usages), Tokens()),
                cost_usd=outcome.cost_usd,
                cut=cut,
            )
        )
        # Tells the runner at once when this answer was the one that used a budget up.
        self.refusal()
