"""Who works on a run: a lock that the kernel drops with its holder, and for other machines a sign of life.

A kernel lists the locks of its own processes only. So the holder also writes into the lock file which machine it is on,
and touches the file as long as it works: who reads it on another machine, or in another container, sees that.
"""

import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from proctor.core.files import file_lock
from proctor.results.store import RunStore

LOCK_FILE: Final = ".lock"
_BEAT_SECONDS: Final = 5.0
_SILENT_SECONDS: Final = 30.0  # also where clocks differ a little
_MAX_MARK: Final = 200


@asynccontextmanager
async def hold_runs(stores: Iterable[RunStore]) -> AsyncIterator[None]:
    """Work on runs, alone.

    Raises:
        RetryableError: another process works on one of them.
    """
    import asyncio

    with ExitStack() as stack:
        held = [
            stack.enter_context(file_lock(store.folder / LOCK_FILE, what=f"run {store.name}", wait_seconds=0))
            for store in stores
        ]
        for descriptor in held:
            _write_mark(descriptor, _this_machine())
        beating = asyncio.create_task(_beat(held))
        try:
            yield
        finally:
            beating.cancel()
            for descriptor in held:
                _write_mark(descriptor, b"")


def _write_mark(descriptor: int, mark: bytes) -> None:
    with suppress(OSError):  # it is for others to see: a full disk must not end a session here
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, mark, 0)


async def _beat(descriptors: Iterable[int]) -> None:
    import asyncio  # reports look at locks too, and need no event loop

    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        for descriptor in descriptors:
            with suppress(OSError):
                os.utime(descriptor)


@cache
def _this_machine() -> bytes:
    """What differs where the kernel's list of locks does: the machine, since it was started, and the container."""
    with suppress(OSError):
        started = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{started} {os.readlink('/proc/self/ns/pid')}".encode()  # noqa: PTH115 - not a path
    return os.uname().nodename.encode()


def is_held_elsewhere(store: RunStore) -> bool:
    """Whether a session works on a run on another machine that shares the folder, or in another container."""
    file = store.folder / LOCK_FILE
    try:
        status = file.stat()
        if not status.st_size or time.time() - status.st_mtime > _SILENT_SECONDS:
            return False
        with file.open("rb") as opened:
            return opened.read(_MAX_MARK) != _this_machine()
    except PermissionError:
        return True  # another user's; it has just been touched
    except OSError:
        return False
