"""From errors to causes, for the one table of causes."""

import asyncio
import errno

from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, InvalidData, LimitReached, ProctorError


def cause_of(error: ProctorError | OSError) -> Cause:
    """Which cause an error that ended a stage stands for."""
    if isinstance(error, InfrastructureError) and error.cause is not None:
        return error.cause
    if isinstance(error, OSError):
        return Cause.DISK_FULL if error.errno in {errno.ENOSPC, errno.EDQUOT} else Cause.ENVIRONMENT_FAILED
    if isinstance(error, InvalidData):
        return Cause.INVALID_TASK
    if isinstance(error, LimitReached):
        return Cause.RUN_BUDGET if error.kind == "run cost" else Cause.GRADER_FAILED
    return Cause.ENGINE_GONE if error.retryable else Cause.ENVIRONMENT_FAILED


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
