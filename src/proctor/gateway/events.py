"""What a session tells the runner while it goes on."""

from proctor.core.causes import Cause
from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.gateway.model_call import Role


class ExchangeFinished(Record):
    """One exchange has ended, well or badly; for live progress.

    Attributes:
        status: None when the client was left without an answer.
        cut: why the answer broke off.
    """

    conversation: str
    role: Role
    model: str
    status: int | None
    seconds: float
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    cut: str | None = None


class BudgetLimitHit(Record):
    """The session will answer nothing more: stop the agent.

    `cause` is TASK_BUDGET or RUN_BUDGET; the latter also when a model has no price and a budget must be kept.
    """

    cause: Cause
    message: str


class GatewayFailure(Record):
    """Not the agent's doing: the provider failed for too long, refused the login, or nothing can be recorded."""

    cause: Cause
    message: str
    status: int | None = None


class ReplayDivergence(Record):
    """A replayed session asked for something that was not recorded, or a script has no answer left."""

    conversation: str
    request: int
    message: str


GatewayEvent = ExchangeFinished | BudgetLimitHit | GatewayFailure | ReplayDivergence
