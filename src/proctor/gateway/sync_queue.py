"""Syncs the recordings of all sessions to the disk.

What is written survives a kill of this process at once, and a power cut when it is synced. A request waits for its mark
to be synced where the disk takes a fraction of a millisecond for that. On a slower disk it does not: a power cut may
then lose the marks of the last moments, a kill none.

A disk that takes so little is synced at once, by whoever asks: to give the work to a thread, and to get it back, takes
as long, and more of the processor. Any other is synced in a thread.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

# What a request may wait for on average; all that the gateway does takes less than a millisecond.
MAX_WAIT_SECONDS: Final = 0.0005
# For how long all other requests may wait, too.
MAX_BLOCK_SECONDS: Final = 0.0005
_WEIGHT_OF_LAST: Final = 0.2
# A slow disk that nobody waits for is asked this much later: meanwhile the thread would take time from the response.
_DELAY_SECONDS: Final = 0.003


class Syncable(Protocol):
    """A file that can be synced, in any thread."""

    def sync(self) -> None:
        """Sync what was written; raises `OSError` where that fails."""
        ...


class SyncQueue:
    """Syncs recordings. Those that arrive while the disk is busy share the next turn, one sync per file.

    Args:
        max_wait_seconds: a disk that takes longer on average is not waited for.
    """

    def __init__(self, max_wait_seconds: float = MAX_WAIT_SECONDS) -> None:
        self._max_wait_seconds = max_wait_seconds
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recordings")
        self._pending: dict[Syncable, list[asyncio.Future[None]]] = {}
        self._errors: dict[Syncable, OSError] = {}
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._average_seconds = 0.0

    async def sync(self, recording: Syncable) -> None:
        """Sync all that the recording has written, and wait for it unless the disk is slow.

        Raises:
            OSError: it, or what was written before, cannot be synced.
        """
        loop = asyncio.get_running_loop()
        limit = min(self._max_wait_seconds, MAX_BLOCK_SECONDS)
        if self._average_seconds <= limit and self._syncing is None:
            self._add_result(*_sync([recording]))
        elif self._average_seconds > self._max_wait_seconds:
            self._pending.setdefault(recording, [])
            if self._syncing is None and self._timer is None:
                self._timer = loop.call_later(_DELAY_SECONDS, self._start)
        else:
            done = loop.create_future()
            self._pending.setdefault(recording, []).append(done)
            self._start()
            await done
        if (error := self._errors.get(recording)) is not None:
            raise error

    async def run(self, function: Callable[[], None]) -> None:
        """Run something after the syncs that are under way, as closing a file is."""
        await asyncio.get_running_loop().run_in_executor(self._thread, function)

    async def close(self) -> None:
        """Finish what was asked for, and end the thread."""
        if self._pending:
            self._start()
        while self._syncing is not None:
            await asyncio.wait({self._syncing})
        self._thread.shutdown()

    def _start(self) -> None:
        """Sync what is pending, unless that is under way."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_all())

    async def _sync_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                batch, self._pending = self._pending, {}
                self._add_result(*await loop.run_in_executor(self._thread, _sync, list(batch)))
                for done in (done for waiting in batch.values() for done in waiting if not done.done()):
                    done.set_result(None)
        finally:
            self._syncing = None

    def _add_result(self, errors: dict[Syncable, OSError], seconds: float) -> None:
        self._errors |= errors
        self._average_seconds += _WEIGHT_OF_LAST * (seconds - self._average_seconds)


def _sync(recorders: list[Syncable]) -> tuple[dict[Syncable, OSError], float]:
    """Sync files; those that failed, and how long one took."""
    errors: dict[Syncable, OSError] = {}
    start = time.perf_counter()
    for recorder in recorders:
        try:
            recorder.sync()
        except OSError as error:
            errors[recorder] = error
    return errors, (time.perf_counter() - start) / len(recorders)
