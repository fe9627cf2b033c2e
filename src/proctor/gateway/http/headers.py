"""The head of an HTTP message: its first line and its headers."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


def add_header(headers: dict[str, str], name: bytes, value: bytes) -> None:
    """Add a header under its lower-case name; repeated ones are joined to a list, as the standard says."""
    key, text = name.decode("latin-1").lower(), value.decode("latin-1")
    before = headers.get(key)
    headers[key] = text if before is None else f"{before}, {text}"


def request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    """The head of a request."""
    return _head(f"{method} {target} HTTP/1.1", headers)


def response_head(status: int, headers: Mapping[str, str]) -> bytes:
    """The head of a response."""
    return _head(f"HTTP/1.1 {status} {_REASONS.get(status, '')}", headers)


def _head(first: str, headers: Mapping[str, str]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    text = "\r\n".join(lines)
    if text.count("\r") != len(lines) - 1 or text.count("\n") != len(lines) - 1 or "\0" in text:
        raise ValueError("a header holds a line break")
    return f"{text}\r\n\r\n".encode("latin-1")
