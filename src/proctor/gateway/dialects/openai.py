"""What OpenAI's two dialects have in common: errors, and the counts of tokens."""

from typing import Any, Final, NamedTuple

from proctor.core.result import Tokens
from proctor.gateway.dialects.base import BUDGET_STATUS, count_of, dicts_in
from proctor.gateway.meter import UsageAccumulator

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


def error_body(status: int, message: str, *, kind: str | None = None) -> dict[str, Any]:
    """An error as OpenAI writes it."""
    usual = _ERRORS.get(status, ("server_error", None))
    type_, code = usual if kind is None else _KINDS.get(kind, (kind, usual[1] if usual[0] == kind else None))
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


# What servers call the tokens that were read from a cache, and those that were written to it.
_READ: Final = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_WRITTEN: Final = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")


class UsageNames(NamedTuple):
    """The members of a usage report, as one of the two dialects calls them."""

    prompt: str
    output: str


def read_tokens(reported: Any, names: UsageNames) -> Tokens | None:
    """The tokens of a usage report; None where it does not say them.

    Cached tokens are a part of the prompt, and reasoning is a part of the output. Some servers count them beside, or
    count reasoning nowhere, which the total shows. Where cached tokens are counted differs: OpenAI has them in details,
    DeepSeek and Moonshot beside the prompt, and what is in front of Claude's models has them under Anthropic's names.
    """
    if not isinstance(reported, dict):
        return None
    prompt, output, total = (count_of(reported.get(name)) for name in (*names, "total_tokens"))
    if prompt is not None and output is None and total is not None:
        output = max(total - prompt, 0)
    if prompt is None or output is None:
        return None
    prompts, outputs = (_details(reported, name) for name in names)
    read, written = (_first_count(prompts, reported, names) for names in (_READ, _WRITTEN))
    reasoning = count_of(outputs.get("reasoning_tokens")) or 0
    beside = max((total or 0) - prompt - output, 0)
    if beside in {read + written, read + written + reasoning} and beside != reasoning:
        prompt += read + written
        beside -= read + written
    output += beside
    reasoning = reasoning or beside
    read = min(read, prompt)
    written = min(written, prompt - read)
    return Tokens(
        input=prompt - read - written,
        output=output,
        cache_read=read,
        cache_write_5m=written,
        reasoning=min(reasoning, output),
    )


def has_priced_media(reported: Any, names: UsageNames) -> bool:
    """Whether a usage report has tokens with a price of their own: of sounds, or of pictures that were made."""
    if not isinstance(reported, dict):
        return False
    prompts, outputs = (_details(reported, name) for name in names)
    counts = (prompts.get("audio_tokens"), outputs.get("audio_tokens"), outputs.get("image_tokens"))
    return any(count_of(count) for count in counts)


def _first_count(details: dict[str, Any], reported: dict[str, Any], names: tuple[str, ...]) -> int:
    """The first count under one of these names, of the details first."""
    counts = (count_of(place.get(name)) for place in (details, reported) for name in names)
    return next((count for count in counts if count is not None), 0)


def _details(reported: dict[str, Any], name: str) -> dict[str, Any]:
    details = reported.get(f"{name}_details")
    return details if isinstance(details, dict) else {}


def scripted_usage(tokens: Tokens, names: UsageNames) -> dict[str, Any]:
    """The usage report of a scripted response."""
    written = tokens.cache_write_5m + tokens.cache_write_1h
    return {
        names.prompt: tokens.total - tokens.output,
        f"{names.prompt}_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": written},
        names.output: tokens.output,
        f"{names.output}_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.total,
    }


def tier(value: Any) -> str | None:
    """A tier of service that has its own price."""
    return value if isinstance(value, str) and value and value not in _USUAL_TIERS else None


def note_tier(value: Any, usage: UsageAccumulator) -> None:
    """Note the tier of service that a response says it was made in; nothing where it does not say it."""
    if isinstance(value, str) and value:
        usage.speed = tier(value)


def content_text(content: Any) -> str:
    """The text in a message's content, one part per line."""
    if isinstance(content, str):
        return content
    parts = [part["text"] for part in dicts_in(content) if isinstance(part.get("text"), str)]
    return "\n".join(part for part in parts if part)
