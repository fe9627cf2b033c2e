"""How environments of tasks are brought into the state that an agent, or a verifier, starts from."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypedDict

import msgspec

from proctor.benchmarks.harbor.dockerfile import is_root
from proctor.benchmarks.harbor.task import (
    HarborEnvironment,
    HarborStep,
    HarborTask,
    Healthcheck,
    NetworkMode,
    NetworkPolicy,
)
from proctor.core.environment import AgentUser, Environment, EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError
from proctor.core.trees import is_directory

_START_ENTRYPOINT: Final = 'nohup "$@" </dev/null >/dev/null 2>&1 & sleep 1'
_DESCRIBE_USER: Final = 'id -un 2>/dev/null || id -u; getent passwd "$(id -u)" 2>/dev/null | cut -d: -f6'
_CLEAR_FOLDERS: Final = 'for file; do [ ! -d "./$file" ] || rm -rf "./$file"; done'
_CLEAR_FILES: Final = 'for place; do [ -d "./$place" ] || rm -f "./$place"; done'
_SETUP_SECONDS: Final = 600.0
SETUP_SCRIPT: Final = "setup.sh"


def network_of(policy: NetworkPolicy) -> tuple[Network, tuple[str, ...]]:
    """What a phase can reach, beside the model."""
    if policy.mode is NetworkMode.PUBLIC:
        return Network.OPEN, ()
    return Network.MODEL, policy.allowed_hosts if policy.mode is NetworkMode.ALLOWLIST else ()


def limits_of(environment: HarborEnvironment, seconds: float | None = None) -> Limits:
    """What an environment may use."""
    return Limits(wall_seconds=seconds, cpus=environment.cpus, memory_mb=environment.memory_mb, gpus=environment.gpus)


def spec_of(
    environment: HarborEnvironment, phases: tuple[NetworkPolicy, ...], variables: dict[str, str]
) -> EnvironmentSpec:
    """The environment: from its ready image, or built from its Dockerfile, where it has none or builds are forced.

    Where phases differ in what they can reach, it can be changed while it runs.
    """
    network, hosts = network_of(environment.network)
    return EnvironmentSpec(
        workdir=environment.workdir,
        image=environment.image,
        build=environment.path if environment.has_dockerfile else None,
        compose=environment.path / environment.compose if environment.compose is not None else None,
        network=network,
        allowed_hosts=hosts,
        changes_network=any(policy != environment.network for policy in phases),
        limits=limits_of(environment),
        variables=variables,
    )


def with_image(spec: EnvironmentSpec, image: str | None) -> EnvironmentSpec:
    """The environment from this image in the place of its own."""
    return spec if image is None else msgspec.structs.replace(spec, image=image, build=None)


async def start_environment(environment: HarborEnvironment, running: Environment, *, where: str) -> None:
    """Make the folders that every task has, start what the image starts, and wait until it is up.

    Raises:
        InfrastructureError: it does not come up.
    """
    await running.set_network(*network_of(environment.network))
    script = "mkdir -p /logs/agent /logs/artifacts && chmod 777 /logs/agent /logs/artifacts"
    done = await running.exec(["sh", "-c", script], cwd="/")
    if done.exit_code != 0:
        raise InfrastructureError("the image has no mkdir", where=where)
    if environment.entrypoint:
        # In Harbor it is the container's first process; an environment has one of its own.
        words = [*environment.entrypoint, "sh", "-c", "sleep infinity"]
        await running.exec(["sh", "-c", _START_ENTRYPOINT, "sh", *words])
    await wait_until_healthy(environment.healthcheck, running, where=where)


async def _clear_way(files: Path, environment: Environment) -> None:
    """Remove the folders that stand where files go, and the files where folders go: an agent has put them there."""
    folders, others = await asyncio.to_thread(_list_below, files)
    await environment.exec(["sh", "-c", _CLEAR_FOLDERS, "sh", *others])
    await environment.exec(["sh", "-c", _CLEAR_FILES, "sh", *folders])


def _list_below(files: Path) -> tuple[list[str], list[str]]:
    """The folders below a folder, and what else there is."""
    found: dict[bool, list[str]] = {True: [], False: []}
    for path in sorted(files.rglob("*")):
        found[is_directory(path)].append(path.relative_to(files).as_posix())
    return found[True], found[False]


async def wait_until_healthy(check: Healthcheck | None, environment: Environment, *, where: str) -> None:
    """Run a health check until it succeeds, as the image's user; failures of the start period do not count.

    Raises:
        InfrastructureError: it failed too often.
    """
    if check is None:
        return
    who = as_user(await user_of(environment, None))
    began, failures = time.monotonic(), 0
    while True:
        done = await environment.exec(["bash", "-c", check.command], timeout=check.timeout, **who)
        if done.exit_code == 0:
            return
        if time.monotonic() - began < check.start_period:
            await asyncio.sleep(check.start_interval)
            continue
        failures += 1
        if failures >= check.retries:
            break
        await asyncio.sleep(check.interval)
    raise InfrastructureError(f"the environment is not up after {check.retries} checks", where=where)


async def prepare_step(task: HarborTask, step: HarborStep, environment: Environment, user: AgentUser | None) -> None:
    """Copy a step's files into the working directory, run its set-up, and wait until it is up.

    Raises:
        InfrastructureError: its set-up fails.
    """
    files: Path | None = step.workdir_files
    who = as_user(user)
    where = f"{task.name}: {step.name}"
    if files is not None:
        await _clear_way(files, environment)
        await environment.put(files, environment.workdir)
        if (files / SETUP_SCRIPT).is_file():
            done = await environment.exec(["bash", f"./{SETUP_SCRIPT}"], timeout=_SETUP_SECONDS, **who)
            if done.exit_code != 0:
                said = done.stderr.decode("utf-8", "replace").strip()[-300:]
                raise InfrastructureError(f"{SETUP_SCRIPT} ended with {done.exit_code}: {said}", where=where)
    await wait_until_healthy(step.healthcheck, environment, where=where)


class CommandUser(TypedDict, total=False):
    """Whom a command runs as, and that user's variables; empty: who may do all."""

    user: str
    variables: Mapping[str, str]


def as_user(user: AgentUser | None) -> CommandUser:
    """The arguments of `Environment.exec` that run a command as a user."""
    return CommandUser() if user is None else CommandUser(user=user.name, variables=user.variables)


async def user_of(environment: Environment, named: str | None) -> AgentUser | None:
    """Whom commands run as: whom the task names, or whom the image does; None: who may do all.

    Raises:
        InfrastructureError: there is no such user in the environment.
    """
    name = named if named is not None else environment.default_user
    if is_root(name):
        return None
    asked = await environment.exec(["sh", "-c", _DESCRIBE_USER], cwd="/", user=name)
    if asked.exit_code != 0:
        raise InfrastructureError(f"the image has no user {name}")
    login, _, home = asked.stdout.decode("utf-8", "replace").strip().partition("\n")
    return AgentUser(name=name, variables={"HOME": home or "/", "USER": login, "LOGNAME": login})
