"""Compares a request with a recorded one, ignoring what differs between sessions.

The system prompt, the tools, metadata and headers are not compared: they depend on the machine, the day, the program's
version and ids. In messages, all ids, dates, times, durations, hashes and absolute paths count as equal to others of
their kind, and each dialect leaves out what its agents and providers make up anew: `Dialect.comparable_item`.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from proctor.gateway.dialects.base import Dialect
from proctor.gateway.recorder import digest
from proctor.gateway.safe_json import decode_or_text

_EXCERPT_LENGTH: Final = 60
# Some are in what the shell tools of Codex, Gemini CLI and Qwen Code return.
_VOLATILE: Final = re.compile(
    r"""
    (?P<id>     \b(?:toolu|srvtoolu|msg|req|agent|task)_\w+
              | \b(?:call|fc|ctc|rs|resp)_(?=\w*\d)\w{8,} | \bchatcmpl-[\w-]+
              | \b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b
              | \bChunk\ ID:\ [0-9a-f]+ | \b(?:Process\ Group\ PGID|Background\ PIDs):\ \d[\d,\ ]* )
  | (?P<time>   \b\d{4}[-/]\d\d?[-/]\d\d?(?:[T ]\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|\s?[+-]\d\d:?\d\d)?
              | \b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s)?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)
                [a-z]*\.?\s+\d\d?(?:,?\s\d{4})?
              | \b\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?\b
              | \b\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|sec|secs|seconds?|min|minutes?)\b )
  | (?P<path>   (?<![\w.~])/(?:[\w.@%+~-]+/)+[\w.@%+~-]* | (?<![\w.~])/(?:tmp|home|root|workspace|Users)\b )
  | (?P<hash>   \b(?=[a-f]*\d)[0-9a-f]{7,64}\b )
    """,
    re.VERBOSE,
)


def normalize_message(message: Any, dialect: Dialect) -> Any:
    """A message without what may differ."""
    return _normalize(dialect.comparable_item(message))


class RequestMatcher:
    """Compares growing conversations: each message is decoded once, however often it is sent again.

    The recorded messages must outlive the matcher.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._recorded: dict[int, bytes] = {}
        self._sent: dict[bytes, bytes] = {}

    def difference(self, recorded: Sequence[Any], sent: Sequence[Raw]) -> str | None:
        """How two conversations differ, for an error message; None when they do not."""
        for index, (old, new) in enumerate(zip(recorded, sent, strict=False)):
            if self._recorded_digest(old) != self._sent_digest(new):
                contrast = _describe_difference(self._normalize(old), self._normalize(decode_or_text(new)))
                return f"message {index + 1} of {len(sent)} differs: {contrast}"
        if len(recorded) != len(sent):
            return f"it has {len(sent)} messages where {len(recorded)} were recorded"
        return None

    def _recorded_digest(self, message: Any) -> bytes:
        key = id(message)
        if key not in self._recorded:
            self._recorded[key] = digest(msgspec.json.encode(self._normalize(message)))
        return self._recorded[key]

    def _sent_digest(self, raw: Raw) -> bytes:
        key = digest(raw)
        if key not in self._sent:
            self._sent[key] = digest(msgspec.json.encode(self._normalize(decode_or_text(raw))))
        return self._sent[key]

    def _normalize(self, message: Any) -> Any:
        return normalize_message(message, self._dialect)


def _normalize(value: Any) -> Any:
    if isinstance(value, str):
        return _VOLATILE.sub(lambda found: f"<{found.lastgroup}>", value).strip()
    if isinstance(value, list):
        # A block without text is dropped, and a single block of text is equal to its text.
        normalized = [_normalize(item) for item in value]
        kept = [item for item in normalized if not (isinstance(item, dict) and item.get("text") == "")]
        return kept[0]["text"] if len(kept) == 1 and _is_text(kept[0]) else kept
    if isinstance(value, dict):
        return {key: _normalize(item) for key, item in value.items()}
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"type", "text"}


def _describe_difference(before: Any, after: Any) -> str:
    """An excerpt of both around the first difference."""
    old, new = (msgspec.json.encode(value).decode() for value in (before, after))
    first = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, first - _EXCERPT_LENGTH // 2)
    return f"recorded {_excerpt(old, start)}, now {_excerpt(new, start)}"


def _excerpt(text: str, start: int) -> str:
    cut = text[start : start + _EXCERPT_LENGTH]
    return f"{'…' if start else ''}{cut}{'…' if start + _EXCERPT_LENGTH < len(text) else ''}"
