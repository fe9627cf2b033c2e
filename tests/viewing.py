"""A viewer at work, for tests and for pictures."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from proctor.report.run_index import RunIndex
from proctor.report.viewer import serve
from proctor.results import RunStore


@asynccontextmanager
async def viewer(root: Path, chosen: Sequence[RunStore] = ()) -> AsyncIterator[str]:
    """Serve the runs below a folder; its address, without the last slash."""
    stopped = asyncio.Event()
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(RunIndex(root, chosen), port=0, strict_port=False, on_ready=address.set_result, stop=stopped)
    )
    try:
        yield (await address).rstrip("/")
    finally:
        stopped.set()
        await serving
