"""What environments of every kind do alike, and what all of them ask of a command and of a path."""

import asyncio
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from proctor.core.environment import Environment
from proctor.core.errors import UsageError
from proctor.environments.limit_monitor import LimitMonitor


class BaseEnvironment(Environment, ABC):
    """An environment that is stopped once, however many ask for it."""

    workdir = ""
    digest = ""

    def __init__(self, limit_monitor: LimitMonitor) -> None:
        self._limit_monitor = limit_monitor
        self._stopping: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        """End every process of the environment and free what it used."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    @abstractmethod
    async def _stop(self) -> None: ...

    def _require_not_stopped(self) -> None:
        if self._stopping is not None:
            raise UsageError("the environment has been stopped")

    def _require_alive(self) -> None:
        """Also refuse an environment that a limit has ended."""
        self._require_not_stopped()
        self._limit_monitor.check()


def check_command(argv: Sequence[str], variables: Mapping[str, str], cwd: str) -> None:
    """Refuse what no program can be started with."""
    if not argv or not argv[0]:
        raise UsageError("there is no command to run")
    if any("\0" in text for text in (*argv, *variables, *variables.values(), cwd)):
        raise UsageError("a command cannot hold a NUL byte", where=argv[0])
    if any(not name or "=" in name for name in variables):
        raise UsageError("a variable's name is empty or holds '='", where=argv[0])


def split_path(path: str) -> tuple[str, str]:
    """The directory and the name of an absolute path inside an environment."""
    folder, name = posixpath.split(posixpath.normpath(path))
    if not folder.startswith("/") or not name or "\0" in path:
        raise UsageError(f"a path in an environment must be absolute, and not the root: {path!r}")
    return folder, name
