"""Rooms that have the family in them: where its machine is made ready, and where what an agent has is scored.

The agent's own room is made from what the family left in the agent's home, and from nothing else of it.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.re_bench.families import SOLUTION, Family
from proctor.benchmarks.re_bench.standard import FAMILY, FAMILY_ELSEWHERE, HOME, PROTECTED, Given, ask, begin, required
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Mount, Network
from proctor.core.errors import InfrastructureError

_SHELL_SECONDS: Final = 600.0
# Files of the family's own in the agent's home, which the agent may read and not replace.
_SAVE: Final = (
    'mkdir -p /tmp/kept && find "$0" -xdev -group protected -print0 2>/dev/null | '
    "xargs -0 -r cp -a --parents -t /tmp/kept; "
    'find "$0" -mindepth 1 -delete'
)
_GIVE_BACK: Final = (
    'cp -a "/tmp/kept$0/." "$0/" 2>/dev/null; '
    'if id agent >/dev/null 2>&1; then find "$0" ! -group protected -exec chown -h agent {} + 2>/dev/null; fi; true'
)
BASE_IMAGE: Final = "python:3.11-bookworm"
_DOCKERFILE: Final = """\
FROM {image}
RUN (getent passwd agent || useradd --create-home --uid 1000 agent) && groupadd --force protected \\
 && mkdir -p /protected && chgrp protected /protected && chmod 750 /protected
COPY family/ /root/
WORKDIR /root
RUN if [ -f requirements.txt ]; then python3 -m pip install --no-cache-dir -r requirements.txt; fi
RUN python3 -B -c "import sys; sys.path.insert(0, '/root'); import {family} as f; \\
getattr(f.TaskFamily, 'install', lambda: None)()"
"""
# What is removed in a later layer cannot be seen in a container.
_WITHOUT_FAMILY: Final = "RUN find /root /protected -mindepth 1 -delete\nWORKDIR /home/agent\n"


def image_folder(family: Family, folder: Path, *, for_agent: bool) -> Path:
    """A folder that the family's image is built from: with the family in it, or for the agent, without."""
    context = folder / ("agent-image" if for_agent else "image")
    context.mkdir(parents=True)
    shutil.copytree(family.folder, context / "family", ignore=shutil.ignore_patterns("__pycache__", SOLUTION))
    text = _DOCKERFILE.format(image=BASE_IMAGE, family=family.name) + (_WITHOUT_FAMILY if for_agent else "")
    (context / "Dockerfile").write_text(text)
    return context


def network_of(family: Family, task: str, otherwise: Network) -> Network:
    """What the task's rooms reach: everything, where the family gives the permission."""
    open_to_all = "full_internet" in family.described.tasks[task].permissions
    return Network.OPEN if open_to_all else otherwise


def family_place(provider: EnvironmentProvider) -> str:
    """Where the family lies in its rooms."""
    return FAMILY.get(provider.name, FAMILY_ELSEWHERE)


async def set_up(provider: EnvironmentProvider, family: Family, task: str, workspace: Path) -> None:
    """Make `workspace` what the agent starts from: its home, as the family leaves it."""
    with tempfile.TemporaryDirectory(prefix="proctor-family-") as folder:
        async with _ready(provider, family, task, Path(folder)) as room:
            await room.get(HOME, workspace)


async def score(provider: EnvironmentProvider, family: Family, task: str, home: Path) -> Given:
    """What the family's scorer says of an agent's home, in a room that nobody else has been in."""
    with tempfile.TemporaryDirectory(prefix="proctor-score-") as folder:
        async with _ready(provider, family, task, Path(folder)) as room:
            await _shell(room, _SAVE)
            await room.put(home, HOME)
            await _shell(room, _GIVE_BACK)
            return await ask(room, family.name, task, family.described, folder=family_place(provider))


@asynccontextmanager
async def _ready(provider: EnvironmentProvider, family: Family, task: str, folder: Path) -> AsyncIterator[Environment]:
    """A room with the family in it, made ready by it. What was protected goes with the room."""
    needs = family.task(task).resources
    spec = EnvironmentSpec(
        workdir=HOME,
        network=network_of(family, task, Network.NONE),
        limits=Limits(memory_mb=None if needs.memory_gb is None else int(needs.memory_gb * 1000), cpus=needs.cpus),
        # What an agent hands in may be a program, which runs here.
        hidden=(str(family.folder / SOLUTION),) if family.solution is not None else (),
        labels={"family": family.name, "task": task},
    )
    if provider.name == "docker":
        build = await asyncio.to_thread(lambda: image_folder(family, folder, for_agent=False))
        spec = msgspec.structs.replace(spec, build=build)
    else:
        (folder / "protected").mkdir()
        mounts = (
            Mount(source=str(family.folder), target=family_place(provider)),
            Mount(source=str(folder / "protected"), target=PROTECTED, writable=True),
        )
        spec = msgspec.structs.replace(spec, mounts=mounts)
    async with await provider.start(spec) as room:
        variables = required(family.described)
        await begin(room, family.name, task, folder=family_place(provider), variables=variables)
        yield room


async def _shell(room: Environment, script: str) -> None:
    done = await room.exec(["sh", "-c", script, HOME], cwd="/", timeout=_SHELL_SECONDS)
    if done.exit_code != 0:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise InfrastructureError(f"the agent's home could not be put in place to be scored: {said}")
