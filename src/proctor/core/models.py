"""Short names of models."""

from typing import Final

# A short name means what it meant when this table was made, whatever an agent's program takes it for.
ALIASES: Final = {
    "fable": "claude-fable-5",
    "haiku": "claude-haiku-4-5-20251001",
    "opus": "claude-opus-4-8",
    "sonnet": "claude-sonnet-5",
}
