"""What an analysis needs to know of one trial: a stored result without its evidence, which is most of the file."""

from typing import Final, Literal

import msgspec

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, ModelUsage, TaskResult

_GRADED: Final = frozenset({Status.RESOLVED, Status.UNRESOLVED})


class ObservedFinding(Record):
    """What kind of thing an audit found."""

    code: str


class ObservedVerdict(Record):
    """A verdict without the tests behind it."""

    status: Status
    cause: Cause
    reason: str = ""
    score: float | None = None
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    official: Status | None = None
    findings: tuple[ObservedFinding, ...] = ()
    flaky: tuple[str, ...] = ()


class ObservedAttempt(Record):
    """One try, and where its logs are below the run's folder."""

    number: int
    cause: Cause
    logs: str


class Observation(Record):
    """One answer to one task. The file of a `TaskResult` reads as one of these, and everything else in it is skipped.

    Attributes:
        sample: tells apart several wanted answers to the same task.
    """

    task_id: str
    trial: int
    status: Status
    cause: Cause
    verdict: ObservedVerdict | None
    usage: tuple[ModelUsage, ...]
    metrics: AgentMetrics
    agent_seconds: float
    grade_seconds: float = 0.0
    categories: dict[str, str] = msgspec.field(default_factory=dict)
    attempts: tuple[ObservedAttempt, ...] = ()
    schema_version: Literal["proctor.task_result@2"] = "proctor.task_result@2"

    @property
    def resolved(self) -> bool:
        """Whether the task is solved."""
        return self.status is Status.RESOLVED

    @property
    def counted(self) -> bool:
        """Whether it is in the denominator of the rate: what was not the agent's doing says nothing about the agent."""
        return self.status in _GRADED and CONSEQUENCES[self.cause].counted

    @property
    def cost_usd(self) -> float | None:
        """What it cost, every try included; None when any price is unknown."""
        total = 0.0
        for usage in self.usage:
            if usage.cost_usd is None:
                return None
            total += usage.cost_usd
        return total

    @property
    def tokens(self) -> int:
        """All tokens of all models."""
        return sum(usage.tokens.total for usage in self.usage)


def to_observation(result: TaskResult) -> Observation:
    """A result that is already in memory, as an observation."""
    seen: Observation = msgspec.convert(result, Observation, from_attributes=True)
    return seen
