"""Secrets, and their removal from everything that is written: logs, recordings, error messages."""

import re
from collections.abc import Iterable
from typing import Final

REDACTED: Final = "[redacted]"
CREDENTIAL_HEADERS: Final = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key"})
KEY_PATTERN: Final = re.compile(
    rb"sk-ant-[A-Za-z0-9_-]{6,}|\bsk-(?:proj-|or-)?[A-Za-z0-9_-]{32,}|\bAIza[A-Za-z0-9_-]{35}|(?i:bearer)\s+[A-Za-z0-9._~+/=-]{12,}"
)
MIN_SECRET_LENGTH: Final = 4


class Secret:
    """A value that prints as `[redacted]`; only `reveal` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself, for the one header that needs it."""
        return self._value

    def __repr__(self) -> str:
        return REDACTED

    __str__ = __repr__


class Redactor:
    """Removes known secrets, and whatever looks like a provider's key, from text.

    The replacement has no quote and no backslash, so JSON stays JSON.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._literals: list[bytes] = []
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Add a secret; one that is too short, and may be ordinary text, is ignored."""
        literal = secret.encode()
        if len(literal) >= MIN_SECRET_LENGTH and literal not in self._literals:
            self._literals.append(literal)
            # Longest first: a secret that contains another one must be replaced as a whole.
            self._literals.sort(key=len, reverse=True)

    def redact_bytes(self, data: bytes) -> bytes:
        """The same bytes without secrets."""
        for literal in self._literals:
            if literal in data:
                data = data.replace(literal, REDACTED.encode())
        return KEY_PATTERN.sub(REDACTED.encode(), data) if _may_have_key(data) else data

    def redact_text(self, text: str) -> str:
        """The same text without secrets."""
        return self.redact_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def _may_have_key(data: bytes) -> bool:
    """Whether it has what all such keys have in them: looking for that takes a hundredth of the time."""
    return b"sk-" in data or b"AIza" in data or b"bearer" in data.lower()
