"""Waiting in tests: for the thing itself, with so much time that only what never comes is given up on."""

import asyncio
import time
from collections.abc import Callable, Iterator

# Nothing is proven by how soon something happens, and a machine may be busy with other things.
PATIENCE = 60.0
# For each second that looking takes, as at all processes, so many pass without: what is waited for needs the processor.
_REST = 3


def until(happens: Callable[[], object], what: str = "it", *, seconds: float = PATIENCE, pause: float = 0.01) -> None:
    """Wait for a condition."""
    for rest in _rests(happens, what, seconds, pause):
        time.sleep(rest)


async def eventually(
    happens: Callable[[], object], what: str = "it", *, seconds: float = PATIENCE, pause: float = 0.01
) -> None:
    """Wait for a condition, while the event loop goes on."""
    for rest in _rests(happens, what, seconds, pause):
        await asyncio.sleep(rest)


def _rests(happens: Callable[[], object], what: str, seconds: float, pause: float) -> Iterator[float]:
    """How long to wait until the next look, until it happens; a pause of 0 is none."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if happens():
            return
        looked = time.monotonic()
        assert looked < deadline, f"{what} did not happen within {seconds:g} s"
        yield pause and max(pause, _REST * (looked - began))


async def rounds(count: int = 30) -> None:
    """Let the event loop go round so often that all that is ready, and what follows from it, has been handled."""
    for _ in range(count):
        await asyncio.sleep(0.001)


async def steady(measure: Callable[[], int]) -> int:
    """The value of something that grows, once it has begun to and does not any more."""
    await eventually(measure, "its growth")
    while True:
        before = measure()
        await rounds(100)
        if measure() == before:
            return before


def limits(first: float) -> Iterator[float]:
    """Time limits to try in turn, each longer: on a busy machine what should happen first may take more than a few."""
    yield first
    yield 4 * first
    yield max(16 * first, PATIENCE)
