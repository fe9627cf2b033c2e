"""When an attempt or a grading that failed without the agent's fault is repeated, and after how long."""

from typing import Final

from proctor.core.causes import CONSEQUENCES, Cause

DEFAULT_RETRY_SECONDS: Final = 2.0
_MAX_SECONDS: Final = 120.0


def stops_run(cause: Cause | None) -> bool:
    """Whether no later task can fare better, so that the run ends now and can be resumed."""
    return cause is not None and CONSEQUENCES[cause].stops_run


def is_retried(cause: Cause | None, failures: int, retries: int) -> bool:
    """Whether what failed for this cause, for the `failures`-th time, is tried again."""
    return cause is not None and CONSEQUENCES[cause].retry and failures <= retries


def retry_delay(failures: int, base_seconds: float, jitter: float) -> float:
    """How long to wait after the `failures`-th failure: doubling, with up to half of it more by `jitter` (0 to 1)."""
    return min(base_seconds * 2.0 ** (failures - 1), _MAX_SECONDS) * (1 + jitter / 2)
