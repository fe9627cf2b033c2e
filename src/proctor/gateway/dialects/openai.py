"""What OpenAI's two dialects have in common: errors, and the counts of tokens."""

from typing import Any, Final

import msgspec

from proctor.core.result import Tokens
from proctor.gateway.dialects.base import BUDGET_STATUS

PROVIDER: Final = "openai"
# Parts of a conversation that make up the system prompt.
INSTRUCTION_ROLES: Final = frozenset({"system", "developer"})
# Tiers of service at the usual price.
_USUAL_TIERS: Final = frozenset({"auto", "default", "standard", "on_demand"})
# By status: the type of the error, and its code.
_ERRORS: Final[dict[int, tuple[str, str | None]]] = {
    400: ("invalid_request_error", None),
    401: ("authentication_error", "invalid_api_key"),
    BUDGET_STATUS: ("insufficient_quota", "insufficient_quota"),
    403: ("permission_error", None),
    404: ("not_found_error", None),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
# What the Messages API calls an error, as OpenAI does.
_KINDS: Final[dict[str, tuple[str, str | None]]] = {
    "billing_error": _ERRORS[BUDGET_STATUS],
    "context_length_exceeded": ("invalid_request_error", "context_length_exceeded"),
    "api_error": ("server_error", None),
}


class PromptDetails(msgspec.Struct):
    """What a prompt consists of."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(msgspec.Struct):
    """What an output consists of."""

    reasoning_tokens: int | None = None


def error_body(status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    usual = _ERRORS.get(status, ("server_error", None))
    type_, code = usual if kind is None else _KINDS.get(kind, (kind, usual[1] if usual[0] == kind else None))
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def make_tokens(
    prompt: int, output: int, total: int | None, prompt_details: PromptDetails | None, details: OutputDetails | None
) -> Tokens:
    """The tokens of a response: cached ones are a part of the prompt, and reasoning is a part of the output.

    Some servers count reasoning beside the output, which the total shows.
    """
    cached = (prompt_details.cached_tokens if prompt_details else None) or 0
    written = (prompt_details.cache_write_tokens if prompt_details else None) or 0
    reasoning = (details.reasoning_tokens if details else None) or 0
    if reasoning and total is not None and total == prompt + output + reasoning:
        output += reasoning
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    return Tokens(
        input=prompt - cached - written,
        output=output,
        cache_read=cached,
        cache_write_5m=written,
        reasoning=min(reasoning, output),
    )


def tier(value: Any) -> str | None:
    """A tier of service that has its own price."""
    return value if isinstance(value, str) and value not in _USUAL_TIERS else None


def content_text(content: Any) -> str:
    """The text in a message's content, one part per line."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "\n".join(part for part in parts if part)
