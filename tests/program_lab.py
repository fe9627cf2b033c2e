"""Runs of real agents' programs, from their packages, against the gateway with a scripted model."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from gateway_lab import World, world
from plain_environment import PlainEnvironment
from proctor.agents.program_agent import ProgramAgent
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.environment import Environment, EnvironmentSpec, Network
from proctor.environments.local import LocalProvider
from proctor.gateway import ScriptBackend, load_recording, parse_script
from proctor.gateway.backend import Backend
from waiting import PATIENCE

NO_OPTIONS = AgentOptions()


def script(*steps: dict[str, Any]) -> ScriptBackend:
    return ScriptBackend(parse_script({"default": list(steps)}))


class ProgramRun:
    """A session of the gateway, a workspace, and an agent that works in it."""

    def __init__(self, here: World, agent: ProgramAgent, environment: Environment, workspace: Path, logs: Path) -> None:
        self.session = here.session
        self.agent = agent
        self.environment = environment
        self.workspace = workspace
        self.logs = logs

    def request(self, model: str, wall_seconds: float = 4 * PATIENCE) -> AgentRequest:
        return AgentRequest(
            task_id="t",
            instruction="Make a file out.txt.",
            logs=str(self.logs),
            model=model,
            model_path=self.session.path,
            wall_seconds=wall_seconds,
        )

    async def work(self, model: str) -> AgentOutcome:
        return await self.agent.solve(self.request(model), self.environment, lambda _: None)

    def plant(self, files: dict[str, str]) -> None:
        """Put files into the repository that the agent works on."""
        for name, text in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


@asynccontextmanager
async def program_run(
    kind: type[ProgramAgent], backend: Backend, folder: Path, options: AgentOptions = NO_OPTIONS, **session: Any
) -> AsyncIterator[ProgramRun]:
    """An agent that works on this machine as it is."""
    async with world(backend, **session) as here:
        environment = PlainEnvironment(folder, model_url=here.agent.base.removesuffix(here.session.path))
        subprocess.run(["git", "init", "-q", str(environment.workspace)], check=True)
        agent = kind(AgentSetup(in_place=True, agent_options=options))
        yield ProgramRun(here, agent, environment, environment.workspace, folder / "logs")


@asynccontextmanager
async def isolated_run(
    kind: type[ProgramAgent], backend: Backend, folder: Path, **session: Any
) -> AsyncIterator[ProgramRun]:
    """An agent that works in an environment of bubblewrap's, whose only connection is the gateway's."""
    workspace = folder / "workspace"
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    async with world(backend, **session) as here:
        socket = folder / "model.sock"
        await here.gateway.listen_unix(socket)
        agent = kind(AgentSetup())
        provider = LocalProvider(environments_dir=folder / "environments")
        request = AgentRequest(task_id="t", instruction="x", logs=str(folder / "logs"))
        spec = EnvironmentSpec(workspace=workspace, network=Network.MODEL, model_socket=socket)
        try:
            async with await provider.start(agent.prepare_spec(spec, request)) as environment:
                yield ProgramRun(here, agent, environment, workspace, folder / "logs")
        finally:
            await provider.close()


def said_to_model(recording: Path) -> str:
    """All that the model was told."""
    return str([(one.messages, one.system) for one in load_recording(recording).exchanges])


def processes_with(marker: str) -> list[psutil.Process]:
    """The processes whose command has this word."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if marker in " ".join(process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]
