"""Harbor's names of the exceptions that end a trial, by our causes."""

from typing import Final

from proctor.core.causes import Cause

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
