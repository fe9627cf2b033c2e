"""What an agent is: something that answers a task in an environment.

Built-in agents and a stranger's register alike, through the entry point group ``proctor.agents``.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import field

from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, ModelUsage

Doing = Callable[[str], None]


class AgentRequest(Record):
    """What an agent is told. Nothing of the task's private part is in it.

    Attributes:
        model: a full model id; None leaves the choice to the agent's own program.
        model_path: the path of this attempt at the gateway (``/t/<token>``), to be put behind the room's `model_url`.
        home: the sandbox's claude-config folder on the host, where the agent has one.
        logs: a folder on the host for whatever the agent's driver wants to keep.
    """

    task_id: str
    instruction: str
    logs: str
    home: str | None = None
    model: str | None = None
    model_path: str | None = None
    max_turns: int = 100
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    allowed_tools: tuple[str, ...] = ()
    wall_seconds: float | None = None
    session_id: str | None = None
    variables: dict[str, str] = field(default_factory=dict)


class AgentOutcome(Record):
    """How an agent ended.

    Attributes:
        cause: why it ended, when it did not simply finish; None: it finished.
        detail: one sentence on it.
        claimed: what the agent's own program says it used; the gateway's meter is the truth, this is the cross-check.
    """

    cause: Cause | None
    detail: str
    seconds: float
    metrics: AgentMetrics
    final_text: str = ""
    claimed: tuple[ModelUsage, ...] = ()
    claimed_cost_usd: float | None = None


class Agent(Protocol):
    """Answers tasks."""

    name: str

    def furnish(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        """Add what this agent needs in the room: its programs, its home, its variables.

        Raises:
            InfrastructureError: a program that it needs is not on this machine.
        """
        ...

    async def answer(self, request: AgentRequest, environment: Environment, doing: Doing) -> AgentOutcome:
        """Work on the task until done. `doing` is told, in a few words, what the agent is at."""
        ...
