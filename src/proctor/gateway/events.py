"""The events that a session reports to the runner."""

from proctor.core.causes import Cause
from proctor.core.record import Record
from proctor.core.result import Tokens
from proctor.gateway.model_call import Role


class ExchangeFinished(Record):
    """One exchange has ended, with or without an error; for live progress.

    Attributes:
        status: None when there was no response.
        cut: why the response broke off.
        malformed: how many events of its stream were no JSON.
    """

    conversation: str
    role: Role
    model: str
    status: int | None
    seconds: float
    tokens: Tokens = Tokens()
    cost_usd: float | None = None
    cut: str | None = None
    malformed: int = 0


class BudgetLimitHit(Record):
    """The session refuses all further requests: stop the agent.

    `cause` is TASK_BUDGET or RUN_BUDGET; the latter also when a model without a price is used under a budget.
    """

    cause: Cause
    message: str


class GatewayFailure(Record):
    """A failure that the agent did not cause: of the provider, of the login, or of the recording."""

    cause: Cause
    message: str
    status: int | None = None


class ReplayDivergence(Record):
    """A request that the recording does not contain, or for which the script has no step left."""

    conversation: str
    request: int
    message: str


GatewayEvent = ExchangeFinished | BudgetLimitHit | GatewayFailure | ReplayDivergence
