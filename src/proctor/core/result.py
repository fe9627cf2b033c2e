"""What is recorded of a task: the verdict, what it cost, and every attempt that led to it."""

from collections.abc import Iterable
from typing import Literal

from msgspec import field

from proctor.core.causes import Cause, Status
from proctor.core.machine import Machine
from proctor.core.record import Record
from proctor.core.verdict import Verdict


class Tokens(Record):
    """Tokens by the classes that are priced apart; `reasoning` is a part of `output`, where it is known."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """All tokens of all classes."""
        return self.input + self.output + self.cache_read + self.cache_write_5m + self.cache_write_1h

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write_5m=self.cache_write_5m + other.cache_write_5m,
            cache_write_1h=self.cache_write_1h + other.cache_write_1h,
            reasoning=self.reasoning + other.reasoning,
        )


class ModelUsage(Record):
    """The usage of one model; cost is None when no price is known for it, never zero.

    Attributes:
        estimated_requests: those of the requests whose tokens the provider did not report to the end, because the
            response broke off or never came; what they used is an upper estimate.
        estimated_usd: their part of the cost, as far as prices are known.
    """

    model: str
    requests: int
    tokens: Tokens
    cost_usd: float | None
    estimated_requests: int = 0
    estimated_usd: float = 0.0


def sum_costs(costs: Iterable[float | None]) -> float | None:
    """The sum of costs in US dollars; None when one of them is unknown."""
    total = 0.0
    for cost in costs:
        if cost is None:
            return None
        total += cost
    return round(total, 12)  # far below the price of a token: drops the noise of binary fractions


def usage_cost(usage: Iterable[ModelUsage]) -> float | None:
    """What several models cost together; None when one of the costs is unknown."""
    return sum_costs(model.cost_usd for model in usage)


def estimated_cost(usage: Iterable[ModelUsage]) -> float:
    """The part of the cost of several models that is an estimate, as far as prices are known."""
    return round(sum(model.estimated_usd for model in usage), 12)


def sum_usage(usages: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """The usage of several attempts or steps, by model."""
    found: dict[str, ModelUsage] = {}
    for usage in usages:
        known = found.get(usage.model)
        if known is None:
            found[usage.model] = usage
            continue
        found[usage.model] = ModelUsage(
            model=usage.model,
            requests=known.requests + usage.requests,
            tokens=known.tokens + usage.tokens,
            cost_usd=sum_costs((known.cost_usd, usage.cost_usd)),
            estimated_requests=known.estimated_requests + usage.estimated_requests,
            estimated_usd=round(known.estimated_usd + usage.estimated_usd, 12),
        )
    return tuple(found[model] for model in sorted(found))


class Member(Record):
    """One agent of those that worked on a task, by the gateway's meter and the clock of its own program.

    Attributes:
        messages: how many it sent to others.
    """

    name: str
    role: str = ""
    usage: tuple[ModelUsage, ...] = ()
    active_seconds: float = 0.0
    idle_seconds: float = 0.0
    turns: int = 0
    compactions: int = 0
    messages: int = 0


class AgentMetrics(Record):
    """How one agent, or a whole pod, spent its time.

    Attributes:
        active_share: share of the wall clock in which agents were active, between 0 and 1.
    """

    agents: int = 1
    turns: int = 0
    steps: int = 0
    compactions: int = 0
    context_resets: int = 0
    messages: int = 0
    active_share: float | None = None
    members: tuple[Member, ...] = ()


class WebUse(Record):
    """Whether an agent had tools that the provider executes, such as its web search, and how often it wanted them.

    Attributes:
        allowed: the run allows them.
        refused: requests that were refused because they wanted such a tool.
        searches: web searches that the provider made and charged for.
    """

    allowed: bool
    refused: int = 0
    searches: int = 0


class AlteredRequests(Record):
    """Requests of an agent that the gateway did not send as they were.

    Attributes:
        pinned: those to another model than the run's, which were sent to the run's, by the model that was asked for.
        refused: those that asked for what can neither be metered nor be recorded, by what it was.
        dropped: those that were sent without something that they asked for, by what it was.
    """

    pinned: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)


class Attempt(Record):
    """One attempt at a trial. Failed attempts stay recorded, with what they cost.

    Attributes:
        node: the node of a cluster that it was made on, and its `machine`; empty on one machine.
    """

    number: int
    started_at: str
    ended_at: str
    cause: Cause
    detail: str
    logs: str
    usage: tuple[ModelUsage, ...] = ()
    node: str = ""
    machine: Machine | None = None


class StepResult(Record):
    """One step of a task that has several: how the agent ended it, and what it took.

    Attributes:
        cause: why the agent ended, when it did not simply finish.
        verify_seconds: how long its verifier took, where it ran before the next step.
    """

    name: str
    seconds: float
    usage: tuple[ModelUsage, ...] = ()
    cause: Cause | None = None
    detail: str = ""
    verify_seconds: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """What it cost; None where that is not known."""
        return usage_cost(self.usage)


class TaskResult(Record):
    """The outcome of one trial of a task in one run.

    Attributes:
        steps: of the attempt that counts, for a task that has several.
        web: of the attempt that counts; None where no gateway was between the agent and its model.
        altered: likewise; None where all requests were sent as they were.
    """

    run_id: str
    benchmark: str
    task_id: str
    trial: int
    status: Status
    cause: Cause
    verdict: Verdict | None
    attempts: tuple[Attempt, ...]
    usage: tuple[ModelUsage, ...]
    metrics: AgentMetrics
    agent_seconds: float
    grade_seconds: float
    categories: dict[str, str]
    web: WebUse | None = None
    altered: AlteredRequests | None = None
    steps: tuple[StepResult, ...] = ()
    schema_version: Literal["proctor.task_result@2"] = "proctor.task_result@2"

    @property
    def reason(self) -> str:
        """Why it ended as it did, on one line: as the verdict says, or else as the last attempt does."""
        last = self.attempts[-1].detail if self.attempts else ""
        return " ".join((self.verdict.reason if self.verdict is not None else last).split())
