"""The sandboxes of a run: made once, handed out, reset before each use."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from proctor.sandboxes import Sandbox, Sandboxes


class Homes:
    """A pool of sandboxes. As many as are in use at once are made; all are destroyed in the end."""

    def __init__(self, root: Path, *, preset: str, model: str | None) -> None:
        self._sandboxes = Sandboxes(root)
        self._preset = preset
        self._model = model
        self._free: list[str] = []
        self._made = 0

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Sandbox]:
        """A sandbox as its preset made it, for the length of the block."""
        if self._free:
            name = self._free.pop()
            home = await asyncio.to_thread(self._sandboxes.reset, name)
        else:
            self._made += 1
            name = f"s{self._made}"
            home = await asyncio.to_thread(self._sandboxes.create, name, preset=self._preset, model=self._model)
        try:
            yield home
        finally:
            self._free.append(name)

    async def close(self) -> None:
        """Stop whatever runs in them, and remove them."""
        while self._free:
            await asyncio.to_thread(self._sandboxes.destroy, self._free.pop())
