"""Server-sent events: splitting and encoding."""

from typing import Any, Final

import msgspec

SseEvent = dict[str, Any]
MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
_ENDS: Final = (b"\n\n", b"\n\r\n")


class EventSplitter:
    """Splits a byte stream into the data of its events, however it is chunked.

    It buffers the unfinished event only. One that grows beyond `MAX_EVENT_BYTES` is dropped.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._dropping = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that this chunk completes."""
        data = chunk
        if self._rest:
            # What has arrived of a long event is not searched again with each chunk.
            edge = bytes(self._rest[-2:]) + chunk
            self._rest += chunk
            if not any(end in edge for end in _ENDS):
                self._limit()
                return []
            data = bytes(self._rest)
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n")
        *blocks, rest = data.split(b"\n\n")
        self._rest = bytearray(rest)
        if self._dropping and blocks:
            blocks.pop(0)
            self._dropping = False
        self._limit()
        return [payload for block in blocks if (payload := _payload(block))]

    def finish(self) -> bytes:
        """The data of an event that the stream ends with, without the empty line after it; empty where there is none.

        It may be a piece of one.
        """
        rest, self._rest = bytes(self._rest), bytearray()
        return b"" if self._dropping else _payload(rest.replace(b"\r\n", b"\n").rstrip(b"\r\n"))

    def _limit(self) -> None:
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest.clear()
            self._dropping = True


def _payload(block: bytes) -> bytes:
    lines = [line[5:].lstrip(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return lines[0] if len(lines) == 1 else b"\n".join(lines)


def encode_data(data: bytes) -> bytes:
    """An event that has nothing but data."""
    return b"data: " + data + b"\n\n"


def encode_named_event(event: SseEvent | str) -> bytes:
    """An event with its type as its name; a string is sent as its data."""
    if isinstance(event, str):
        return encode_data(event.encode())
    return b"event: " + str(event.get("type", "message")).encode() + b"\n" + encode_data(msgspec.json.encode(event))
