"""A submission that cannot be graded: the agent's failure, with the cause that the result will have."""

from typing import Final

from proctor.core.causes import Cause
from proctor.core.errors import AgentFailure
from proctor.core.formatting import file_size

LIMIT_BYTES: Final = 20_000_000
# Several times the size of a patch: unchanged context and both sides of a binary change are not in it.
CONTENT_PER_PATCH: Final = 5


class InvalidSubmission(AgentFailure):
    """A submission that is empty, broken, unsafe, too large, or does not apply; `cause` says which."""

    def __init__(self, cause: Cause, what: str, *, where: object = None) -> None:
        super().__init__(what, where=where)
        self.cause = cause


def check_size(size: int, limit: int, what: str) -> None:
    """Refuse what is larger than the limit."""
    if size > limit:
        raise InvalidSubmission(Cause.TOO_LARGE, f"{what} is {file_size(size)}, more than {file_size(limit)}")
