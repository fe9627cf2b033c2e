"""The limits of a whole environment that nothing in the kernel holds for us: its wall clock, and its disk."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from proctor.core.environment import Limits
from proctor.core.errors import LimitReached

_POLL_SECONDS: Final = 1.0
_POLL_PAUSE_FACTOR: Final = 20


class LimitMonitor:
    """Watches an environment from the outside and ends its processes when a limit is reached.

    Args:
        limits: the environment's.
        used_bytes: measures what the environment has written; may raise LimitReached itself.
        terminate: ends every process of the environment.

    Attributes:
        reached: the limit that has ended the environment; None while it runs.
    """

    def __init__(
        self, limits: Limits, used_bytes: Callable[[], Awaitable[int]], terminate: Callable[[], Awaitable[None]]
    ) -> None:
        self.reached: LimitReached | None = None
        self._used_bytes = used_bytes
        self._terminate = terminate
        self._tasks: list[asyncio.Task[None]] = []
        if limits.wall_seconds is not None:
            self._tasks.append(asyncio.create_task(self._watch_clock(limits.wall_seconds)))
        if limits.disk_mb is not None:
            self._tasks.append(asyncio.create_task(self._watch_disk(limits.disk_mb << 20)))

    def check(self) -> None:
        """Raise the limit that has been reached, if one has."""
        if self.reached is not None:
            raise self.reached

    async def stop(self) -> None:
        """Watch no more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _watch_clock(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._limit_reached(LimitReached("wall clock of the environment", value=seconds, limit=seconds))

    async def _watch_disk(self, limit: int) -> None:
        pause = _POLL_SECONDS
        while True:
            await asyncio.sleep(pause)
            started = time.monotonic()
            try:
                used = await self._used_bytes()
            except LimitReached as error:
                await self._limit_reached(error)
                return
            if used > limit:
                await self._limit_reached(
                    LimitReached("disk of the environment, in MB,", value=used >> 20, limit=limit >> 20)
                )
                return
            # Looking takes a twentieth of one processor at most.
            pause = max(_POLL_SECONDS, _POLL_PAUSE_FACTOR * (time.monotonic() - started))

    async def _limit_reached(self, limit: LimitReached) -> None:
        if self.reached is None:
            self.reached = limit
            await self._terminate()
