"""The agent that does nothing. Its result shows which tasks an empty submission passes."""

from proctor.agents.outcomes import not_started_outcome, write_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.environment import Environment


class Nop(Agent):
    """Leaves everything as it is."""

    name = "nop"
    needs_sandbox = False
    needs_model = False

    async def solve(
        self,
        request: AgentRequest,
        environment: Environment,
        on_progress: ProgressCallback,
    ) -> AgentOutcome:
        """Do nothing."""
        return write_outcome(request, not_started_outcome(None, "it did nothing, as it should"))
