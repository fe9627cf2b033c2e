"""Short names of models."""

from typing import Final

# Fixed here, so that a short name means the same for every agent's program.
MODEL_ALIASES: Final = {
    "fable": "claude-fable-5",
    "haiku": "claude-haiku-4-5-20251001",
    "opus": "claude-opus-4-8",
    "sonnet": "claude-sonnet-5",
}
