"""Masks our own key in responses of the provider, as they pass on to the agent.

A mask is as long as the key, so lengths, framing and JSON stay as they are. In a stream of events the key may be split:
over chunks, and over the texts of consecutive events. Only what may be the beginning of a key is held back, from its
eighth character on, so that other text is not delayed; an event is relayed when it is whole. So where a chunk or an
event ends within the first seven characters of a key, or within the first quarter of a short one, these have passed.
"""

import functools
import re
from collections.abc import Iterable
from typing import Final

from proctor.gateway.redact import MIN_SECRET_LENGTH, REDACTED
from proctor.gateway.sse import MAX_EVENT_BYTES

# Fewer characters of a key than these may pass: the beginning of a key is the provider's name more than a secret.
_PROBE_LENGTH: Final = 8
# Of a short key, which names nobody, this part at most.
_PROBE_SHARE: Final = 4
_EVENT_ENDS: Final = (b"\n\n", b"\r\n\r\n", b"\r\r")


def secret_spellings(secrets: Iterable[str]) -> tuple[bytes, ...]:
    """The secrets as a response may have them: as they are, and as JSON may escape them."""
    found: dict[bytes, None] = {}
    for secret in secrets:
        if len(secret) < MIN_SECRET_LENGTH:
            continue
        escaped = {secret, secret.replace("\\", "\\\\").replace('"', '\\"'), secret.replace("/", "\\/")}
        for form in ("\\u{:04x}", "\\u{:04X}"):
            plain = (c if c.isalnum() or c in "-_." else form.format(ord(c)) for c in secret)
            escaped.add("".join(plain))
        found |= dict.fromkeys(one.encode() for one in sorted(escaped))
    # Longest first: a secret that contains another one is masked as a whole.
    return tuple(sorted(found, key=len, reverse=True))


def mask_bytes(data: bytes, spellings: tuple[bytes, ...]) -> bytes:
    """Bytes in one piece, without secrets."""
    masked = bytearray(data)
    _mask_contiguous(masked, spellings)
    return bytes(masked)


def mask_text(text: str, spellings: tuple[bytes, ...]) -> str:
    """A text in one piece, such as a header, without secrets."""
    return mask_bytes(text.encode("utf-8", "surrogateescape"), spellings).decode("utf-8", "surrogateescape")


class SecretMask:
    """Masks secrets in one response.

    Args:
        spellings: from `secret_spellings`.
        text_members: of a stream of server-sent events: where its events have pieces of the model's text; None for a
            response that is one document.
    """

    def __init__(self, spellings: tuple[bytes, ...], text_members: tuple[str, ...] | None) -> None:
        self._spellings = spellings
        self._events = text_members is not None
        self._text_piece = _text_piece(text_members or ())
        self._held = b""
        self._context = b""  # what was relayed and may be the beginning of a secret
        self._begun = _beginnings(spellings)
        self._sign = _sign_of_secret(spellings)

    def feed(self, chunk: bytes) -> bytes:
        """What may be relayed, now that this chunk has arrived."""
        if not self._spellings:
            return chunk
        if not self._held and not self._context and chunk.endswith(_EVENT_ENDS) and not self._sign.search(chunk):
            return chunk
        data = self._held + chunk if self._held else chunk
        if not self._events:
            return self._release(data, b"")
        end = max(data.rfind(mark) + len(mark) if mark in data else 0 for mark in _EVENT_ENDS)
        if not end and len(data) > MAX_EVENT_BYTES:
            end = len(data)  # no event is so long
        return self._release(data[:end], data[end:])

    def finish(self) -> bytes:
        """What is left at the end; the beginning of a key there is masked too."""
        rest = bytearray(self._held)
        self._held = b""
        spans = self._spans(rest)
        text = self._context + b"".join(bytes(rest[start:end]) for start, end in spans)
        self._mask(rest, spans, text)
        if (tail := self._unfinished_secret(text)) is not None:
            _mask_spans(rest, spans, tail - len(self._context), len(text) - len(self._context))
        return bytes(rest)

    def _release(self, ready: bytes, partial: bytes) -> bytes:
        """Mask what is whole, and hold back what may be the beginning of a secret."""
        spans = self._spans(ready)
        text = self._context + b"".join(ready[start:end] for start, end in spans)
        suspicious = any(_probe(one) in text or one in ready for one in self._spellings)
        if not suspicious:
            self._held = partial
            self._context = self._beginning(text)
            return ready
        masked = bytearray(ready)
        self._mask(masked, spans, text)
        hold = len(ready)
        known = len(self._context)
        if (tail := self._unfinished_secret(text)) is not None:
            start = _position(spans, max(tail - known, 0))
            hold = _event_start(ready, start) if self._events else start
        self._held = bytes(masked[hold:]) + partial
        kept = known + sum(max(0, min(end, hold) - start) for start, end in spans)
        self._context = self._beginning(text[:kept])
        return bytes(masked[:hold])

    def _beginning(self, text: bytes) -> bytes:
        """The end of a text, as far as it is the beginning of a secret, and short enough to pass."""
        for length in range(min(_PROBE_LENGTH - 1, len(text)), 0, -1):
            if text[-length:] in self._begun:
                return text[-length:]
        return b""

    def _spans(self, data: bytes | bytearray) -> list[tuple[int, int]]:
        """Where the text of a response is: in pieces, or all of it."""
        return [piece.span(1) for piece in self._text_piece.finditer(data)] if self._events else [(0, len(data))]

    def _mask(self, data: bytearray, spans: list[tuple[int, int]], text: bytes) -> None:
        _mask_contiguous(data, self._spellings)
        known = len(self._context)
        for spelling in self._spellings:
            at = text.find(spelling)
            while at >= 0:
                _mask_spans(data, spans, at - known, at - known + len(spelling))
                at = text.find(spelling, at + 1)

    def _unfinished_secret(self, text: bytes) -> int | None:
        """Where a secret begins that the text ends in the middle of, if it does."""
        found = []
        for spelling in self._spellings:
            probe = _probe(spelling)
            at = text.find(probe, max(0, len(text) - len(spelling) + 1))
            while at >= 0:
                if spelling.startswith(text[at:]):
                    found.append(at)
                    break
                at = text.find(probe, at + 1)
        return min(found, default=None)


