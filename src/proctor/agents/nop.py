"""The agent that does nothing: what it hands in tells what a benchmark gives for free."""

from proctor.agents.outcomes import keep_outcome, nothing_done
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup, Doing
from proctor.core.environment import Environment, EnvironmentSpec


class Nop:
    """Leaves everything as it is."""

    name = "nop"
    needs_home = False
    needs_model = False

    def __init__(self, setup: AgentSetup | None = None) -> None:
        """Nothing is needed of the setup."""

    def versions(self) -> dict[str, str]:
        """No programs."""
        return {}

    def furnish(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:  # noqa: ARG002 - see Agent
        """Nothing is needed in the room."""
        return spec

    async def answer(self, request: AgentRequest, environment: Environment, doing: Doing) -> AgentOutcome:  # noqa: ARG002 - see Agent
        """Do nothing."""
        return keep_outcome(request, nothing_done(None, "it did nothing, as it should"))
