"""Decoding of JSON from untrusted senders."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

# All that decoding untrusted JSON may raise.
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Deeper than any real message. Values up to this depth can be processed recursively.
MAX_DEPTH: Final = 64


def decode_or_text(raw: bytes | Raw) -> Any:
    """The decoded value; one that cannot be decoded, or is nested too deep for recursion, as its text."""
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return decode_text(raw)
    return decode_text(raw) if _is_too_deep(value) else value


def decode_text(raw: bytes | Raw) -> str:
    """Any bytes as text."""
    return bytes(raw).decode("utf-8", "replace")


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
