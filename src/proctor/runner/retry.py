"""When an attempt or a grading that failed without the agent's fault is repeated, and after how long."""

from collections.abc import Sequence
from typing import Final

from proctor.core.causes import CONSEQUENCES, Cause

DEFAULT_RETRY_SECONDS: Final = 2.0
_MAX_SECONDS: Final = 120.0
# A trial, or a submission, that has lost so many nodes may be what ended them.
MAX_FREE_RETRIES: Final = 10


def stops_run(cause: Cause | None) -> bool:
    """Whether no later task can fare better, so that the run ends now and can be resumed."""
    return cause is not None and CONSEQUENCES[cause].stops_run


def is_retried(cause: Cause | None, failures: int, retries: int) -> bool:
    """Whether what failed for this cause, for the `failures`-th time, is tried again at the cost of a retry."""
    if cause is None or CONSEQUENCES[cause].free_retry:
        return False
    return CONSEQUENCES[cause].retry and failures <= retries


def counted_failures(causes: Sequence[Cause | None]) -> int:
    """How many attempts that ended for these causes use up a retry."""
    return sum(cause is None or not CONSEQUENCES[cause].free_retry for cause in causes)


def another_attempt(causes: Sequence[Cause | None], retries: int) -> bool:
    """Whether another attempt at a trial follows those that ended for these causes, one after the other."""
    last, failures = causes[-1], counted_failures(causes)
    if last is not None and CONSEQUENCES[last].free_retry:
        return len(causes) - failures <= MAX_FREE_RETRIES
    return is_retried(last, failures, retries)


def retry_delay(failures: int, base_seconds: float, jitter: float) -> float:
    """How long to wait after the `failures`-th failure: doubling, with up to half of it more by `jitter` (0 to 1)."""
    return min(base_seconds * 2.0 ** max(failures - 1, 0), _MAX_SECONDS) * (1 + jitter / 2)
