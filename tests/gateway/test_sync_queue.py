import math
import threading
import time

import pytest

from proctor.gateway.sync_queue import SyncQueue
from waiting import eventually


class File:
    def __init__(self, error: OSError | None = None, *, seconds: float = 0.0) -> None:
        self.synced = 0
        self.threads: list[threading.Thread] = []
        self._error = error
        self._seconds = seconds

    def sync(self) -> None:
        self.synced += 1
        self.threads.append(threading.current_thread())
        time.sleep(self._seconds)
        if self._error is not None:
            raise self._error


SLOW = -1.0  # whatever the disk takes, it is more


async def test_a_fast_disk_is_waited_for() -> None:
    queue, file = SyncQueue(max_wait_seconds=60.0), File()
    await queue.sync(file)
    assert file.synced == 1
    await queue.close()


async def test_a_disk_that_takes_less_than_a_thread_does_is_synced_at_once() -> None:
    queue, file = SyncQueue(), File()
    waiting = queue.sync(file)
    with pytest.raises(StopIteration):
        waiting.send(None)
    assert file.threads == [threading.current_thread()]
    await queue.close()


async def test_requests_that_wait_for_a_slow_disk_do_not_stop_others() -> None:
    queue, file = SyncQueue(max_wait_seconds=math.inf), File(seconds=0.01)
    await queue.sync(file)
    await queue.sync(file)
    assert file.synced == 2
    assert file.threads[1] is not threading.current_thread()
    await queue.close()


async def test_a_failed_sync_is_raised_at_once() -> None:
    queue = SyncQueue()
    with pytest.raises(OSError, match="full"):
        await queue.sync(File(OSError("full")))
    await queue.close()


async def test_a_slow_disk_is_asked_soon_and_not_waited_for() -> None:
    queue, file = SyncQueue(max_wait_seconds=SLOW), File()
    for _ in range(5):
        await queue.sync(file)
    assert file.synced == 0
    await eventually(lambda: file.synced, "the sync")
    assert file.synced == 1, "those that come meanwhile share it"
    await queue.close()


async def test_what_is_pending_at_the_end_is_synced() -> None:
    queue, file = SyncQueue(max_wait_seconds=SLOW), File()
    await queue.sync(file)
    await queue.close()
    assert file.synced == 1


async def test_an_error_that_nobody_waited_for_is_raised_at_the_next_request() -> None:
    queue, file = SyncQueue(max_wait_seconds=SLOW), File(OSError("full"))
    await queue.sync(file)
    await eventually(lambda: file.synced, "the sync")
    await queue.close()
    with pytest.raises(OSError, match="full"):
        await queue.sync(file)
