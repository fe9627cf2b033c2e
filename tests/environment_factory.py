"""Environments for tests."""

import json
import secrets
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec

from docker_image import IMAGE, need_docker
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, ExecResult
from proctor.environments.docker import DockerProvider
from proctor.environments.docker_engine import OWNER_LABEL, connect, disconnect
from proctor.environments.local import LocalProvider
from waiting import PATIENCE


class Environments:
    """Starts environments and stops them all at the end."""

    def __init__(self, kind: str, provider: EnvironmentProvider) -> None:
        self.kind = kind
        self.provider = provider
        self._started: list[Environment] = []

    async def start(self, **spec: Any) -> Environment:
        environment = await self.provider.start(EnvironmentSpec(**spec))
        self._started.append(environment)
        return environment

    async def stop(self) -> None:
        for environment in self._started:
            await environment.stop()
        await self.provider.close()


def make_provider(kind: str, folder: Path) -> EnvironmentProvider:
    if kind == "docker":
        need_docker()
        return DockerProvider(image=IMAGE)
    return LocalProvider(isolation=kind == "local", environments_dir=folder / "environments")


async def sh(environment: Environment, script: str, **options: Any) -> ExecResult:
    """Run a shell script in an environment."""
    return await environment.exec(["sh", "-c", script], **options)


def sleeper() -> str:
    """A `sleep` that lasts longer than any test, and can be told from every other one on the machine."""
    return f"sleep {secrets.randbelow(10**9) + 10**9}"


async def sleeping(environment: Environment, command: str) -> int:
    """How many processes run this very command."""
    listed = await environment.exec(["ps", "-eo", "stat,args"])
    lines = [line.split(None, 1) for line in listed.stdout.decode().splitlines()]
    return sum(arguments.strip() == command and not state.startswith("Z") for state, arguments in lines)


def running(command: str) -> int:
    """How many processes of this machine run this very command."""
    return int(subprocess.run(["pgrep", "-fxc", command], capture_output=True, check=False).stdout)


def wait_running(command: str, count: int, seconds: float = PATIENCE) -> None:
    """Wait until so many processes of this machine run this very command."""
    deadline = time.monotonic() + seconds
    while (seen := running(command)) != count:
        assert time.monotonic() < deadline, f"{seen} run {command!r}, not {count}"
        time.sleep(0.05)


async def containers_of(owner: str) -> list[dict[str, Any]]:
    """What the engine says of every container that this process has made."""
    docker = connect()
    try:
        filters = json.dumps({"label": [f"{OWNER_LABEL}={owner}"]})
        return [await container.show() for container in await docker.containers.list(all="true", filters=filters)]
    finally:
        await disconnect(docker)


def environments_left(environments_dir: Path) -> list[Path]:
    """The folders of environments that are there; what a provider keeps for all of them is none."""
    shared = ("cgroups", "etc-0")
    return [path for path in environments_dir.iterdir() if not any((path / name).exists() for name in shared)]


def without_clock(spec: EnvironmentSpec) -> EnvironmentSpec:
    """As the runner starts it: the agent has its own clock, and the environment outlives it to be graded."""
    return msgspec.structs.replace(spec, limits=msgspec.structs.replace(spec.limits, wall_seconds=None))
