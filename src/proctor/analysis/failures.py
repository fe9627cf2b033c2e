"""Why answers are not resolved, in words for people: one table, from cause to failure mode."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from proctor.analysis.observation import Observation
from proctor.core.causes import Cause, Status

# A cause that is not the agent's doing has no failure mode; it is counted as an error, by its own name.
MODES: Final[dict[Cause, str]] = {
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


def failure_mode(observation: Observation) -> str | None:
    """Why an answer that counts is not resolved; None of others.

    An agent that was cut short failed for that reason first; what its work was like is in the verdict.
    """
    if not observation.counted or observation.resolved:
        return None
    return MODES.get(observation.cause, observation.cause.value)


def failure_modes(observations: Iterable[Observation]) -> dict[str, int]:
    """How often each, most frequent first."""
    found = Counter(mode for observation in observations if (mode := failure_mode(observation)))
    return _ordered(found)


def error_causes(observations: Iterable[Observation]) -> dict[str, int]:
    """What was not the agents' doing, by cause, most frequent first."""
    return _ordered(Counter(seen.cause.value for seen in observations if seen.status is Status.ERROR))


def finding_codes(observations: Iterable[Observation]) -> dict[str, int]:
    """In how many counted answers the audit found what, most frequent first."""
    return _ordered(
        Counter(
            code
            for observation in observations
            if observation.counted and observation.verdict is not None
            for code in {finding.code for finding in observation.verdict.findings}
        )
    )


def _ordered(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
