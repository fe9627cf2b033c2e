"""Bodies of requests that a client has packed: they are metered, recorded and forwarded unpacked."""

import importlib
import zlib
from typing import Any, Final

_IDENTITY: Final = frozenset({"", "identity"})
# How zlib is told which of its formats to expect; some clients send `deflate` without the header that it should have.
_WINDOWS: Final = {
    "gzip": (16 + zlib.MAX_WBITS,),
    "x-gzip": (16 + zlib.MAX_WBITS,),
    "deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS),
}
# Modules that can unpack it: the first is Python's own, from 3.14 on.
_ZSTD_MODULES: Final = ("compression.zstd", "backports.zstd")
ENCODINGS: Final = "gzip or deflate"


def unpack(body: bytes, encoding: str, *, limit: int) -> bytes | None:
    """The body itself; None when it is packed in another way, is broken, or is longer than `limit`."""
    if encoding in _IDENTITY:
        return body
    if encoding == "zstd":
        return _unpack_zstd(body, limit)
    for window in _WINDOWS.get(encoding, ()):
        plain = _unpack_zlib(body, window, limit)
        if plain is not None:
            return plain
    return None


def _unpack_zlib(body: bytes, window: int, limit: int) -> bytes | None:
    """A body may be several that are packed one after the other."""
    plain = bytearray()
    while True:
        unpacker = zlib.decompressobj(window)
        try:
            plain += unpacker.decompress(body, limit - len(plain) + 1)
        except zlib.error:
            return None
        if not unpacker.eof or len(plain) > limit:
            return None
        body = unpacker.unused_data
        if not body:
            return bytes(plain)


def _unpack_zstd(body: bytes, limit: int) -> bytes | None:
    module = _zstd_module()
    if module is None:
        return None
    unpacker = module.ZstdDecompressor()
    try:
        plain: bytes = unpacker.decompress(body, limit + 1)
    except module.ZstdError:
        return None
    return plain if unpacker.eof and len(plain) <= limit and not unpacker.unused_data else None


def _zstd_module() -> Any:
    for name in _ZSTD_MODULES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
