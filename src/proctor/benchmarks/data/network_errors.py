"""Recognises errors of the network, whichever library raised them."""

import errno
import socket
import ssl
from collections.abc import Iterator
from typing import Final

_NETWORK_ERRNOS: Final = frozenset(
    {
        *(errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH),
        *(errno.EADDRNOTAVAIL, errno.ENOTCONN, errno.ESHUTDOWN, errno.ECONNABORTED),
    }
)
_NETWORK_TYPES: Final = (ConnectionError, TimeoutError, socket.gaierror, socket.herror, ssl.SSLError)
# Libraries that do nothing but transfer: what they raise is about a transfer. Without the number of their generation.
_NETWORK_LIBRARIES: Final = frozenset(
    {
        *("aiohttp", "anyio", "boto", "botocore", "ftplib", "http", "httpcore", "httpx", "huggingface_hub"),
        *("pycurl", "requests", "socks", "urllib", "websockets"),
    }
)


def is_network_error(error: BaseException) -> bool:
    """Whether the network is the reason: the error, or one that led to it, comes from a transfer."""
    return any(map(_is_about_network, _chain(error)))


def _is_about_network(error: BaseException) -> bool:
    if isinstance(error, _NETWORK_TYPES) or (isinstance(error, OSError) and error.errno in _NETWORK_ERRNOS):
        return True
    packages = {kind.__module__.partition(".")[0].rstrip("0123456789") for kind in type(error).__mro__}
    return not _NETWORK_LIBRARIES.isdisjoint(packages)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and those that it was raised from or while handling, also where a library hides them."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
