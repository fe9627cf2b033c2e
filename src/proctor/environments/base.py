"""What environments of every kind do alike."""

import asyncio
from abc import ABC, abstractmethod

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
