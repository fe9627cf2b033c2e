"""Talking to the agents of a sandbox: each has a socket, takes one JSON line, and answers with one.

All sockets are asked at once, by one selector, so that one that hangs costs its timeout once for all of them, and a
dead one costs nothing.
"""

import json
import os
import resource
import selectors
import socket
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from proctor.core.record import Record
from proctor.sandboxes.layout import socket_link, temporary_directory

STATUS: Final = {"type": "status"}
STOP: Final = {"type": "stop"}
# An agent's status runs `git diff` twice, which takes its time in a large repository; h2's own list waits as long.
TIMEOUT: Final = 2.0

_MAX_REPLY_BYTES: Final = 1 << 20
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Endpoint(Record):
    """One socket of a sandbox."""

    home: Path
    file: str

    @property
    def path(self) -> Path:
        """Where the socket is."""
        return self.home / "sockets" / self.file


def list_endpoints(home: Path, kinds: tuple[str, ...] = ("agent",)) -> list[Endpoint]:
    """The sockets in a sandbox, whether anybody listens or not. A symlink is not a socket."""
    try:
        directory = os.open(home / "sockets", _DIRECTORY)
    except OSError:
        return []
    try:
        return [
            Endpoint(home=home, file=name)
            for name in sorted(os.listdir(directory))  # noqa: PTH208 - of a descriptor
            if name.endswith(".sock") and name.partition(".")[0] in kinds and _is_socket(directory, name)
        ]
    finally:
        os.close(directory)


def send_request(
    targets: Sequence[Endpoint], request: dict[str, Any], *, timeout: float = TIMEOUT, batch_size: int | None = None
) -> list[Endpoint]:
    """Send one request to every endpoint; return those that acknowledged it.

    Args:
        targets: the endpoints.
        request: what to send.
        timeout: how many seconds to wait for replies.
        batch_size: how many connections to hold at a time; half of the open-file limit by default.
    """
    message = json.dumps(request).encode() + b"\n"
    batch_size = batch_size or max(16, min(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))
    answered = []
    for first in range(0, len(targets), batch_size):
        answered += _send_batch(targets[first : first + batch_size], message, timeout)
    return answered


def _send_batch(targets: Sequence[Endpoint], message: bytes, timeout: float) -> list[Endpoint]:
    answered = []
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector, ExitStack() as opened:
        for endpoint in targets:
            if connection := _send(endpoint, message):
                opened.enter_context(connection)
                selector.register(connection, selectors.EVENT_READ, (endpoint, bytearray()))
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                endpoint, received = key.data
                if _receive(key.fd, received):
                    selector.unregister(key.fileobj)
                    if _is_ok(received):
                        answered.append(endpoint)
    return answered


def _send(endpoint: Endpoint, message: bytes) -> socket.socket | None:
    """Connect and send without blocking: a unix socket connects at once, or nobody listens, or its queue is full."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.setblocking(False)
        with connectable_path(endpoint) as path:
            connection.connect(path)
        connection.send(message)
    except OSError:
        connection.close()
        return None
    return connection


@contextmanager
def connectable_path(endpoint: Endpoint) -> Iterator[str]:
    """A path to the socket that is short enough for the system, however deep the sandbox lies."""
    sockets = endpoint.path.parent
    if sys.platform != "linux":
        yield str((socket_link(endpoint.home, temporary_directory()) or sockets) / endpoint.file)
        return
    directory = os.open(sockets, _DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{endpoint.file}"
    finally:
        os.close(directory)


def _receive(descriptor: int, received: bytearray) -> bool:
    """Take what has arrived; whether that was all."""
    try:
        chunk = os.read(descriptor, 1 << 16)
    except BlockingIOError:
        return False
    except OSError:
        return True
    received += chunk
    return not chunk or b"\n" in chunk or len(received) > _MAX_REPLY_BYTES


def _is_ok(reply: bytes | bytearray) -> bool:
    with suppress(ValueError, RecursionError):
        value = json.loads(reply)
        return isinstance(value, dict) and value.get("ok") is True
    return False


def _is_socket(directory: int, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISSOCK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    return False