def _probe(spelling: bytes) -> bytes:
    """The beginning of a secret; where a text ends with it, the text is held back."""
    return spelling[: max(1, min(_PROBE_LENGTH, len(spelling) // _PROBE_SHARE))]


@functools.lru_cache(maxsize=16)
def _beginnings(spellings: tuple[bytes, ...]) -> frozenset[bytes]:
    """The beginnings of secrets that are short enough to pass."""
    return frozenset(_probe(one)[:length] for one in spellings for length in range(1, len(_probe(one))))


@functools.lru_cache(maxsize=16)
def _text_piece(members: tuple[str, ...]) -> re.Pattern[bytes]:
    names = "|".join(map(re.escape, members)).encode()
    return re.compile(rb'"(?:%b)"\s*:\s*"([^"\\]*(?:\\.[^"\\]*)*)"' % names)


@functools.lru_cache(maxsize=16)
def _sign_of_secret(spellings: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Matches what a chunk of whole events has if a secret is in it, or begins in it: most chunks have neither."""
    probes, begun = {_probe(one) for one in spellings}, _beginnings(spellings)
    # At the end of a text; a quote before a colon is the end of a name.
    ending = b'(?:%b)"(?!\\s*:)' % b"|".join(map(re.escape, sorted(begun)))
    return re.compile(b"|".join([*map(re.escape, sorted(probes)), *([ending] if begun else [])]))


def _mask_contiguous(data: bytearray, spellings: tuple[bytes, ...]) -> None:
    for spelling in spellings:
        at = data.find(spelling)
        while at >= 0:
            data[at : at + len(spelling)] = _mask_of(len(spelling))
            at = data.find(spelling, at + 1)


def _mask_spans(data: bytearray, spans: list[tuple[int, int]], start: int, end: int) -> None:
    """Mask a part of the text, which lies in several spans of the data. It may begin before the first of them."""
    mask = _mask_of(end - start)
    before = 0
    for first, last in spans:
        length = last - first
        low, high = max(start - before, 0), min(end - before, length)
        if low < high:
            offset = before + low - start
            data[first + low : first + high] = mask[offset : offset + high - low]
        before += length


def _position(spans: list[tuple[int, int]], offset: int) -> int:
    """Where in the data a character of the text is."""
    for first, last in spans:
        if offset < last - first:
            return first + offset
        offset -= last - first
    return spans[-1][1] if spans else 0


def _event_start(data: bytes, position: int) -> int:
    """Where the event begins that has this position."""
    return max(found + len(mark) if (found := data.rfind(mark, 0, position)) >= 0 else 0 for mark in _EVENT_ENDS)


def _mask_of(length: int) -> bytes:
    plain = REDACTED.encode()
    return plain.ljust(length, b"*") if length >= len(plain) else b"*" * length
