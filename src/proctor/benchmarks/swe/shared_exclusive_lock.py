"""A lock for test runs: many at once, or one with nothing else running, after which a failure counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class SharedExclusiveLock:
    """Held by many at once, or by one exclusively.

    An exclusive request waits for the shared holders; new shared requests wait for it, so that it is not starved.
    """

    def __init__(self) -> None:
        self._condition = asyncio.Condition()
        self._shared_holders = 0
        self._exclusive_held = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """Hold it together with others."""
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
        """Hold it alone."""
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
