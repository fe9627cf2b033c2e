"""What environments of every kind do alike."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from proctor.core.environment import Checkpoint, Environment, Network
from proctor.core.errors import InfrastructureError, UsageError
from proctor.environments.limit_monitor import LimitMonitor


class BaseEnvironment(ABC):
    """An environment that is stopped once, however many ask for it, and at the end of its block."""

    def __init__(self, limit_monitor: LimitMonitor) -> None:
        self._limit_monitor = limit_monitor
        self._stopping: asyncio.Task[None] | None = None

    async def checkpoint(self) -> Checkpoint | None:
        """None: no copies can be made of it."""
        return None

    @property
    def default_user(self) -> str:
        """Empty: commands run as who may do all."""
        return ""

    @property
    def refused_hosts(self) -> tuple[str, ...]:
        """None by default."""
        return ()

    async def set_network(self, network: Network, allowed_hosts: Sequence[str] = ()) -> None:  # noqa: B027 - a default
        """Its network stays as it is."""

    def start_commands_with(self, shell: str) -> None:  # noqa: B027 - a default
        """They are started without a shell."""

    def service(self, name: str) -> Environment:
        """There is none."""
        raise InfrastructureError(f"there is no service {name!r} beside the environment")

    async def stop(self) -> None:
        """End every process of the environment and free what it used."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    @abstractmethod
    async def _stop(self) -> None: ...

    def _require_not_stopped(self) -> None:
        if self._stopping is not None:
            raise UsageError("the environment has been stopped")

    def _require_alive(self) -> None:
        """Also refuse an environment that a limit has ended."""
        self._require_not_stopped()
        self._limit_monitor.check()
