"""How Claude Code's end is to be understood: from what it told, how it exited and what we did to it, to a cause.

One ladder, top to bottom; the first rule that fits decides. The last result event counts, never the exit code
alone and never the result's subtype: an API failure is a "success" with `is_error` set.
"""

from typing import Final

from proctor.agents.claude_stream import Result, Told
from proctor.agents.supervise import Ended, Ending
from proctor.agents.words import brief
from proctor.core.causes import Cause

Judgement = tuple[Cause | None, str]

FAULTS: Final = {
    "no_bash": "there is no bash in the room, and Claude Code's Bash tool needs one; install bash in the image",
    "machine": "Claude Code is built for another processor than the room's; set CLAUDE_BIN to the right build",
    "no_loader": "this build of Claude Code needs glibc, and the room has another C library (musl, as Alpine has); "
    "use an image with glibc, or set CLAUDE_BIN to the musl build",
    "cannot_run": "Claude Code does not run in the room",
    "no_shell": "there is no sh in the room, so nothing can be started in it",
    "config": "the folder for Claude Code's configuration cannot be written in the room",
}

# What the gateway says when it answers no more, with a status that a provider may also have.
_GATEWAY: Final = (
    (402, "budget_exhausted: the run", Cause.RUN_BUDGET),
    (402, "budget_exhausted", Cause.TASK_BUDGET),
    (402, "model_without_price", Cause.RUN_BUDGET),
    (403, "session_closed", Cause.INTERRUPTED),
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
    "max_output_tokens": (Cause.AGENT_CRASHED, "its answers were cut at the model's longest output"),
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


def judge(told: Told, ended: Ended) -> Judgement:
    """Why it ended (None: it finished), and one sentence on it.

    Args:
        told: all that it told; what it told until then, when it was `Ending.LINGERED` on and we ended it.
        ended: how the program ended.
    """
    if ended.fault:
        return Cause.MISSING_PROGRAM, _with(FAULTS.get(ended.fault, ended.fault), ended.stderr)
    result = told.result if told.resting else None
    if result is not None and not result.is_error:
        return _finished(told, result)
    if ended.ending is Ending.CANCELLED:
        return Cause.INTERRUPTED, "it was stopped from outside"
    if ended.ending is Ending.ROOM_LIMIT:
        cause = Cause.AGENT_TIMEOUT if "wall clock" in ended.limit else Cause.AGENT_CRASHED
        return cause, f"the room ended it: {ended.limit}"
    if ended.ending is Ending.WALL_CLOCK:
        return Cause.AGENT_TIMEOUT, f"it was not done after {ended.seconds:.0f} s and was stopped"
    if result is None:
        return _without_result(told, ended)
    return _failed(told, result)


def _finished(told: Told, result: Result) -> Judgement:
    if not told.turns and not any(usage.tokens.total for usage in result.usage):
        return Cause.ENVIRONMENT_FAILED, _with("it ended without asking the model anything", result.text)
    return None, "it finished" if result.text.strip() else "it finished without a word"


def _without_result(told: Told, ended: Ended) -> Judgement:
    """No result is never the normal end. Who never got an answer has not failed by itself."""
    said = ended.stderr or " ".join(told.unreadable_lines)
    if not told.started:
        what = ": what it printed is not what Claude Code prints" if told.unreadable else " before it had begun"
        return Cause.ENVIRONMENT_FAILED, _with(ended.how + what, said)
    if ended.exit_code == 0 or not told.turns:
        return Cause.ENVIRONMENT_FAILED, _with(f"{ended.how} without a result", said)
    return Cause.AGENT_CRASHED, _with(f"{ended.how} in the middle of its work", said)


def _failed(told: Told, result: Result) -> Judgement:
    said = result.text or " ".join(result.errors)
    if result.stop_reason == "refusal":
        return Cause.REFUSED, _with("the model refused", said)
    for status, sign, cause in _GATEWAY:
        if result.status == status and sign in said:
            return cause, _with("the gateway answers no more", said)
    known = (
        _REASONS.get(result.reason)
        or _REASONS.get(result.subtype)
        or (_KINDS.get(told.api_error) if told.api_error == "billing_error" else None)
        or _STATUSES.get(result.status or 0)
        or (_KINDS["server_error"] if (result.status or 0) >= _SERVER_ERROR else None)
        or _KINDS.get(told.api_error)
    )
    if known is not None:
        cause, what = known
        return cause, _with(what, said)
    if result.status is not None:
        # The provider found the request itself wrong: the agent's doing, unless it was the very first.
        cause = Cause.AGENT_CRASHED if told.turns else Cause.PROVIDER_ERROR
        return cause, _with(f"the provider refused its request with status {result.status}", said)
    if said.startswith(("API Error", "Unable to connect", "Request timed out")):
        return Cause.PROVIDER_ERROR, _with("the provider could not be reached, or its answer not be read", said)
    if result.reason == "completed" and result.stop_reason == "end_turn":
        # The model ended its turn with nothing at all; the program has no better name for it than an error.
        return None, "it finished without a word"
    if result.reason.startswith("aborted"):
        return Cause.AGENT_CRASHED, _with("it was interrupted from inside the room", said)
    return Cause.AGENT_CRASHED, _with("it gave up", said)


def _with(what: str, said: str) -> str:
    said = brief(said, 300)
    return f"{what}: {said}" if said else what
