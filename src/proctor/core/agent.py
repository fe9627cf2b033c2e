"""The base class of agents, which work on tasks in environments.

Agents are found through the entry point group ``proctor.agents``, built-in ones and plugins alike.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import field

from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.errors import UsageError
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, ModelUsage
from proctor.core.submission import PatchKind
from proctor.core.task import McpServer, Oracle

ProgressCallback = Callable[[str], None]
# Begins the names of `Agent.versions` that identify programs of the user's own.
PROGRAM_VERSION_KEY: Final = "program"
KEY_PLACEHOLDER: Final = "placeholder-the-gateway-has-the-key"
"""What an agent without a login of its own sends as its key. The gateway replaces it."""
# What most programs call them; each model has some of them.
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
DEFAULT_POD_START_SECONDS: Final = 90.0


class AgentRequest(Record):
    """What an agent is given. Nothing of the task's private part is in it.

    Attributes:
        model: a full model id; None leaves the choice to the agent's own program.
        dialects: those that the model's provider speaks; empty where any may be.
        model_path: the path of this attempt at the gateway (``/t/<token>``), to be appended to the environment's
            `model_url`.
        claude_config_dir: the sandbox's claude-config folder on the host, where the agent has one.
        sandbox: the whole sandbox on the host, an H2_DIR, of which `claude_config_dir` is a part.
        own_login: the login in `claude_config_dir` passes through the gateway; otherwise the agent gets
            `KEY_PLACEHOLDER`, and no login enters the environment.
        logs: a folder on the host for the agent's logs. The outcome is stored there, too, as ``outcome.json``, so that
            that of an agent which was cancelled is known.
        mcp_servers, skills_dir: what the task brings beside the instruction: servers of tools, and a folder of skills
            in the environment; for an agent with `uses_mcp_servers` and `uses_skills`.
        step: the name of the step, of a task that has several.
        continues: resume the conversation of this `session_id`, that of the task's step before; for an agent with
            `resumes`.
    """

    task_id: str
    instruction: str
    logs: str
    claude_config_dir: str | None = None
    sandbox: str | None = None
    own_login: bool = False
    model: str | None = None
    dialects: tuple[str, ...] = ()
    model_path: str | None = None
    max_turns: int = 100
    wall_seconds: float | None = None
    session_id: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    skills_dir: str | None = None
    step: str = ""
    continues: bool = False


class AgentOutcome(Record):
    """How an agent ended.

    Attributes:
        cause: why it ended, when it did not simply finish; None: it finished.
        detail: one sentence on it.
        claimed: the usage that the agent's own program reports; a cross-check, as the gateway's meter counts.
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
    """What an agent is made from. Each agent uses what it needs of it.

    Attributes:
        program: the agent's own program, where it is not found by itself.
        command: the words of the command, for an agent that is one.
        agent_options: prompts, tools and variables for its program.
        in_place: environments show the host as it is (no isolation), so programs and sandboxes keep their host paths.
        oracle: that of the task; only for an agent with `needs_oracle`.
        apply_patch: applies a patch to a tree on the host, for an agent that submits a ready one.
        h2_program: h2, where it is not found by itself.
        pod_template: for a pod of agents, a template's name in the sandbox's preset, or a file.
        pod_variables: the values of that template's variables.
        pod_start_timeout: the seconds that all agents of a pod have to start.
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
    pod_start_timeout: float = DEFAULT_POD_START_SECONDS


class Agent(ABC):
    """Works on tasks. An entry point of the group ``proctor.agents`` names a subclass.

    Attributes:
        needs_oracle: it is given the task's oracle; never true for an agent under test.
        needs_sandbox: it is given a sandbox.
        needs_model: it cannot work without a model.
        efforts: the levels of effort that its program can be told; none: it has no such setting.
        dialects: in which its program asks the model, by their names; none: it is not known.
        pins_model: its program asks other models for titles and the like; the gateway sends all to the run's model.
        ends_by_gateway: how its last request to the model ended outweighs how its program says that it ended itself.
        scripted_model: the model that its program is told to ask, where a script responds.
        refusal_status: that of the gateway's refusals, where its program takes no other as final.
        keeps_program: what `--agent-bin` names is part of the configuration: a resumed run uses the same program.
        uses_mcp_servers, uses_skills: it uses those that a task brings.
        resumes: it can resume its conversation with another instruction.

    Raises:
        UsageError: something that this agent needs is missing from the setup.
    """

    name: str
    needs_oracle: bool = False
    needs_sandbox: bool = True
    needs_model: bool = True
    efforts: tuple[str, ...] = ()
    dialects: tuple[str, ...] = ()
    pins_model: bool = False
    ends_by_gateway: bool = False
    scripted_model: str = "claude-sonnet-4-5"
    refusal_status: int | None = None
    keeps_program: bool = False
    uses_mcp_servers: bool = False
    uses_skills: bool = False
    resumes: bool = False

    def __init__(self, setup: AgentSetup | None = None) -> None:
        self._setup = AgentSetup() if setup is None else setup
        effort = self._setup.agent_options.effort
        if effort is not None and effort not in self.efforts:
            known = f"choose one of {', '.join(self.efforts)}" if self.efforts else "leave --effort out"
            has = f"has no effort {effort!r}" if self.efforts else "has no setting for effort"
            raise UsageError(f"the agent {self.name} {has}", fix=known)

    @classmethod
    def dialects_for(cls, model: str, spoken: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG003 - for subclasses
        """Those of its dialects in which it may ask this model, whose provider speaks `spoken`; all by default."""
        return tuple(dialect for dialect in cls.dialects if dialect in spoken)

    def versions(self) -> dict[str, str]:
        """The programs that it runs, with their versions, for the run's configuration; none by default.

        Raises:
            InfrastructureError: a program that it needs is not on this machine, or does not run.
        """
        return {}

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
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
