"""The errors, and what each one means for a caller and for the exit code.

    ProctorError
    ├── UsageError            2    the user asked for something that cannot be: wrong flag, unreadable input
    ├── InvalidData           20   a suite, a data set or a stored record breaks its rules
    ├── InfrastructureError   12   ours, the machine's or the provider's: never the agent's failure
    │   └── RetryableError    12   the same, and worth a retry
    ├── LimitReached          12   a budget, a clock or a size ran out before the work was done
    ├── Interrupted           130  the user stopped it; what was done is stored
    └── AgentFailure          0    the agent's own doing; it is a result, and a command that reports it has succeeded

Each error is one sentence: what is wrong, where, and what to do about it. An error that sums up several problems
lists them in `details`, one line each.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from proctor.core.causes import Cause


def plugin_error(error: Exception) -> str:
    """An exception that a plugin raised, in one line; the kind of it says what its message, often a name, does not."""
    return " ".join(f"{type(error).__name__}: {error}".split())


class ProctorError(Exception):
    """The root of all errors that Proctor raises on purpose."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, what: str, *, where: object = None, fix: str | None = None, details: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.details = tuple(details)
        self.what = what
        self.where = None if where is None else str(where)
        self.fix = fix

    @property
    def sentence(self) -> str:
        """What, where, what to do, on one line."""
        place = f"{self.where}: " if self.where else ""
        advice = f"; {self.fix}" if self.fix else ""
        return " ".join(f"{place}{self.what}{advice}".split())

    def __str__(self) -> str:
        return self.sentence


class UsageError(ProctorError):
    """The user asked for something that cannot be done as asked."""

    exit_code = 2


class InvalidData(ProctorError):
    """A suite, a data set or a stored record breaks its rules."""

    exit_code = 20


class InfrastructureError(ProctorError):
    """Something between the agent and its task broke; the agent is not to blame.

    Attributes:
        cause: what broke, where that is known more closely than by the kind of error.
    """

    exit_code = 12

    def __init__(
        self,
        what: str,
        *,
        where: object = None,
        fix: str | None = None,
        details: Sequence[str] = (),
        cause: "Cause | None" = None,
    ) -> None:
        super().__init__(what, where=where, fix=fix, details=details)
        self.cause = cause


class RetryableError(InfrastructureError):
    """An infrastructure error that a retry may not meet."""

    retryable = True


class LimitReached(ProctorError):
    """A limit ended the work. Carries which limit, where it stood, and what it was."""

    exit_code = 12

    def __init__(self, kind: str, *, value: float, limit: float, where: object = None) -> None:
        super().__init__(f"{kind} limit reached ({value:g} of {limit:g})", where=where)
        self.kind = kind
        self.value = value
        self.limit = limit


class Interrupted(ProctorError):
    """The user stopped it. Says what was stored and how to resume."""

    exit_code = 130


class AgentFailure(ProctorError):
    """The submission, or the agent's behaviour, counts as a failed attempt."""

    exit_code = 0
