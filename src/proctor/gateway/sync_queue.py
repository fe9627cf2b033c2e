"""Syncs the recordings of all sessions to the disk, in a thread of its own.

What is written survives a kill of this process at once, and a power cut when it is synced. A request waits for its mark
to be synced where the disk takes a fraction of a millisecond for that. On a slower disk it does not: a power cut may
then lose the marks of the last moments, a kill none.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection
from queue import SimpleQueue
from typing import Final, Protocol

# What a request may wait for on average; all that the gateway does takes less than a millisecond.
MAX_WAIT_SECONDS: Final = 0.0005
_WEIGHT_OF_LAST: Final = 0.2
# A slow disk that nobody waits for is asked this much later: meanwhile the thread would take time from the response.
_DELAY_SECONDS: Final = 0.003


_Job = Callable[[], None]


class Syncable(Protocol):
    """A file that can be synced, in another thread."""

    def sync(self) -> None:
        """Sync what was written; raises `OSError` where that fails."""
        ...


class SyncQueue:
    """Syncs recordings. Those that arrive while the disk is busy share the next turn, one sync per file.

    The thread is a plain one, not an executor's: the event loop waits for whatever it does in Python.

    Args:
        max_wait_seconds: a disk that takes longer on average is not waited for.
    """

    def __init__(self, max_wait_seconds: float = MAX_WAIT_SECONDS) -> None:
        self._max_wait_seconds = max_wait_seconds
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending: dict[Syncable, list[asyncio.Future[None]]] = {}
        self._errors: dict[Syncable, OSError] = {}
        self._is_syncing = False
        self._idle: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._average_seconds = 0.0

    async def sync(self, recording: Syncable) -> None:
        """Sync all that the recording has written, and wait for it unless the disk is slow.

        Raises:
            OSError: it, or what was written before, cannot be synced.
        """
        waiting = self._pending.setdefault(recording, [])
        loop = asyncio.get_running_loop()
        if self._average_seconds > self._max_wait_seconds:
            if not self._is_syncing and self._timer is None:
                self._timer = loop.call_later(_DELAY_SECONDS, self._start, loop)
        else:
            done = loop.create_future()
            waiting.append(done)
            self._start(loop)
            await done
        if (error := self._errors.get(recording)) is not None:
            raise error

    async def run(self, function: Callable[[], None]) -> None:
        """Run something after the syncs that are under way, as closing a file is; raises what it raises."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def run() -> None:
            try:
                function()
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                loop.call_soon_threadsafe(_fail, done, error)
            else:
                loop.call_soon_threadsafe(_succeed, done)

        self._put(run)
        await done

    async def close(self) -> None:
        """Finish what was asked for, and end the thread."""
        loop = asyncio.get_running_loop()
        if self._pending:
            self._start(loop)
        while self._is_syncing:
            self._idle = loop.create_future()
            await self._idle
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sync what is pending, unless a sync is under way: that starts the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_syncing or not self._pending:
            return
        self._is_syncing = True
        batch, self._pending = self._pending, {}

        def run() -> None:
            errors, seconds = _sync(batch)
            loop.call_soon_threadsafe(self._finish, loop, batch, errors, seconds)

        self._put(run)

    def _finish(
        self,
        loop: asyncio.AbstractEventLoop,
        batch: dict[Syncable, list[asyncio.Future[None]]],
        errors: dict[Syncable, OSError],
        seconds: float,
    ) -> None:
        self._errors |= errors
        self._average_seconds += _WEIGHT_OF_LAST * (seconds - self._average_seconds)
        for done in (done for waiting in batch.values() for done in waiting):
            _succeed(done)
        self._is_syncing = False
        self._start(loop)
        if self._idle is not None and not self._is_syncing:
            _succeed(self._idle)

    def _put(self, job: _Job) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="recordings", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            # The loop may have been closed meanwhile: then nobody waits.
            with contextlib.suppress(RuntimeError):
                job()


def _succeed(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _fail(done: asyncio.Future[None], error: Exception) -> None:
    if not done.done():
        done.set_exception(error)


def _sync(recorders: Collection[Syncable]) -> tuple[dict[Syncable, OSError], float]:
    """Sync files; those that failed, and how long one took."""
    errors: dict[Syncable, OSError] = {}
    start = time.perf_counter()
    for recorder in recorders:
        try:
            recorder.sync()
        except OSError as error:
            errors[recorder] = error
    return errors, (time.perf_counter() - start) / len(recorders)
