"""What goes over the socket between Proctor and an environment's first process.

A request is its length, then a marshalled tuple; descriptors travel with the first byte. A reply is sixteen bytes:
the request's number, what became of it, and a value; an opened path's descriptor travels with it.
"""

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EXEC = 1
KILL = 2
OPEN = 3

READY = 1
EXITED = 2
OPENED = 3
FAILED = 4

HEADER_BYTES = 8
REPLY_BYTES = 16


def pack_request(request: "tuple[Any, ...]") -> bytes:
    """A request as bytes."""
    body = marshal.dumps(request)
    return len(body).to_bytes(HEADER_BYTES, "little") + body


def pack_reply(number: int, kind: int, value: int) -> bytes:
    """A reply as bytes."""
    return number.to_bytes(8, "little") + kind.to_bytes(4, "little") + value.to_bytes(4, "little", signed=True)


def unpack_reply(data: bytes) -> tuple[int, int, int]:
    """The number, the kind and the value of a reply."""
    return (
        int.from_bytes(data[:8], "little"),
        int.from_bytes(data[8:12], "little"),
        int.from_bytes(data[12:16], "little", signed=True),
    )
