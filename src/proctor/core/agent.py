"""What an agent is: something that answers a task in an environment.

Built-in agents and a stranger's register alike, through the entry point group ``proctor.agents``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Literal

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

    cause: Cause | None = None
    detail: str = ""
    seconds: float = 0.0
    metrics: AgentMetrics = AgentMetrics()
    final_text: str = ""
    claimed: tuple[ModelUsage, ...] = ()
    claimed_cost_usd: float | None = None
    schema_version: Literal["proctor.agent_outcome@1"] = "proctor.agent_outcome@1"


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


class Agent(ABC):
    """Works on tasks. An entry point of the group ``proctor.agents`` names a subclass.

    Attributes:
        needs_oracle: it is given the task's oracle; never true for an agent under test.
        needs_sandbox: it is given a sandbox.
        needs_model: it cannot work without a model.

    Raises:
        UsageError: something that this agent needs is missing from the setup.
    """

    name: str
    needs_oracle: bool = False
    needs_sandbox: bool = True
    needs_model: bool = True

    def __init__(self, setup: AgentSetup | None = None) -> None:
        self._setup = AgentSetup() if setup is None else setup

    def versions(self) -> dict[str, str]:
        """The programs that it runs, with their versions, for the run's configuration; none by default.

        Raises:
            InfrastructureError: a program that it needs is not on this machine, or does not run.
        """
        return {}

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:  # noqa: ARG002 - for subclasses
        """Add what this agent needs in the environment: its programs, its sandbox, its variables.

        Raises:
            InfrastructureError: a program that it needs is not on this machine.
        """
        return spec

    @abstractmethod
    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Work on the task until done. `on_progress` is called with a few words on the current step.

        Being cancelled ends the agent: gracefully first, at a second cancellation at once.

        Raises:
            InfrastructureError: the environment broke.
        """
