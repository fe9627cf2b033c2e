"""From errors to causes, for the one table of causes."""

import asyncio
import errno
import traceback
from collections.abc import Callable
from typing import Final

from proctor.core.causes import Cause
from proctor.core.errors import AgentFailure, InfrastructureError, InvalidData, LimitReached, ProctorError

# What the system says of files that nobody but their maker can have meant to be read: too long, too large, looped,
# in each other's place.
_ODD_FILES: Final = frozenset(
    {
        *(errno.ENAMETOOLONG, errno.ELOOP, errno.EFBIG, errno.EOVERFLOW, errno.EILSEQ, errno.EMLINK, errno.EINVAL),
        *(errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ENXIO, errno.ENODEV, errno.ETXTBSY),
    }
)
# What a mistake in a program looks like, of a plugin's mostly: a second try meets the same files.
_MISTAKES: Final = frozenset(
    {errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.EBADF, errno.EINVAL}
)
CRASH_LOG: Final = "crash.log"
_OUT_OF_REACH: Final = frozenset({errno.EACCES, errno.EPERM, errno.ENOENT, errno.EBUSY})


def cause_of(error: ProctorError | OSError) -> Cause:
    """Which cause an error that ended a stage stands for."""
    if isinstance(error, AgentFailure):
        return getattr(error, "cause", Cause.MALFORMED_SUBMISSION)
    if isinstance(error, InfrastructureError) and error.cause is not None:
        return error.cause
    if isinstance(error, OSError):
        return Cause.DISK_FULL if error.errno in {errno.ENOSPC, errno.EDQUOT} else Cause.ENVIRONMENT_FAILED
    if isinstance(error, InvalidData):
        return Cause.INVALID_TASK
    if isinstance(error, LimitReached):
        return Cause.RUN_BUDGET if error.kind == "run cost" else Cause.GRADER_FAILED
    return Cause.ENGINE_GONE if error.retryable else Cause.ENVIRONMENT_FAILED


def collecting_cause(error: ProctorError | OSError) -> Cause:
    """The same, for an error in reading what an agent has left: what its files bring about is its own failure."""
    if isinstance(error, LimitReached):
        # Those of the environment ended it before the agent's work could be read.
        return Cause.TOO_LARGE if _is_about_size(error) else Cause.RESOURCE_LIMIT
    return Cause.UNREADABLE if _errno(error) in _ODD_FILES | _OUT_OF_REACH else cause_of(error)


def grading_cause(error: ProctorError | OSError) -> Cause:
    """The same, for an error in grading, where other files than the agent's are read too."""
    if _is_about_size(error):
        return Cause.TOO_LARGE
    return Cause.UNREADABLE if _errno(error) in _ODD_FILES else cause_of(error)


def failure_of(error: Exception, cause_of_known: Callable[[ProctorError | OSError], Cause]) -> tuple[Cause, str]:
    """The cause and the detail of what ended a stage, also where it is a mistake in a program, a plugin's or ours.

    A mistake is not retried: another try would end likewise. `crash_log` is its evidence.
    """
    if isinstance(error, ProctorError | OSError):
        cause = cause_of_known(error)
        is_mistake = isinstance(error, OSError) and error.errno in _MISTAKES
        if cause is not Cause.ENVIRONMENT_FAILED or not is_mistake:
            return cause, error_text(error)
    return Cause.INTERNAL_ERROR, f"internal error: {type(error).__name__}: {error} (see {CRASH_LOG})"


def crash_log(error: Exception) -> bytes | None:
    """The traceback of an exception, for the evidence; None for an error of ours, which says all there is to know."""
    if isinstance(error, ProctorError):
        return None
    return "".join(traceback.format_exception(error)).encode(errors="backslashreplace")


def _is_about_size(error: ProctorError | OSError) -> bool:
    return isinstance(error, LimitReached) and error.kind.startswith(("depth", "size"))


def _errno(error: ProctorError | OSError) -> int | None:
    """What the system said, also where an environment has passed it on; None: it was something else."""
    if isinstance(error, InfrastructureError) and error.cause is not None:
        return None
    origin = error if isinstance(error, OSError) else error.__cause__
    if isinstance(origin, FileNotFoundError):
        return errno.ENOENT  # also one that says so in words
    return origin.errno if isinstance(origin, OSError) else None


def error_text(error: ProctorError | OSError) -> str:
    """The message of an error, without the number that the system gives it."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def reraise_if_cancelled(error: Exception) -> None:
    """Where a task was cancelled and something broke on its way out: raise the cancellation, not the error."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError from error
