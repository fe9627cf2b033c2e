"""What an analysis needs to know of one trial: a stored result without its evidence, which is most of the file."""

from typing import Final, Literal

import msgspec

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.machine import Machine
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, ModelUsage, TaskResult, WebUse
from proctor.results import usage_cost

_GRADED: Final = frozenset({Status.RESOLVED, Status.UNRESOLVED})


class ObservedFinding(Record):
    """The code of one finding of the audit."""

    code: str


class ObservedControls(Record):
    """How far a verdict was controlled."""

    pairs: int
    uncontrolled: tuple[str, ...] = ()


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
    controls: ObservedControls | None = None


class ObservedAttempt(Record):
    """One attempt, where its logs are below the run's folder, and the node of a cluster that it was made on."""

    number: int
    cause: Cause
    logs: str
    node: str = ""
    machine: Machine | None = None


class Observation(Record):
    """One trial of one task. The file of a `TaskResult` can be read as one; its other fields are skipped.

    Attributes:
        trial: its number among the trials of the task.
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
    web: WebUse | None = None
    schema_version: Literal["proctor.task_result@2"] = "proctor.task_result@2"

    @property
    def resolved(self) -> bool:
        """Whether the task is solved."""
        return self.status is Status.RESOLVED

    @property
    def counted(self) -> bool:
        """Whether it is in the denominator of the rate. Errors that are not the agent's fault are not."""
        return self.status in _GRADED and CONSEQUENCES[self.cause].counted

    @property
    def cost_usd(self) -> float | None:
        """What it cost, all attempts included; None when any price is unknown."""
        return usage_cost(self.usage)

    @property
    def tokens(self) -> int:
        """All tokens of all models."""
        return sum(usage.tokens.total for usage in self.usage)


def to_observation(result: TaskResult) -> Observation:
    """A result that is already in memory, as an observation."""
    observation: Observation = msgspec.convert(result, Observation, from_attributes=True)
    return observation
