"""Bodies of requests that a client has packed: they are metered, recorded and forwarded unpacked."""

import zlib
from typing import Final

_IDENTITY: Final = frozenset({"", "identity"})
# How zlib is told which of the two formats to expect.
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def unpack(body: bytes, encoding: str, *, limit: int) -> bytes | None:
    """The body itself; None when it is packed in another way, is broken, or is longer than `limit`."""
    if encoding in _IDENTITY:
        return body
    window = _WINDOWS.get(encoding)
    if window is None:
        return None
    unpacker = zlib.decompressobj(window)
    try:
        plain = unpacker.decompress(body, limit)
    except zlib.error:
        return None
    return plain if unpacker.eof else None
