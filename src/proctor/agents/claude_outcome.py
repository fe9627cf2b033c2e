"""Why Claude Code ended: from its stream, its exit and what we did to it, to a cause.

The first rule that applies decides. The last result event counts, never the exit code
alone and never the result's subtype: an API failure is a "success" with `is_error` set.
"""

from typing import Final

from proctor.agents.claude_stream import ClaudeResult, ClaudeStreamSummary
from proctor.agents.outcomes import CauseAndDetail
from proctor.agents.supervisor import ProcessExit
from proctor.core.causes import Cause
from proctor.core.formatting import truncate_line

FAULTS: Final = {
    "no_bash": "the environment has no bash, which Claude Code's Bash tool needs; install bash in the image",
    "machine": "Claude Code is built for another processor than the environment's; set CLAUDE_BIN to the right build",
    "no_loader": "this build of Claude Code needs glibc, and the environment has another C library (musl on Alpine); "
    "use an image with glibc, or set CLAUDE_BIN to the musl build",
    "cannot_run": "Claude Code does not run in the environment",
    "no_shell": "there is no sh in the environment, so nothing can be started in it",
    "config": "the folder for Claude Code's configuration cannot be written in the environment",
}

# What the gateway responds when it refuses requests; a provider may use the same statuses.
_GATEWAY_REFUSALS: Final = (
    (402, "budget_exhausted: the run", Cause.RUN_BUDGET),
    (402, "budget_exhausted", Cause.TASK_BUDGET),
    (402, "model_without_price", Cause.RUN_BUDGET),
    (402, "turn_limit", Cause.TURN_LIMIT),
    (403, "session_closed", Cause.INTERRUPTED),
    (451, "web_not_allowed", Cause.AGENT_CRASHED),
)
_REASONS: Final = {
    "max_turns": (Cause.TURN_LIMIT, "it reached its limit of turns"),
    "error_max_turns": (Cause.TURN_LIMIT, "it reached its limit of turns"),
    "error_max_budget_usd": (Cause.TASK_BUDGET, "it reached its own limit of cost"),
    "prompt_too_long": (Cause.AGENT_CRASHED, "its conversation no longer fits the model's context"),
    "image_error": (Cause.AGENT_CRASHED, "its request was too large for the model"),
}
_KINDS: Final = {
    "authentication_failed": (Cause.BAD_LOGIN, "the login was refused"),
    "billing_error": (Cause.BAD_LOGIN, "the account cannot pay"),
    "model_not_found": (Cause.BAD_LOGIN, "the model does not exist, or not for this login"),
    "rate_limit": (Cause.RATE_LIMITED, "the provider limited the rate for too long"),
    "overloaded": (Cause.PROVIDER_ERROR, "the provider was overloaded for too long"),
    "server_error": (Cause.PROVIDER_ERROR, "the provider failed"),
    "max_output_tokens": (Cause.AGENT_CRASHED, "its responses were cut at the model's longest output"),
}
_STATUSES: Final = {
    401: _KINDS["authentication_failed"],
    402: _KINDS["billing_error"],
    403: _KINDS["authentication_failed"],
    404: _KINDS["model_not_found"],
    408: _KINDS["server_error"],
    409: _KINDS["server_error"],
    413: _REASONS["image_error"],
    429: _KINDS["rate_limit"],
    451: _KINDS["server_error"],
    529: _KINDS["overloaded"],
}
_SERVER_ERROR: Final = 500


def classify_exit(summary: ClaudeStreamSummary, process_exit: ProcessExit) -> CauseAndDetail:
    """Why it ended (None: it finished), and one sentence on it.

    Args:
        summary: of its stream; up to its result, when it was ended because it lingered on.
        process_exit: how the program ended.
    """
    if process_exit.fault:
        return Cause.MISSING_PROGRAM, _with_message(
            FAULTS.get(process_exit.fault, process_exit.fault), process_exit.stderr
        )
    result = summary.result if summary.idle else None
    if result is not None and not result.is_error:
        return _finished(summary, result)
    if process_exit.forced_end is not None:
        return process_exit.forced_end
    if result is None:
        return _without_result(summary, process_exit)
    return _failed(summary, result)


def _finished(summary: ClaudeStreamSummary, result: ClaudeResult) -> CauseAndDetail:
    if not summary.turns and not any(usage.tokens.total for usage in result.usage):
        return Cause.ENVIRONMENT_FAILED, _with_message("it ended without asking the model anything", result.text)
    return None, "it finished" if result.text.strip() else "it finished without a message"


def _without_result(summary: ClaudeStreamSummary, process_exit: ProcessExit) -> CauseAndDetail:
    """Without a result, something went wrong; where no response ever came, the agent is not to blame."""
    message = process_exit.stderr or " ".join(summary.unreadable_lines)
    if not summary.started:
        what = ": what it printed is not what Claude Code prints" if summary.unreadable else " before it had begun"
        return Cause.ENVIRONMENT_FAILED, _with_message(process_exit.summary + what, message)
    if process_exit.exit_code == 0 or not summary.turns:
        return Cause.ENVIRONMENT_FAILED, _with_message(f"{process_exit.summary} without a result", message)
    return Cause.AGENT_CRASHED, _with_message(f"{process_exit.summary} in the middle of its work", message)


def _failed(summary: ClaudeStreamSummary, result: ClaudeResult) -> CauseAndDetail:
    message = result.text or " ".join(result.errors)
    if result.stop_reason == "refusal":
        return Cause.REFUSED, _with_message("the model refused", message)
    for status, sign, cause in _GATEWAY_REFUSALS:
        if result.status == status and sign in message:
            return cause, _with_message("the gateway refuses its requests", message)
    known = (
        _REASONS.get(result.reason)
        or _REASONS.get(result.subtype)
        or (_KINDS.get(summary.api_error) if summary.api_error == "billing_error" else None)
        or _STATUSES.get(result.status or 0)
        or (_KINDS["server_error"] if (result.status or 0) >= _SERVER_ERROR else None)
        or _KINDS.get(summary.api_error)
    )
    if known is not None:
        cause, what = known
        return cause, _with_message(what, message)
    if result.status is not None:
        # The provider rejected the request itself: the agent's failure, unless it was its first request.
        cause = Cause.AGENT_CRASHED if summary.turns else Cause.PROVIDER_ERROR
        return cause, _with_message(f"the provider refused its request with status {result.status}", message)
    if message.startswith(("API Error", "Unable to connect", "Request timed out")):
        return Cause.PROVIDER_ERROR, _with_message(
            "the provider could not be reached, or its response not be read", message
        )
    if result.reason == "completed" and result.stop_reason == "end_turn":
        # The model ended its turn without any content, which the program calls an error.
        return None, "it finished without a message"
    if result.reason.startswith("aborted"):
        return Cause.AGENT_CRASHED, _with_message("it was interrupted from inside the environment", message)
    return Cause.AGENT_CRASHED, _with_message("it gave up", message)


def _with_message(what: str, message: str) -> str:
    message = truncate_line(message, 300)
    return f"{what}: {message}" if message else what
