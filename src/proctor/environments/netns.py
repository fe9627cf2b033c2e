"""A listening socket inside a container's own network, made from out here.

A process may hold sockets of several networks. So the model gateway can answer on a container's loopback while the
container has no network at all: stricter than a network that it shares with this host and all that listens on it.
It takes root, on the engine's own machine.
"""

import ctypes
import os
import socket
import sys
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Final

_CLONE_NEWNET: Final = 0x40000000


class CannotEnterNamespace(Exception):
    """This process cannot enter a container's network."""


def may_enter_namespace() -> bool:
    """Whether it is worth a try."""
    return sys.platform.startswith("linux") and os.geteuid() == 0


def listen_inside(pid: int, container: str, port: int) -> socket.socket:
    """Listen on 127.0.0.1 in the network of a container's process, as the engine numbers it.

    Raises:
        CannotEnter: it is not a process that we see, or we may not.
    """
    result: Future[socket.socket] = Future()

    def work() -> None:
        # In a thread that ends with this: a thread that has moved to another network stays there.
        try:
            result.set_result(_listen(pid, container, port))
        except OSError as error:
            result.set_exception(CannotEnterNamespace(str(error)))

    thread = Thread(target=work, name="enter-network")
    thread.start()
    thread.join()
    return result.result()


def _listen(pid: int, container: str, port: int) -> socket.socket:
    handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        # In another process namespace than the engine's, the number is somebody else's.
        if container not in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"):
            raise ProcessLookupError("not the container's process")
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(handle, _CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(handle)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except BaseException:
        listener.close()
        raise
    return listener
