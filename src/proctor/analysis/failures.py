"""Why trials are not resolved: one table, from cause to failure reason."""

from collections.abc import Mapping
from typing import Final

from proctor.analysis.observation import Observation
from proctor.core.causes import Cause

# A cause that is not the agent's fault has no failure reason; it is counted as an error, by its own name.
FAILURE_REASONS: Final[dict[Cause, str]] = {
    Cause.EMPTY: "empty submission",
    Cause.DOES_NOT_APPLY: "patch does not apply",
    Cause.UNSAFE_SUBMISSION: "invalid submission",
    Cause.MALFORMED_SUBMISSION: "invalid submission",
    Cause.TOO_LARGE: "invalid submission",
    Cause.UNREADABLE: "invalid submission",
    Cause.TESTS_FAILED: "tests failed",
    Cause.REGRESSION: "regression",
    Cause.TESTS_VANISHED: "tests missing",
    Cause.TAMPERED: "tampering",
    Cause.TEST_TIMEOUT: "test timeout",
    Cause.SCORED: "score too low",
    Cause.AGENT_TIMEOUT: "agent timeout",
    Cause.TASK_BUDGET: "task budget",
    Cause.TURN_LIMIT: "turn limit",
    Cause.REFUSED: "refused",
    Cause.AGENT_CRASHED: "agent crashed",
    Cause.RESOURCE_LIMIT: "resource limit",
    Cause.ANSWERED: "not resolved",
}


def failure_reason(observation: Observation) -> str | None:
    """Why a counted trial is not resolved; None for other trials.

    Where the agent was stopped, that is the reason; the verdict on its submission is stored too.
    """
    if not observation.counted or observation.resolved:
        return None
    return FAILURE_REASONS.get(observation.cause, observation.cause.value)


def finding_codes(observation: Observation) -> frozenset[str]:
    """The codes of the audit's findings in a submission."""
    verdict = observation.verdict
    return frozenset(finding.code for finding in verdict.findings) if verdict else frozenset()


def sorted_by_count(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts, the largest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
