"""What this machine provides: one check per requirement, each with its purpose and how to install it."""

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, Literal

from proctor.agents import agent_class, agent_names
from proctor.agents.h2 import h2_version
from proctor.agents.program_agent import ProgramAgent
from proctor.benchmarks.suites.kinds import registered_kinds
from proctor.core.errors import InfrastructureError
from proctor.core.programs import (
    ProgramLocation,
    find_bubblewrap,
    find_claude,
    find_h2,
    find_program,
    first_line,
)
from proctor.core.record import Record
from proctor.environments import compose_version, docker_limits, docker_version, local_version
from proctor.environments.limits import held_limits

MIN_DISK_BYTES: Final = 5 * 10**9
DOCKER_SOCKET: Final = "/var/run/docker.sock"
_BUBBLEWRAP: Final = "bubblewrap"
_DOCKER: Final = "docker"
_ANTHROPIC_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_KEYS: Final = (*_ANTHROPIC_KEYS, "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")


class CheckState(StrEnum):
    """The result of a check."""

    OK = "ok"
    MISSING = "missing"
    BROKEN = "broken"


class Check(Record):
    """One requirement, and whether this machine meets it.

    Attributes:
        needed_for: what needs it.
        remedy: how to install or repair it; empty when nothing is missing.
        required: nothing works without it.
    """

    name: str
    state: CheckState
    detail: str
    needed_for: str
    remedy: str = ""
    required: bool = False


class Diagnosis(Record):
    """All checks of one machine."""

    checks: tuple[Check, ...]
    schema_version: Literal["proctor.diagnosis@1"] = "proctor.diagnosis@1"

    @property
    def usable(self) -> bool:
        """Whether every required check is ok, and environments can be made in one way or another."""
        required = all(check.state is CheckState.OK for check in self.checks if check.required)
        return required and self.environments_work

    @property
    def environments_work(self) -> bool:
        """Whether bubblewrap or a Docker engine works."""
        makers = {_BUBBLEWRAP, _DOCKER}
        return any(check.state is CheckState.OK for check in self.checks if check.name in makers)


def diagnose() -> Diagnosis:
    """Check this machine. The checks start programs, so they run in parallel."""
    with ThreadPoolExecutor() as pool:
        return Diagnosis(checks=tuple(pool.map(lambda check: check(), (*CHECKS, *agent_checks(), *suite_checks()))))


def check_git() -> Check:
    """Git makes workspaces and submissions."""
    return _program_check(
        "git",
        find_program("git"),
        needed_for="workspaces and submissions",
        remedy="install git (Debian: apt-get install git)",
        required=True,
    )


def check_bubblewrap() -> Check:
    """Bubblewrap makes local environments, where the kernel lets users make namespaces."""
    needed_for = "environments on this machine without Docker (`--runner local`)"
    try:
        detail = f"{asyncio.run(local_version())}; user namespaces work"
    except (InfrastructureError, OSError) as error:
        state = CheckState.BROKEN if find_bubblewrap() else CheckState.MISSING
        return _failed_check(_BUBBLEWRAP, state, error, needed_for, remedy="use --runner docker")
    return Check(name=_BUBBLEWRAP, state=CheckState.OK, detail=detail, needed_for=needed_for)


def check_docker() -> Check:
    """A Docker engine responds."""
    needed_for = "benchmarks that come as container images (`--runner docker`)"
    host = os.environ.get("DOCKER_HOST", f"unix://{DOCKER_SOCKET}")
    try:
        detail = f"engine {asyncio.run(docker_version())} at {host}"
    except InfrastructureError as error:
        there = not host.startswith("unix://") or Path(host.removeprefix("unix://")).exists()
        remedy = "install and start a Docker engine (Debian: apt-get install docker.io)"
        return _failed_check(
            _DOCKER, CheckState.BROKEN if there else CheckState.MISSING, error, needed_for, remedy=remedy
        )
    return Check(name=_DOCKER, state=CheckState.OK, detail=detail, needed_for=needed_for)


def check_compose() -> Check:
    """The engine's compose plugin runs tasks with several containers."""
    needed_for = "tasks with several containers (`docker-compose.yaml` of Harbor's format)"
    version = asyncio.run(compose_version())
    if version is None:
        remedy = "install docker-compose-plugin from Docker's packages, so that `docker compose version` works"
        return Check(
            name="docker compose", state=CheckState.MISSING, detail="not found", needed_for=needed_for, remedy=remedy
        )
    return Check(name="docker compose", state=CheckState.OK, detail=f"plugin {version}", needed_for=needed_for)


def check_limits() -> Check:
    """What holds the limits of local environments."""
    held = held_limits()
    detail = ", ".join(f"{limit.name} {limit.how}" for limit in held)
    whole = all(limit.whole for limit in held)
    return Check(
        name="limits",
        state=CheckState.OK if whole else CheckState.MISSING,
        detail=detail,
        needed_for="limits of whole environments on this machine (`--memory`, `--processes`, `--disk`)",
        remedy="" if whole else "delegate control groups to this user: `systemd-run --user --scope proctor …`",
    )


def check_container_limits() -> Check:
    """Which limits the Docker engine can hold."""
    needed_for = "limits of containers (`--memory`, `--processes`, `--disk` with `--runner docker`)"
    remedy = "start the engine on a kernel with the memory and pids control groups"
    try:
        held = asyncio.run(docker_limits())
    except InfrastructureError as error:
        return _failed_check("container limits", CheckState.MISSING, error, needed_for, remedy=remedy)
    lacking = [name for name, holds in held.items() if not holds]
    return Check(
        name="container limits",
        state=CheckState.BROKEN if lacking else CheckState.OK,
        detail=f"not held: {', '.join(lacking)}" if lacking else f"the engine holds {', '.join(held)}",
        needed_for=needed_for,
        remedy=remedy if lacking else "",
    )


