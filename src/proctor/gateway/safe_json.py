"""What others send as JSON, read so that nothing they write can break the reader."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

# Whatever reading JSON of unknown origin raises.
DECODE_ERRORS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
# Deeper than anything that is meant to be read. Whoever walks through a value may do so by calling itself.
MAX_DEPTH: Final = 64


def decode_or_text(raw: bytes | Raw) -> Any:
    """A value as it was sent; one that cannot be read, or is nested too deep to be walked through, as its text."""
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return decode_text(raw)
    return decode_text(raw) if _is_too_deep(value) else value


def decode_text(raw: bytes | Raw) -> str:
    """Any bytes as a text."""
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
