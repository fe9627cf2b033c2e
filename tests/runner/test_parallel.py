import asyncio
import itertools

import pytest

from proctor.runner.parallel import run_in_parallel


async def test_a_few_at_a_time_and_in_the_order_of_the_items() -> None:
    running = most = 0

    async def work(item: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (5 - item % 5))
        running -= 1
        return item * 2

    assert await run_in_parallel(work, range(20), 3) == tuple(range(0, 40, 2))
    assert most == 3


async def test_items_are_taken_as_they_are_needed() -> None:
    taken = itertools.count(1)

    async def work(item: int) -> None:
        await asyncio.sleep(0)
        if item == 10:
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        await run_in_parallel(work, taken, 2)
    assert next(taken) < 15


async def test_the_first_error_cancels_the_others_and_stands_for_all() -> None:
    cancelled = []

    async def work(item: int) -> None:
        try:
            await asyncio.sleep(0.01 if item == 1 else 60)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await run_in_parallel(work, range(3), 3)
    assert sorted(cancelled) == [0, 2]


async def test_being_cancelled_is_not_an_error() -> None:
    working = asyncio.create_task(run_in_parallel(asyncio.sleep, [60, 60], 2))
    await asyncio.sleep(0.01)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
