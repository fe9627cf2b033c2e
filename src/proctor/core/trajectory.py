"""What an agent did, step by step: one form for every agent.

A trajectory is read from the logs of an attempt (docs/trajectories.md says from which).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import field

from proctor.core.record import Record
from proctor.core.result import Tokens

StepSource = Literal["system", "user", "agent"]
StepKind = Literal["message", "compaction", "error"]
LaneKind = Literal["main", "subagent", "side"]


class ToolCall(Record):
    """A tool call of an agent.

    Attributes:
        output: its result; None when there is none, as the agent was stopped before, or it has not come yet.
        failed: as the tool reports.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    output: str | None = None
    failed: bool = False


class Step(Record):
    """One message: to the agent, from it, or about it.

    Attributes:
        lane: whose conversation it belongs to.
        at: when it began, ISO 8601; None when unknown.
        seconds: how long the model took.
        kind: a plain message; a summary that replaces earlier messages; or a response that did not come.
        observation: what came from outside and belongs to no call.
        tokens: of this step alone.
        cost_usd: of this step alone; None when no price is known.
        note: what is remarkable about it, in a few words.
    """

    source: StepSource
    lane: str = "main"
    at: str | None = None
    seconds: float | None = None
    kind: StepKind = "message"
    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    observation: str = ""
    model: str | None = None
    tokens: Tokens = Tokens()
    cost_usd: float | None = 0.0
    note: str = ""


class Lane(Record):
    """One conversation with the model. Each agent of a pod has its own, and so has every sub-agent.

    Attributes:
        agent: the agent's name in its pod; empty where there is only one.
    """

    name: str
    agent: str = ""
    kind: LaneKind = "main"


class Totals(Record):
    """Everything up to some step."""

    steps: int = 0
    calls: int = 0
    tokens: Tokens = Tokens()
    cost_usd: float | None = 0.0

    def __add__(self, step: Step) -> "Totals":
        unknown = self.cost_usd is None or step.cost_usd is None
        return Totals(
            steps=self.steps + 1,
            calls=self.calls + len(step.calls),
            tokens=self.tokens + step.tokens,
            cost_usd=None if unknown else (self.cost_usd or 0.0) + (step.cost_usd or 0.0),
        )


def sum_steps(steps: Iterable[Step]) -> Totals:
    """What all of these used."""
    totals = Totals()
    for step in steps:
        totals += step
    return totals


class Trajectory(Record):
    """What was done at one attempt.

    Attributes:
        agent: the agent's program, or the pod.
        lanes: in the order in which they appear.
        steps: of all lanes, oldest first.
        note: what is not in it, and why; empty when all is there.
    """

    task_id: str
    agent: str
    version: str = ""
    model: str | None = None
    session_id: str | None = None
    lanes: tuple[Lane, ...] = field(default_factory=tuple)
    steps: tuple[Step, ...] = field(default_factory=tuple)
    note: str = ""
    schema_version: Literal["proctor.trajectory@2"] = "proctor.trajectory@2"

    def running_totals(self) -> Iterator[Totals]:
        """For each step, what had been used when it was done."""
        totals = Totals()
        for step in self.steps:
            totals += step
            yield totals

    @property
    def totals(self) -> Totals:
        """All of it."""
        return sum_steps(self.steps)

    @property
    def instruction(self) -> str:
        """What the agent was first asked; empty when that was not seen."""
        return next((step.text for step in self.steps if step.source == "user" and step.text), "")


class LogMeasure(Record):
    """One of a benchmark's own measures of its logs, shown below a report's log statistics.

    Attributes:
        counts: how often each of its values occurs.
        total: out of how many; None where the counts are all there is.
    """

    name: str
    counts: dict[str, int]
    total: int | None = None
