"""Syncs the recordings of all sessions to the disk, in a thread of its own."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from proctor.gateway.recorder import Recorder


class SyncQueue:
    """Syncs recordings. Those that arrive while the disk is busy share the next turn, one sync per file."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recordings")
        self._pending: dict[Recorder, list[asyncio.Future[None]]] = {}
        self._syncing: asyncio.Task[None] | None = None

    async def sync(self, recorder: Recorder) -> None:
        """Return when all that the recorder has written would survive a power cut.

        Raises:
            OSError: it cannot be synced.
        """
        done = asyncio.get_running_loop().create_future()
        self._pending.setdefault(recorder, []).append(done)
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_all())
        await done

    async def run(self, function: Callable[[], None]) -> None:
        """Run something after the syncs that are under way, as closing a file is."""
        await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown()

    async def _sync_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                batch, self._pending = self._pending, {}
                outcomes = await loop.run_in_executor(self._thread, _sync, list(batch))
                for waiting, error in zip(batch.values(), outcomes, strict=True):
                    for done in waiting:
                        if done.done():
                            continue
                        if error is None:
                            done.set_result(None)
                        else:
                            done.set_exception(error)
        finally:
            self._syncing = None


def _sync(recorders: list[Recorder]) -> list[OSError | None]:
    outcomes: list[OSError | None] = []
    for recorder in recorders:
        try:
            recorder.sync()
        except OSError as error:
            outcomes.append(error)
        else:
            outcomes.append(None)
    return outcomes
