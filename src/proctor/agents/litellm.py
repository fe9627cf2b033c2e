"""How agents that ask their models through litellm are led to the gateway."""

from typing import Final

from proctor.core.agent import KEY_PLACEHOLDER

# By dialect: how litellm is told of it, the variables for the address and the key, and what is behind the address.
_PROVIDERS: Final = {
    "chat": ("openai", "OPENAI_API_BASE", "OPENAI_API_KEY", "/v1"),
    "responses": ("openai", "OPENAI_API_BASE", "OPENAI_API_KEY", "/v1"),
    "messages": ("anthropic", "ANTHROPIC_API_BASE", "ANTHROPIC_API_KEY", ""),
}


def litellm_model(dialect: str, model: str | None) -> str:
    """The model's name with its provider's."""
    return f"{_PROVIDERS[dialect][0]}/{model}"


def litellm_base(dialect: str, url: str) -> str:
    """The gateway's address, as litellm wants that of this provider."""
    return url + _PROVIDERS[dialect][3]


def litellm_variables(dialect: str, url: str) -> dict[str, str]:
    """The gateway as the model's provider; nothing is downloaded."""
    _, base, key, _ = _PROVIDERS[dialect]
    return {
        base: litellm_base(dialect, url),
        key: KEY_PLACEHOLDER,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",  # otherwise it reads the `.env` of the repository
    }