def check_claude() -> Check:
    """Claude Code is the agent of baseline mode and of most pods."""
    return _program_check(
        "claude",
        find_claude(),
        needed_for="running tasks with Claude Code",
        remedy="pip install claude-agent-sdk, which contains it, or install Claude Code, or set CLAUDE_BIN",
    )


def agent_checks() -> Sequence[Callable[[], Check]]:
    """A check for each agent that is one program."""
    found = []
    for name in agent_names():
        kind = agent_class(name)
        if issubclass(kind, ProgramAgent):
            found.append(partial(check_agent, kind))
    return found


def check_agent(kind: type[ProgramAgent]) -> Check:
    """The program of an agent, as the agent itself finds it."""
    needed_for = f"running tasks with --agent {kind.name}"
    try:
        versions = kind().versions()
    except InfrastructureError as error:
        return _failed_check(kind.name, CheckState.MISSING, error, needed_for, remedy=kind.remedy)
    return Check(name=kind.name, state=CheckState.OK, detail=versions[kind.name], needed_for=needed_for)


def check_h2() -> Check:
    """h2 runs pods of agents."""
    needed_for = "h2 mode: pods of agents"
    remedy = "build h2 from its repository and put it on PATH, or set H2_BIN"
    program = find_h2()
    if program is None:
        return Check(name="h2", state=CheckState.MISSING, detail="not found", needed_for=needed_for, remedy=remedy)
    try:
        detail = f"{h2_version(program.path)}, from {program.found_via}: {program.path}"
    except InfrastructureError as error:
        fix = error.fix or remedy
        return Check(
            name="h2",
            state=CheckState.BROKEN,
            detail=f"{program.path}: {error.what}",
            needed_for=needed_for,
            remedy=fix,
        )
    return Check(name="h2", state=CheckState.OK, detail=detail, needed_for=needed_for)


def suite_checks() -> Sequence[Callable[[], Check]]:
    """A check for each program that a kind of suites runs its tests with."""
    needed = [one for kind in registered_kinds().values() for one in kind.requirements()]
    return [
        partial(_program_check, one.name, one.location, needed_for=one.needed_for, remedy=one.remedy) for one in needed
    ]


def check_node() -> Check:
    """Node runs the JavaScript tasks of the shipped suites."""
    return _program_check(
        "node",
        find_program("node"),
        needed_for="the JavaScript tasks of the suite `core`",
        remedy="install Node.js 18 or newer (Debian: apt-get install nodejs)",
    )


def check_credentials() -> Check:
    """Keys of model providers, or a login."""
    needed_for = "runs with a real model (scripts and replays need none)"
    found = [name for name in _KEYS if os.environ.get(name)]
    login = Path.home() / ".h2/claude-config/default/.credentials.json"
    detail = f"{', '.join(found)} {'is' if len(found) == 1 else 'are'} set" if found else ""
    if login.is_file() and not {*found} & {*_ANTHROPIC_KEYS}:
        detail = "; ".join(part for part in (detail, f"a login in {login.parent}") if part)
    if detail:
        return Check(name="credentials", state=CheckState.OK, detail=detail, needed_for=needed_for)
    remedy = (
        "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, "
        "or log in with `CLAUDE_CONFIG_DIR=~/.h2/claude-config/default claude`"
    )
    return Check(
        name="credentials", state=CheckState.MISSING, detail="no key and no login", needed_for=needed_for, remedy=remedy
    )


def check_disk() -> Check:
    """Disk space for workspaces, images and results."""
    needed_for = "workspaces, images, results"
    home = Path.home()
    free = shutil.disk_usage(home).free
    detail = f"{free / 10**9:.0f} GB free in {home}"
    if free < MIN_DISK_BYTES:
        return Check(
            name="disk",
            state=CheckState.BROKEN,
            detail=detail,
            needed_for=needed_for,
            remedy="free some space; SWE-bench images alone take 1 to 3 GB each",
        )
    return Check(name="disk", state=CheckState.OK, detail=detail, needed_for=needed_for)


CHECKS: Final[Sequence[Callable[[], Check]]] = (
    check_git,
    check_bubblewrap,
    check_limits,
    check_docker,
    check_compose,
    check_container_limits,
    check_claude,
    check_h2,
    check_node,
    check_credentials,
    check_disk,
)


def _program_check(
    name: str,
    program: ProgramLocation | None,
    *,
    needed_for: str,
    remedy: str,
    arguments: Sequence[str] = ("--version",),
    required: bool = False,
) -> Check:
    if program is None:
        state, detail = CheckState.MISSING, "not found"
    else:
        try:
            detail = f"{first_line([program.path, *arguments])}, from {program.found_via}: {program.path}"
            return Check(name=name, state=CheckState.OK, detail=detail, needed_for=needed_for, required=required)
        except OSError as error:
            state, detail = CheckState.BROKEN, f"{program.path}: {_text(error)}"
    return Check(name=name, state=state, detail=detail, needed_for=needed_for, remedy=remedy, required=required)


def _failed_check(
    name: str, state: CheckState, error: InfrastructureError | OSError, needed_for: str, *, remedy: str
) -> Check:
    """A check that failed with an error; the error's own advice comes first."""
    if isinstance(error, InfrastructureError):
        return Check(name=name, state=state, detail=error.what, needed_for=needed_for, remedy=error.fix or remedy)
    return Check(name=name, state=state, detail=_text(error), needed_for=needed_for, remedy=remedy)


def _text(error: OSError) -> str:
    return error.strerror or str(error)
