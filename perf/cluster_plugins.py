"""Plugins that make attempts cheap: no environment, and an agent that is a few requests to its model."""

import os

from no_work import NoEnvironments as NoEnvironments  # noqa: PLC0414 - the entry point of the environments
from no_work import NoWork

from proctor.agents.outcomes import not_started_outcome, write_outcome
from proctor.core.agent import Agent, AgentOutcome, AgentRequest, ProgressCallback
from proctor.core.environment import Environment, EnvironmentSpec


class Idle(NoWork):
    """As many tasks as IDLE_TASKS says, which take no work."""

    name = "idle"
    source = "idle"
    grader = "idle/1"
    instruction = "task: {id}\n"

    def __init__(self) -> None:
        super().__init__([f"idle-{number:05}" for number in range(int(os.environ.get("IDLE_TASKS", "2000")))])


class Talker(Agent):
    """Asks its model as often as it may."""

    name = "talker"
    needs_sandbox = False

    def prepare_spec(self, spec: EnvironmentSpec, request: AgentRequest) -> EnvironmentSpec:
        self._socket = spec.model_socket
        return spec

    async def solve(
        self, request: AgentRequest, environment: Environment, on_progress: ProgressCallback
    ) -> AgentOutcome:
        from aiohttp import ClientSession, UnixConnector

        messages = [{"role": "user", "content": request.instruction}]
        async with ClientSession(connector=UnixConnector(str(self._socket))) as http:
            for turn in range(request.max_turns or 1):
                body = {"model": request.model, "max_tokens": 10, "messages": messages}
                async with http.post(f"http://gateway{request.model_path}/v1/messages", json=body) as response:
                    text = (await response.json())["content"][0]["text"]
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": f"and then? ({turn})"}]
        return write_outcome(request, not_started_outcome(None, "it has said all"))
