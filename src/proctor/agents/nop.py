"""The agent that does nothing: what it hands in tells what a benchmark gives for free."""

from proctor.agents.outcomes import not_started_outcome, write_outcome
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup, ProgressCallback
from proctor.core.environment import Environment, EnvironmentSpec


class Nop:
    """Leaves everything as it is."""

    name = "nop"
    needs_sandbox = False
    needs_model = False

    def __init__(self, setup: AgentSetup | None = None) -> None:
        """Nothing is needed of the setup."""

    def versions(self) -> dict[str, str]:
        """No programs."""
        return {}

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:  # noqa: ARG002 - see Agent
        """Nothing is needed in the room."""
        return spec

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        """Do nothing."""
        return write_outcome(request, not_started_outcome(None, "it did nothing, as it should"))
