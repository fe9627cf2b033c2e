"""When an attempt or a grading that failed without the agent's fault is repeated, and after how long."""

from typing import Final

from proctor.core.causes import CONSEQUENCES, Cause

DEFAULT_RETRY_SECONDS: Final = 2.0
_MAX_SECONDS: Final = 120.0
# A trial that has lost so many nodes may be what ended them.
MAX_FREE_RETRIES: Final = 10


def stops_run(cause: Cause | None) -> bool:
    """Whether no later task can fare better, so that the run ends now and can be resumed."""
    return cause is not None and CONSEQUENCES[cause].stops_run


def is_retried(cause: Cause | None, failures: int, retries: int) -> bool:
    """Whether what failed for this cause, for the `failures`-th time, is tried again."""
    return cause is not None and CONSEQUENCES[cause].retry and failures <= retries


class FailureCount:
    """The attempts at one trial that failed without the agent's fault."""

    def __init__(self, retries: int) -> None:
        self._retries = retries
        self._free = 0
        self.failures = 0

    def is_retried(self, cause: Cause | None) -> bool:
        """Count an attempt that ended for this cause; whether there is another one."""
        if cause is not None and CONSEQUENCES[cause].free_retry:
            self._free += 1
            return self._free <= MAX_FREE_RETRIES
        self.failures += 1
        return is_retried(cause, self.failures, self._retries)


def retry_delay(failures: int, base_seconds: float, jitter: float) -> float:
    """How long to wait after the `failures`-th failure: doubling, with up to half of it more by `jitter` (0 to 1)."""
    return min(base_seconds * 2.0 ** max(failures - 1, 0), _MAX_SECONDS) * (1 + jitter / 2)
