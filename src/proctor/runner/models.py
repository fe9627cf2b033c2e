"""What `--model` can mean: a provider's model, a script, or a recording."""

from pathlib import Path
from typing import Final, Literal

from proctor.core.errors import UsageError
from proctor.core.record import Record

# A short name means what it meant when this table was made, whatever an agent's program takes it for.
ALIASES: Final = {
    "fable": "claude-fable-5",
    "haiku": "claude-haiku-4-5-20251001",
    "opus": "claude-opus-4-8",
    "sonnet": "claude-sonnet-5",
}
# What an agent that talks to a script or a recording believes to talk to.
SCRIPTED_MODEL: Final = "claude-sonnet-4-5"


class ModelChoice(Record):
    """Who answers the agent's requests, and by which name the agent asks for it."""

    kind: Literal["provider", "script", "replay"]
    model: str
    source: str | None = None


def choose_model(text: str) -> ModelChoice:
    """Read `--model`: a model id or short name, ``script:FILE``, or ``replay:RUN``.

    Raises:
        UsageError: it names nothing.
    """
    kind, separator, rest = text.partition(":")
    if separator and kind in {"script", "replay"}:
        if not rest:
            raise UsageError(
                f"--model {text} names nothing", fix=f"say which: {kind}:{'FILE' if kind == 'script' else 'RUN'}"
            )
        if kind == "script":
            return ModelChoice(kind="script", model=SCRIPTED_MODEL, source=str(Path(rest).absolute()))
        return ModelChoice(kind="replay", model=SCRIPTED_MODEL, source=rest)
    if not text.strip():
        raise UsageError("--model is empty", fix="give a model id, script:FILE or replay:RUN")
    return ModelChoice(kind="provider", model=ALIASES.get(text, text))
