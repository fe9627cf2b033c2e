"""Doing many things a few at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


async def run_in_parallel(work: Callable[[A], Awaitable[B]], items: Iterable[A], jobs: int) -> tuple[B, ...]:
    """Do `work` on every item, at most `jobs` at once; results in the order of the items.

    Only `jobs` items are under way at any time, however many there are. The first error cancels the others.
    """
    results: dict[int, B] = {}
    queue = enumerate(items)

    async def worker() -> None:
        for number, item in queue:
            results[number] = await work(item)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, jobs)):
                group.create_task(worker())
    except BaseExceptionGroup as group_error:
        # One error stands for all: the others were cancelled because of it.
        raise group_error.exceptions[0] from None
    return tuple(results[number] for number in sorted(results))
