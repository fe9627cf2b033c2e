"""Limits of processor time in tests: for a quiet machine, and as much longer as this one is slower now."""

import statistics
import time
from typing import Final

# What `_work` takes on a quiet machine.
_USUAL_SECONDS: Final = 0.035


def is_within(seconds: float, limit: float) -> bool:
    """Whether the processor time that something took is within its limit."""
    return seconds < limit or seconds / _slowness() < limit


def _slowness() -> float:
    """How many times as long as usual the processor takes here and now, where others share it."""
    return max(1.0, statistics.median(_work() for _ in range(9)) / _USUAL_SECONDS)


def _work() -> float:
    started = time.process_time()
    words: dict[int, str] = {}
    for number in range(200_000):
        words[number & 1023] = str(number)
    return time.process_time() - started
