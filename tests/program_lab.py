"""The lab for agents that are one program: the real one in a local environment, a scripted model at the gateway.

The environment shows the system and what the agent mounts, and its only connection is the gateway's: a program that
needs anything else does not come to its end here.
"""

import itertools
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from gateway_lab import World, world
from lab_agents import LabAgent
from paths import OPTIONAL_AGENT
from proctor.agents.program_agent import ProgramAgent
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.environment import Environment, EnvironmentSpec, Network
from proctor.core.errors import InfrastructureError
from proctor.environments import local_unavailable_reason
from proctor.environments.local import LocalProvider
from proctor.gateway import ScriptBackend, load_recording, parse_script
from proctor.gateway.backend import Backend
from waiting import PATIENCE

NO_OPTIONS = AgentOptions()
# Those whose programs CI installs: they cover the four dialects.
IN_CI = ("codex", "gemini", "pi")
# Counters of an environment's network that requests to the gateway do not increase. A look-up of a name is a datagram,
# a connection to another host finds no route, and one to another port here is refused.
_TRAFFIC = ("Ip.OutNoRoutes", "Udp.OutDatagrams", "Tcp.AttemptFails", "Ip6OutNoRoutes", "Udp6OutDatagrams")
_PROCESSES = 'for f in /proc/[0-9]*/cmdline; do tr "\\0" " " <"$f" 2>/dev/null; echo; done'


def script(*steps: Mapping[str, Any]) -> ScriptBackend:
    return ScriptBackend(parse_script({"default": list(steps)}))


def need_agent(agent: LabAgent) -> None:
    """Skip the test where the agent's program is not installed, or does not run."""
    try:
        agent.kind().versions()
    except InfrastructureError as error:
        pytest.skip(str(error) if agent.name in IN_CI else f"{OPTIONAL_AGENT}: {error}")


class ProgramRun:
    """A session of the gateway, an environment, and an agent that works in it."""

    def __init__(self, here: World, agent: ProgramAgent, environment: Environment, logs: Path) -> None:
        self.session = here.session
        self.events = here.events
        self.agent = agent
        self.environment = environment
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

    async def work(self, model: str, **request: Any) -> AgentOutcome:
        return await self.agent.solve(self.request(model, **request), self.environment, lambda _: None)

    async def files(self) -> dict[str, str]:
        """What is in the workspace, but for what git keeps there, by name."""
        command = 'find . -name .git -prune -o -type f -print | while read -r f; do echo "== $f"; cat "$f"; done'
        done = await self.environment.exec(["sh", "-c", command])
        pieces = done.stdout.decode(errors="replace").split("== ./")[1:]
        return {name: text for name, _, text in (piece.partition("\n") for piece in pieces)}

    async def processes(self) -> list[str]:
        """The commands of all that runs in the environment, but for what looks for them."""
        done = await self.environment.exec(["sh", "-c", _PROCESSES])
        lines = map(str.strip, done.stdout.decode().splitlines())
        return sorted(line for line in lines if line and "/proc/" not in line)

    async def other_traffic(self) -> dict[str, int]:
        """What has been sent in the environment to anybody but the gateway, as the kernel counts it."""
        done = await self.environment.exec(["cat", "/proc/net/snmp", "/proc/net/snmp6"])
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        counts = {name: int(value) for name, value in (line for line in lines if len(line) == 2)}
        for names, values in itertools.pairwise(lines):
            if names[0] == values[0] and names[0].endswith(":"):
                pairs = zip(names[1:], values[1:], strict=True)
                counts |= {f"{names[0][:-1]}.{name}": int(value) for name, value in pairs}
        return {name: counts[name] for name in _TRAFFIC if counts[name]}


@asynccontextmanager
async def program_run(
    kind: type[ProgramAgent],
    backend: Backend,
    folder: Path,
    options: AgentOptions = NO_OPTIONS,
    *,
    program: Path | None = None,
    files: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    **session: Any,
) -> AsyncIterator[ProgramRun]:
    """An agent in an environment with these variables; its repository has these files."""
    if (why := await local_unavailable_reason()) is not None:
        pytest.skip(why)
    workspace = folder / "workspace"
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    for name, text in (files or {}).items():
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if text.startswith("#!") else 0o644)
    async with world(backend, **session) as here:
        socket = folder / "model.sock"
        await here.gateway.listen_unix(socket)
        agent = kind(AgentSetup(agent_options=options, program=None if program is None else str(program)))
        provider = LocalProvider(environments_dir=folder / "environments")
        request = AgentRequest(task_id="t", instruction="x", logs=str(folder / "logs"))
        spec = EnvironmentSpec(
            workspace=workspace, network=Network.MODEL, model_socket=socket, variables=dict(variables or {})
        )
        prepared = agent.prepare_spec(spec, request)
        assert all(mount.target.startswith("/proctor/") and not mount.writable for mount in prepared.mounts)
        try:
            async with await provider.start(prepared) as environment:
                yield ProgramRun(here, agent, environment, folder / "logs")
        finally:
            await provider.close()


def requests_of(recording: Path) -> str:
    """All that the model was told, prompts and tools included."""
    return str([(one.messages, one.system, one.tools) for one in load_recording(recording).exchanges])


def processes_with(marker: str) -> list[psutil.Process]:
    """The processes of this machine whose command has this word."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if marker in " ".join(process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]
