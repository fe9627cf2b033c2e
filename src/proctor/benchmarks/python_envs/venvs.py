"""Virtual environments in the cache: built once in an environment with network, then mounted in others without.

Cache layout below ``<cache>/python_envs``: ``<benchmark>/<kind>/<key>`` for what was built, ``pip`` for pip's own
cache, ``logs`` for one log per build.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from proctor.benchmarks.python_envs.interpreters import Interpreter
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Mount, Network
from proctor.core.errors import InfrastructureError, RetryableError
from proctor.core.files import cache_root, file_lock
from proctor.environments.visibility import PATH, is_visible

VENV_DIR: Final = "/venv"
BUILD_SECONDS: Final = 3600.0
_PIP_CACHE: Final = "/pip-cache"
_LOCK_POLL_SECONDS: Final = 0.2
# How a user's machine reaches its package index.
_PASSED_VARIABLES: Final = ("PIP_", "SSL_CERT_", "REQUESTS_CA_", "CURL_CA_")
_OFFLINE_MESSAGES: Final = (
    "Temporary failure in name resolution",
    "Failed to establish a new connection",
    "Read timed out",
    "Network is unreachable",
    "Connection refused",
    "ProxyError",
)


def cache_dir(*parts: str) -> Path:
    """A folder of this package's cache."""
    return cache_root().absolute().joinpath("python_envs", *parts)


def venv_variables() -> dict[str, str]:
    """The environment variables of an environment in which the virtual environment is active."""
    return {"PATH": ":".join((f"{VENV_DIR}/bin", *PATH)), "VIRTUAL_ENV": VENV_DIR}


@asynccontextmanager
async def build_once(target: Path) -> AsyncIterator[Path | None]:
    """A folder to fill, which is moved to `target` when the block ends without an error; None when `target` exists.

    Other tasks and other processes wait here while one of them builds.
    """
    if _is_built(target):
        yield None
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with await lock_build(target):
        if _is_built(target):
            yield None
            return
        partial = target.with_name(f".{target.name}.partial")
        await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)
        partial.mkdir()
        try:
            yield partial
            partial.rename(target)
        finally:
            await asyncio.to_thread(shutil.rmtree, partial, ignore_errors=True)


def _is_built(target: Path) -> bool:
    return target.is_dir()


async def lock_build(target: Path) -> ExitStack:
    """The lock on a build. It is polled, so that no thread waits and a cancelled task leaves nothing locked."""
    stack = ExitStack()
    while True:
        try:
            stack.enter_context(file_lock(target.with_name(f".{target.name}.lock"), what=target.name, wait_seconds=0))
        except RetryableError:
            await asyncio.sleep(_LOCK_POLL_SECONDS)
        else:
            return stack


class VenvBuild:
    """A running build: `environment` has the network, the interpreter, and the virtual environment writable."""

    def __init__(self, environment: Environment, log: Path) -> None:
        self.environment = environment
        self._log = log

    async def run(self, script: str) -> bytes:
        """Run a shell script with the virtual environment active; what it printed to standard output.

        Raises:
            RetryableError: a package index cannot be reached.
            InfrastructureError: the script fails, with cause NOT_RUNNABLE_HERE.
        """
        done = await self.environment.exec(["/bin/bash", "-c", f"set -e\n{script}"], timeout=BUILD_SECONDS)
        with self._log.open("ab") as log:
            log.write(b"$ %s\n%s%s" % (script.encode("utf-8", "surrogateescape"), done.stdout, done.stderr))
            log.write(b"[exit code %d after %.1f s]\n" % (done.exit_code, done.seconds))
        if done.exit_code:
            raise build_error(
                "its Python environment", script, (done.stdout + done.stderr).decode(errors="replace"), self._log
            )
        return done.stdout


@asynccontextmanager
async def open_build(
    provider: EnvironmentProvider,
    python: Interpreter,
    venv: Path,
    *,
    name: str,
    task_id: str,
    workdir: str,
    workspace: Path | None = None,
) -> AsyncIterator[VenvBuild]:
    """An environment in which the virtual environment in the folder `venv` is made or changed; `name` names its log."""
    pip, log = cache_dir("pip"), cache_dir("logs") / f"{name}.log"
    pip.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    spec = EnvironmentSpec(
        workspace=workspace,
        workdir=workdir,
        network=Network.OPEN,
        mounts=(
            *python.mounts,
            Mount(source=str(venv), target=VENV_DIR, writable=True),
            Mount(source=str(pip), target=_PIP_CACHE, writable=True),
            *wheel_mounts(),
        ),
        variables={
            **build_variables(),
            **venv_variables(),
            "PIP_CACHE_DIR": _PIP_CACHE,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        },
        limits=Limits(),
        labels={"task": task_id},
    )
    async with await provider.start(spec) as environment:
        yield VenvBuild(environment, log)


def build_variables(*prefixes: str) -> dict[str, str]:
    """The variables of this machine that say how package indexes are reached; `prefixes` begin the names of more."""
    passed = (*_PASSED_VARIABLES, *prefixes)
    return {
        name: value for name, value in os.environ.items() if name.startswith(passed) or name.lower().endswith("_proxy")
    }


def wheel_mounts() -> tuple[Mount, ...]:
    """Folders of this machine in which pip is configured to look for packages."""
    folders = [Path(word) for word in os.environ.get("PIP_FIND_LINKS", "").split()]
    return tuple(
        Mount(source=str(folder), target=str(folder))
        for folder in folders
        if folder.is_absolute() and folder.is_dir() and not is_visible(folder.resolve())
    )


def _error_line(lines: list[str]) -> str:
    """The line that says why a build failed: most programs end with it, and Maven with advice."""
    for place, line in enumerate(lines):
        if line.startswith("[ERROR] Failed to execute goal"):
            return " ".join(one.removeprefix("[ERROR]") for one in lines[place : place + 2])
    errors = [line for line in lines if line.lower().startswith("error")] or [line for line in lines if "rror" in line]
    return (errors or lines or ["no output"])[-1]


def build_error(what: str, script: str, output: str, log: Path) -> InfrastructureError:
    """Why a build failed, from what it printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = " ".join(_error_line(lines).split())[:300]
    if any(sign in output for sign in _OFFLINE_MESSAGES):
        return RetryableError(f"packages cannot be fetched: {last}", fix=f"check the network; the log is {log}")
    return InfrastructureError(
        f"{what} cannot be installed on this machine: {last}",
        fix=f"read {log}, or use --runner docker",
        cause=Cause.NOT_RUNNABLE_HERE,
        details=[script.strip().splitlines()[-1], *lines[-5:]],
    )
