"""Work that blocks, done in a thread, with an end when its caller is cancelled."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_in_thread(function: Callable[[], T], stop: Callable[[], None]) -> T:
    """Run `work` in a thread. A caller that is cancelled calls `stop`, and waits for the thread to end."""
    running = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop()
        await asyncio.wait([running])
        running.exception()
        raise
