"""A lab for agents that are one program: the real program in an environment, a scripted model behind the gateway."""

import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway_lab import World, world
from paths import OPTIONAL_AGENT
from plain_environment import MountedEnvironment
from proctor.agents.program_agent import ProgramAgent
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.environment import EnvironmentSpec, Network
from proctor.core.programs import ProgramLocation
from proctor.core.result import Tokens
from proctor.gateway import ReplayBackend, ScriptBackend, parse_script
from proctor.gateway.backend import Backend
from waiting import PATIENCE

NO_OPTIONS = AgentOptions()
FIRST = {"input": 1000, "output": 50, "cache_read": 300, "reasoning": 20}
SECOND = {"input": 1200, "output": 7, "cache_read": 500}
USED = Tokens(**FIRST) + Tokens(**SECOND)
WRITES_A_FILE: list[dict[str, Any]] = [
    {"thinking": "Hm.", "tools": [{"shell": {"command": "echo made > out.txt && pwd"}}], "usage": FIRST, "piece": 4},
    {"text": "Done.", "usage": SECOND},
]
ENDLESS = {"tools": [{"shell": {"command": "true"}}], "usage": FIRST, "repeat": "forever"}


def need_program(find: Callable[[], ProgramLocation | None], remedy: str) -> None:
    """Skip the test where this program is not installed."""
    if find() is None:
        pytest.skip(f"{OPTIONAL_AGENT}: {remedy}")


def script(*steps: dict[str, Any]) -> ScriptBackend:
    return ScriptBackend(parse_script({"default": list(steps)}))


class ProgramRun:
    """A session of the gateway, an environment behind bubblewrap, and an agent in it.

    The environment shows the system and what the agent mounts: neither homes, nor the folder that the program is in.
    """

    def __init__(self, here: World, folder: Path, agent: ProgramAgent) -> None:
        self.session = here.session
        self.events = here.events
        self.folder = folder
        self.agent = agent
        spec = agent.prepare_spec(EnvironmentSpec(network=Network.MODEL), self.request("x"))
        assert all(mount.target.startswith("/proctor/") and not mount.writable for mount in spec.mounts)
        url = here.agent.base.removesuffix(here.session.path)
        self.environment = MountedEnvironment(folder, spec, model_url=url)
        self.workspace = self.environment.workspace
        subprocess.run(["git", "init", "-q", str(self.workspace)], check=True)

    def request(self, model: str) -> AgentRequest:
        return AgentRequest(
            task_id="t",
            instruction="Make a file out.txt.",
            logs=str(self.folder / "logs"),
            model=model,
            model_path=self.session.path,
            wall_seconds=PATIENCE,
        )

    async def work(self, model: str) -> AgentOutcome:
        return await self.agent.solve(self.request(model), self.environment, lambda _: None)


@asynccontextmanager
async def program_run(
    kind: type[ProgramAgent],
    backend: Backend,
    folder: Path,
    options: AgentOptions = NO_OPTIONS,
    program: Path | None = None,
    **session: Any,
) -> AsyncIterator[ProgramRun]:
    setup = AgentSetup(agent_options=options, program=None if program is None else str(program))
    async with world(backend, **session) as here:
        yield ProgramRun(here, folder, kind(setup))


async def works_and_replays(
    kind: type[ProgramAgent],
    model: str,
    folder: Path,
    *steps: dict[str, Any],
    text: str = "Done.",
    used: Tokens = USED,
) -> AgentOutcome:
    """It solves its task with a script and again with the recording, and every token is counted."""
    recording = folder / "cassette.jsonl"
    async with program_run(kind, script(*(steps or WRITES_A_FILE)), folder / "1", recording=recording) as run:
        outcome = await run.work(model)
        assert (outcome.cause, outcome.final_text) == (None, text), (outcome.detail, run.events)
        assert (run.workspace / "out.txt").read_text() == "made\n"
        assert run.session.usage.tokens == used
        assert (run.session.usage.turns, run.session.usage.refused) == (len(steps) or 2, 0)
        left = {path.name for path in run.workspace.iterdir()}
        assert left == {".git", "out.txt"}
    async with program_run(kind, ReplayBackend(lambda _: recording), folder / "2") as run:
        again = await run.work(model)
        assert (again.cause, again.final_text) == (None, text), (again.detail, run.session.divergence)
        assert run.session.usage.tokens == used
    return outcome


def first_request(recording: Path) -> str:
    """What the model was first asked, prompts and tools included."""
    lines = [msgspec.json.decode(line) for line in recording.read_bytes().splitlines()]
    return str([line for line in lines if line.get("number", 1) == 1])
