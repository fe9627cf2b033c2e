"""Many test runs at once, or one alone: a failure counts only when nothing else was running beside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SharedExclusiveLock:
    """A floor that many share until somebody needs it alone.

    Who wants it alone waits for those on it, and new ones wait meanwhile, so that it is not put off for ever.
    """

    def __init__(self) -> None:
        self._condition = asyncio.Condition()
        self._shared_holders = 0
        self._exclusive_held = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """On the floor with others."""
        async with self._condition:
            await self._condition.wait_for(lambda: not self._exclusive_held)
            self._shared_holders += 1
        try:
            yield
        finally:
            async with self._condition:
                self._shared_holders -= 1
                self._condition.notify_all()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Nobody else on the floor."""
        async with self._condition:
            await self._condition.wait_for(lambda: not self._exclusive_held)
            self._exclusive_held = True
        try:
            async with self._condition:
                await self._condition.wait_for(lambda: self._shared_holders == 0)
            yield
        finally:
            async with self._condition:
                self._exclusive_held = False
                self._condition.notify_all()
