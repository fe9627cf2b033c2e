"""Environments that have the family in them: where its machine is made ready, and where what an agent has is scored.

The agent's own environment is made from what the family left in the agent's home, and from nothing else of it.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.re_bench.families import SOLUTION_FILE, TaskFamilyFiles
from proctor.benchmarks.re_bench.task_standard import (
    AGENT_HOME,
    DEFAULT_FAMILY_DIR,
    IMAGE_FAMILY_DIR,
    PROTECTED_DIR,
    ScorerResult,
    request_score,
    required_variables,
    start_family,
)
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Mount, Network
from proctor.core.errors import InfrastructureError

_SHELL_SECONDS: Final = 600.0
# Files of the family's own in the agent's home, which the agent may read and not replace.
_SAVE_PROTECTED: Final = (
    'mkdir -p /tmp/kept && find "$0" -xdev -group protected -print0 2>/dev/null | '
    "xargs -0 -r cp -a --parents -t /tmp/kept; "
    'find "$0" -mindepth 1 -delete'
)
_RESTORE_PROTECTED: Final = (
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
_REMOVE_FAMILY: Final = "RUN find /root /protected -mindepth 1 -delete\nWORKDIR /home/agent\n"


def write_build_context(family: TaskFamilyFiles, folder: Path, *, for_agent: bool, image: str = BASE_IMAGE) -> Path:
    """A folder that the family's image is built from, on `image`: with the family in it, or for the agent, without."""
    context = folder / ("agent-image" if for_agent else "image")
    context.mkdir(parents=True)
    shutil.copytree(family.folder, context / "family", ignore=shutil.ignore_patterns("__pycache__", SOLUTION_FILE))
    text = _DOCKERFILE.format(image=image, family=family.name) + (_REMOVE_FAMILY if for_agent else "")
    (context / "Dockerfile").write_text(text)
    return context


def network_of(family: TaskFamilyFiles, task: str, default: Network) -> Network:
    """What the task's environments reach: everything, where the family gives the permission."""
    open_to_all = "full_internet" in family.description.tasks[task].permissions
    return Network.OPEN if open_to_all else default


def family_dir(provider: EnvironmentProvider) -> str:
    """Where the family lies in its environments."""
    return IMAGE_FAMILY_DIR if provider.uses_images else DEFAULT_FAMILY_DIR


async def prepare_agent_home(
    provider: EnvironmentProvider, family: TaskFamilyFiles, task: str, workspace: Path, *, image: str = BASE_IMAGE
) -> None:
    """Make `workspace` what the agent starts from: its home, as the family leaves it."""
    with tempfile.TemporaryDirectory(prefix="proctor-family-") as folder:
        async with _family_environment(provider, family, task, Path(folder), image) as environment:
            await environment.get(AGENT_HOME, workspace)


async def score(
    provider: EnvironmentProvider, family: TaskFamilyFiles, task: str, home: Path, *, image: str = BASE_IMAGE
) -> ScorerResult:
    """What the family's scorer says of an agent's home, in a fresh environment."""
    with tempfile.TemporaryDirectory(prefix="proctor-score-") as folder:
        async with _family_environment(provider, family, task, Path(folder), image) as environment:
            await _run_shell(environment, _SAVE_PROTECTED)
            await environment.put(home, AGENT_HOME)
            await _run_shell(environment, _RESTORE_PROTECTED)
            return await request_score(environment, family.name, task, family.description, folder=family_dir(provider))


@asynccontextmanager
async def _family_environment(
    provider: EnvironmentProvider, family: TaskFamilyFiles, task: str, folder: Path, image: str
) -> AsyncIterator[Environment]:
    """An environment with the family in it, made ready by it. What was protected goes with the environment."""
    needs = family.task(task).resources
    spec = EnvironmentSpec(
        workdir=AGENT_HOME,
        network=network_of(family, task, Network.NONE),
        limits=Limits(
            memory_mb=None if needs.memory_gb is None else int(needs.memory_gb * 1000),
            cpus=needs.cpus,
            gpus=needs.gpus,
        ),
        # A submission may be a program, which runs here.
        hidden=(str(family.folder / SOLUTION_FILE),) if family.solution is not None else (),
        labels={"family": family.name, "task": task},
    )
    if provider.uses_images:
        build = await asyncio.to_thread(lambda: write_build_context(family, folder, for_agent=False, image=image))
        spec = msgspec.structs.replace(spec, build=build)
    else:
        (folder / "protected").mkdir()
        mounts = (
            Mount(source=str(family.folder), target=family_dir(provider)),
            Mount(source=str(folder / "protected"), target=PROTECTED_DIR, writable=True),
        )
        spec = msgspec.structs.replace(spec, mounts=mounts)
    async with await provider.start(spec) as environment:
        variables = required_variables(family.description)
        await start_family(environment, family.name, task, folder=family_dir(provider), variables=variables)
        yield environment


async def _run_shell(environment: Environment, script: str) -> None:
    done = await environment.exec(["sh", "-c", script, AGENT_HOME], cwd="/", timeout=_SHELL_SECONDS)
    if done.exit_code != 0:
        said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise InfrastructureError(f"the agent's home could not be put in place to be scored: {said}")
