"""Which of its dialects an agent's program asks a model in."""

import re
from collections.abc import Sequence
from typing import Final

# The models whose provider has a dialect of its own. All others are asked as most servers understand it.
_OWN_DIALECTS: Final = (
    (re.compile(r"claude-"), "messages"),
    (re.compile(r"gpt-[5-9]|codex-|o\d"), "responses"),
    (re.compile(r"gemini-"), "gemini"),
)


def choose_dialect(model: str, dialects: Sequence[str]) -> str:
    """The one of `dialects` in which to ask this model; the first of them where none is the model's own."""
    for pattern, dialect in _OWN_DIALECTS:
        if pattern.match(model) and dialect in dialects:
            return dialect
    return dialects[0]
