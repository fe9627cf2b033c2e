"""What an agent is: something that answers a task in an environment.

Built-in agents and a stranger's register alike, through the entry point group ``proctor.agents``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import field

from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, ModelUsage
from proctor.core.submission import PatchKind
from proctor.core.task import Oracle

ProgressCallback = Callable[[str], None]


class AgentRequest(Record):
    """What an agent is told. Nothing of the task's private part is in it.

    Attributes:
        model: a full model id; None leaves the choice to the agent's own program.
        model_path: the path of this attempt at the gateway (``/t/<token>``), to be put behind the room's `model_url`.
        home: the sandbox's claude-config folder on the host, where the agent has one.
        sandbox: the whole sandbox on the host, an H2_DIR, of which `home` is a part.
        own_login: the login in `home` passes through the gateway; otherwise the agent holds a placeholder, and no login
            enters the room.
        logs: a folder on the host for whatever the agent's driver wants to keep. The outcome is kept there too, as
            ``outcome.json``, so that it is known even of an agent that was cancelled.
    """

    task_id: str
    instruction: str
    logs: str
    claude_config_dir: str | None = None
    sandbox: str | None = None
    own_login: bool = False
    model: str | None = None
    model_path: str | None = None
    max_turns: int = 100
    wall_seconds: float | None = None
    session_id: str | None = None


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


ApplyPatch = Callable[[Path, bytes, PatchKind], object]


class AgentSetup(Record):
    """What an agent may be made from. Each takes what it needs and leaves the rest.

    Attributes:
        program: the agent's own program, where it is not to be looked for.
        command: the words of the command, for an agent that is one.
        briefing: what it is told beside the task.
        in_place: rooms show the host as it is (no isolation), so programs and homes are used where they lie.
        oracle: the task's reference answer; only an agent whose factory says `needs_oracle` is ever given it.
        apply_patch: applies a patch to a tree on the host, for agents that hand in a ready one.
        h2_program: h2, where it is not to be looked for.
        pod_template: for a pod of agents, a template's name in the sandbox's preset, or a file.
        pod_variables: what that template is filled in with.
    """

    program: str | None = None
    command: tuple[str, ...] = ()
    agent_options: AgentOptions = AgentOptions()
    in_place: bool = False
    oracle: Oracle | None = None
    apply_patch: ApplyPatch | None = None
    h2_program: str | None = None
    pod_template: str | None = None
    pod_variables: dict[str, str] = field(default_factory=dict)


class Agent(Protocol):
    """Answers tasks."""

    name: str

    def versions(self) -> dict[str, str]:
        """The programs that answer, with their versions, for the run's configuration.

        Raises:
            InfrastructureError: a program that it needs is not on this machine, or does not run.
        """
        ...

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        """Add what this agent needs in the room: its programs, its home, its variables.

        Raises:
            InfrastructureError: a program that it needs is not on this machine.
        """
        ...

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Work on the task until done. `doing` is told, in a few words, what the agent is at.

        Being cancelled ends the agent: first politely, at a second cancellation at once.

        Raises:
            InfrastructureError: the room broke.
        """
        ...


class AgentFactory(Protocol):
    """What an entry point of the group ``proctor.agents`` names; usually the agent's class.

    It may have members `needs_oracle` (to be given the task's reference answer; no, if not said), `needs_sandbox` (a
    sandbox's home; yes, if not said) and `needs_model` (it cannot do without a model; yes, if not said).
    """

    def __call__(self, setup: AgentSetup, /) -> Agent:
        """Make an agent. A setup that lacks what this agent needs is refused with a `UsageError`."""
        ...
