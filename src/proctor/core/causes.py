"""The causes of results, and the one table of what follows from each.

Nothing else in Proctor decides whether an attempt is retried, graded or counted.
"""

from enum import StrEnum
from typing import Final

from proctor.core.record import Record


class Status(StrEnum):
    """What a task's result says."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    ERROR = "error"
    SKIPPED = "skipped"


class Cause(StrEnum):
    """The machine-readable reason behind a status."""

    # the agent finished; its submission is being graded
    ANSWERED = "answered"
    # graded
    SOLVED = "solved"
    TESTS_FAILED = "tests_failed"
    REGRESSION = "regression"
    TESTS_VANISHED = "tests_vanished"
    TAMPERED = "tampered"
    TEST_TIMEOUT = "test_timeout"
    SCORED = "scored"
    # submitted, but cannot be graded
    EMPTY = "empty"
    DOES_NOT_APPLY = "does_not_apply"
    UNSAFE_SUBMISSION = "unsafe_submission"
    MALFORMED_SUBMISSION = "malformed_submission"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    # how the agent ended; its submission is graded all the same
    AGENT_TIMEOUT = "agent_timeout"
    TASK_BUDGET = "task_budget"
    TURN_LIMIT = "turn_limit"
    REFUSED = "refused"
    AGENT_CRASHED = "agent_crashed"
    RESOURCE_LIMIT = "resource_limit"
    # not the agent's doing
    PROVIDER_ERROR = "provider_error"
    RATE_LIMITED = "rate_limited"
    BAD_LOGIN = "bad_login"
    ENVIRONMENT_FAILED = "environment_failed"
    ENGINE_GONE = "engine_gone"
    NODE_LOST = "node_lost"
    NO_NODE = "no_node"
    DISK_FULL = "disk_full"
    GRADER_FAILED = "grader_failed"
    MISSING_PROGRAM = "missing_program"
    INTERNAL_ERROR = "internal_error"
    REPLAY_DIVERGED = "replay_diverged"
    RUN_BUDGET = "run_budget"
    INTERRUPTED = "interrupted"
    # the task itself
    INVALID_TASK = "invalid_task"
    FLAKY = "flaky"
    NO_SUBMISSION = "no_submission"
    EXCLUDED = "excluded"
    NOT_RUNNABLE_HERE = "not_runnable_here"


class Consequence(Record):
    """What follows from a cause.

    Attributes:
        status: what the result says; None where the verdict on the submission decides.
        retry: another attempt may end otherwise, and the agent was not to blame.
        free_retry: such an attempt is not counted among the retries that a run allows.
        graded: the submission is graded.
        counted: the attempt is in the denominator of the resolve rate.
        stops_run: later tasks would fail likewise, so the run ends now and can be resumed.
    """

    status: Status | None
    retry: bool = False
    free_retry: bool = False
    graded: bool = False
    counted: bool = True
    stops_run: bool = False


_GRADED: Final = Consequence(status=None, graded=True)
_FAILED: Final = Consequence(status=Status.UNRESOLVED)
_INFRASTRUCTURE: Final = Consequence(status=Status.ERROR, retry=True, counted=False)
_FINAL: Final = Consequence(status=Status.ERROR, counted=False)
_STOP: Final = Consequence(status=Status.ERROR, counted=False, stops_run=True)
_SKIPPED: Final = Consequence(status=Status.SKIPPED, counted=False)

CONSEQUENCES: Final[dict[Cause, Consequence]] = {
    Cause.ANSWERED: _GRADED,
    Cause.SOLVED: Consequence(status=Status.RESOLVED, graded=True),
    Cause.TESTS_FAILED: Consequence(status=Status.UNRESOLVED, graded=True),
    Cause.REGRESSION: Consequence(status=Status.UNRESOLVED, graded=True),
    Cause.TESTS_VANISHED: Consequence(status=Status.UNRESOLVED, graded=True),
    Cause.TAMPERED: Consequence(status=Status.UNRESOLVED, graded=True),
    Cause.TEST_TIMEOUT: Consequence(status=Status.UNRESOLVED, graded=True),
    Cause.SCORED: _GRADED,
    Cause.EMPTY: _FAILED,
    Cause.DOES_NOT_APPLY: _FAILED,
    Cause.UNSAFE_SUBMISSION: _FAILED,
    Cause.MALFORMED_SUBMISSION: _FAILED,
    Cause.TOO_LARGE: _FAILED,
    Cause.UNREADABLE: _FAILED,
    Cause.AGENT_TIMEOUT: _GRADED,
    Cause.TASK_BUDGET: _GRADED,
    Cause.TURN_LIMIT: _GRADED,
    Cause.REFUSED: _GRADED,
    Cause.AGENT_CRASHED: _GRADED,
    Cause.RESOURCE_LIMIT: _GRADED,
    Cause.PROVIDER_ERROR: _INFRASTRUCTURE,
    Cause.RATE_LIMITED: _INFRASTRUCTURE,
    Cause.BAD_LOGIN: _STOP,
    Cause.ENVIRONMENT_FAILED: _INFRASTRUCTURE,
    Cause.ENGINE_GONE: _INFRASTRUCTURE,
    Cause.NODE_LOST: Consequence(status=Status.ERROR, retry=True, free_retry=True, counted=False),
    Cause.NO_NODE: _STOP,
    Cause.DISK_FULL: _STOP,
    Cause.GRADER_FAILED: _INFRASTRUCTURE,
    Cause.MISSING_PROGRAM: _FINAL,
    Cause.INTERNAL_ERROR: _FINAL,
    Cause.REPLAY_DIVERGED: _FINAL,
    Cause.RUN_BUDGET: _STOP,
    Cause.INTERRUPTED: _STOP,
    Cause.INVALID_TASK: _FINAL,
    Cause.FLAKY: _FINAL,
    Cause.NO_SUBMISSION: _SKIPPED,
    Cause.EXCLUDED: _SKIPPED,
    Cause.NOT_RUNNABLE_HERE: _SKIPPED,
}
