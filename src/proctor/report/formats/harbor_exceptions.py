"""What Harbor calls the ways in which a trial can end, and how it writes times."""

from datetime import datetime
from typing import Final

from proctor.core.causes import Cause
from proctor.core.record import Record

# The first name of each cause is the one that is written.
EXCEPTION_NAMES: Final[dict[Cause, tuple[str, ...]]] = {
    Cause.AGENT_TIMEOUT: ("AgentTimeoutError",),
    Cause.AGENT_CRASHED: (
        "NonZeroAgentExitCodeError",
        *("ContextWindowExceededError", "ContextLengthExceededError"),
        *("OutputTokenExceededError", "OutputLengthExceededError"),
    ),
    Cause.REFUSED: ("AgentSafetyRefusalError", "ContentPolicyViolationError"),
    Cause.TASK_BUDGET: ("BudgetExceededError",),
    Cause.BAD_LOGIN: (
        "AgentAuthenticationError",
        *("AuthenticationError", "PermissionDeniedError", "ModelNotFoundError", "ApiProviderResourceNotFoundError"),
    ),
    Cause.RATE_LIMITED: ("ApiRateLimitError", "RateLimitError", "ApiUsageLimitError"),
    Cause.PROVIDER_ERROR: (
        "ApiError",
        *("ApiInternalServerError", "ApiOverloadedError", "ApiConnectionClosedError", "ApiResponseStalledError"),
        *("UnknownApiError", "NetworkConnectionError", "ApiConnectionError", "InternalServerError", "APIError"),
        *("ServiceUnavailableError", "APIConnectionError", "Timeout"),
    ),
    Cause.ENVIRONMENT_FAILED: ("SandboxBuildFailedError", "EnvironmentStartTimeoutError", "AgentSetupTimeoutError"),
    Cause.GRADER_FAILED: (
        "VerifierOutputParseError",
        *("RewardFileNotFoundError", "RewardFileEmptyError", "VerifierTimeoutError"),
    ),
    Cause.INTERRUPTED: ("CancelledError",),
}
CAUSES_BY_EXCEPTION: Final = {name: cause for cause, names in EXCEPTION_NAMES.items() for name in names}


class HarborTiming(Record):
    """When a phase began and ended."""

    started_at: str | None = None
    finished_at: str | None = None


def seconds_between(timing: HarborTiming | None) -> float:
    """How long a phase took; nothing when that is not known."""
    if timing is None or timing.started_at is None or timing.finished_at is None:
        return 0.0
    try:
        ended, began = (datetime.fromisoformat(at) for at in (timing.finished_at, timing.started_at))
        return max(0.0, (ended - began).total_seconds())
    except (ValueError, TypeError):  # no time at all, or only one of them says in which zone it is
        return 0.0
