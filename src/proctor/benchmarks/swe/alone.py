"""Many test runs at once, or one alone: a failure counts only when nothing else was running beside it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Floor:
    """A floor that many share until somebody needs it alone.

    Who wants it alone waits for those on it, and new ones wait meanwhile, so that it is not put off for ever.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._on_it = 0
        self._taken = False

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """On the floor with others."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._taken)
            self._on_it += 1
        try:
            yield
        finally:
            async with self._changed:
                self._on_it -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Nobody else on the floor."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._taken)
            self._taken = True
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._on_it == 0)
            yield
        finally:
            async with self._changed:
                self._taken = False
                self._changed.notify_all()
