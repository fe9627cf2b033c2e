"""Carries TCP connections on the environment's loopback to the unix socket of the model gateway."""

import _socket
import select

from .loop import PollLoop

_BUFFER = 256 * 1024
_MAX_CONNECTIONS = 256
_CHUNK = 64 * 1024
_BROKEN = select.POLLERR | select.POLLNVAL


class _RelayEnd:
    """One end of a connection: what waits to be written to it, and how far it has come to its end."""

    def __init__(self, socket: _socket.socket) -> None:
        socket.setblocking(False)
        self.socket = socket
        self.pending = bytearray()
        self.finished = False  # it will send no more
        self.closed = False  # its peer will send no more, and it knows
        self.peer = self

    def fileno(self) -> int:
        return self.socket.fileno()


class LoopbackRelay:
    """Listens on 127.0.0.1 and connects each caller with the unix socket at `path`."""

    def __init__(self, loop: PollLoop, path: str, port: int) -> None:
        self._loop = loop
        self._path = path
        self._connections = 0
        self._listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        loop.register(self._listener.fileno(), select.POLLIN, self._accept)

    def _accept(self, _events: int) -> None:
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001 - the public one is in the slow module
        except OSError:
            return
        near = _RelayEnd(_socket.socket(fileno=descriptor))
        far = _RelayEnd(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))
        try:
            far.socket.connect(self._path)
        except OSError:
            near.socket.close()
            far.socket.close()
            return
        near.peer, far.peer = far, near
        for end in (near, far):
            self._register(end)
        self._connections += 1
        if self._connections >= _MAX_CONNECTIONS:
            self._loop.unregister(self._listener.fileno())

    def _serve(self, end: _RelayEnd, events: int) -> None:
        try:
            if events & _BROKEN:
                raise BrokenPipeError
            if events & select.POLLOUT:
                _flush(end)
            if events & (select.POLLIN | select.POLLHUP) and not end.finished:
                _fill(end)
            elif events & select.POLLHUP:
                raise BrokenPipeError
            _flush(end.peer)
        except OSError:
            self._close(end)
            return
        if end.closed and end.peer.closed:
            self._close(end)
            return
        self._register(end)
        self._register(end.peer)

    def _register(self, end: _RelayEnd) -> None:
        events = select.POLLOUT if end.pending else 0
        if not end.finished and len(end.peer.pending) < _BUFFER:
            events |= select.POLLIN
        if events:
            self._loop.register(end.fileno(), events, lambda seen: self._serve(end, seen))
        else:
            # Not watched for nothing: a hang-up is always reported, and would be again and again.
            self._loop.unregister(end.fileno())

    def _close(self, end: _RelayEnd) -> None:
        for one in (end, end.peer):
            self._loop.unregister(one.fileno())
            one.socket.close()
        if self._connections >= _MAX_CONNECTIONS:
            self._loop.register(self._listener.fileno(), select.POLLIN, self._accept)
        self._connections -= 1


def _fill(end: _RelayEnd) -> None:
    """Read what an end has sent; nothing is its end."""
    if len(end.peer.pending) >= _BUFFER:
        return
    try:
        data = end.socket.recv(_CHUNK)
    except BlockingIOError:
        return
    end.peer.pending += data
    end.finished = not data


def _flush(end: _RelayEnd) -> None:
    """Write what waits for an end, and tell it when that was all there will be."""
    try:
        while end.pending:
            del end.pending[: end.socket.send(end.pending)]
    except BlockingIOError:
        return
    if end.peer.finished and not end.closed:
        end.closed = True
        end.socket.shutdown(_socket.SHUT_WR)
