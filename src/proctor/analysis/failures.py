"""Why answers are not resolved, in words for people: one table, from cause to failure mode."""

from collections.abc import Mapping
from typing import Final

from proctor.analysis.observation import Observation
from proctor.core.causes import Cause

# A cause that is not the agent's doing has no failure mode; it is counted as an error, by its own name.
FAILURE_REASONS: Final[dict[Cause, str]] = {
    Cause.EMPTY: "handed in nothing",
    Cause.DOES_NOT_APPLY: "patch does not apply",
    Cause.UNSAFE_SUBMISSION: "unfit to be graded",
    Cause.MALFORMED_SUBMISSION: "unfit to be graded",
    Cause.TOO_LARGE: "unfit to be graded",
    Cause.TESTS_FAILED: "tests still fail",
    Cause.REGRESSION: "broke passing tests",
    Cause.TESTS_VANISHED: "tests are gone",
    Cause.TAMPERED: "tampered with the grading",
    Cause.TEST_TIMEOUT: "tests do not end",
    Cause.SCORED: "score too low",
    Cause.AGENT_TIMEOUT: "out of time",
    Cause.TASK_BUDGET: "out of budget",
    Cause.TURN_LIMIT: "out of turns",
    Cause.REFUSED: "refused",
    Cause.AGENT_CRASHED: "crashed",
    Cause.ANSWERED: "not resolved",
}


def failure_reason(observation: Observation) -> str | None:
    """Why an answer that counts is not resolved; None of others.

    An agent that was cut short failed for that reason first; what its work was like is in the verdict.
    """
    if not observation.counted or observation.resolved:
        return None
    return FAILURE_REASONS.get(observation.cause, observation.cause.value)


def finding_codes(observation: Observation) -> frozenset[str]:
    """What kinds of things the audit found in an answer."""
    verdict = observation.verdict
    return frozenset(finding.code for finding in verdict.findings) if verdict else frozenset()


def sorted_by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts in the order of their size."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
