"""What is kept of a stream that may be endless: its head and its tail."""

from collections import deque


class HeadTailBuffer:
    """Takes a stream piece by piece and keeps at most `limit` bytes of it, half from each end."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._total = 0

    @property
    def truncated(self) -> bool:
        return self._total > self._head_limit + self._tail_limit

    def add(self, piece: bytes) -> None:
        """Take the next piece of the stream."""
        self._total += len(piece)
        free = self._head_limit - len(self._head)
        if free > 0:
            self._head += piece[:free]
            piece = piece[free:]
        if not piece:
            return
        self._tail.append(piece)
        self._tail_size += len(piece)
        # Whole pieces go as soon as the rest is enough, so that memory stays within the limit and one piece.
        while self._tail and self._tail_size - len(self._tail[0]) >= self._tail_limit:
            self._tail_size -= len(self._tail.popleft())

    def value(self) -> bytes:
        """The stream, or its two ends with a line between them that says how much is left out."""
        tail = b"".join(self._tail)
        if not self.truncated:
            return bytes(self._head) + tail
        left_out = self._total - self._head_limit - self._tail_limit
        # A tail of no bytes must not become all of them, as `tail[-0:]` would.
        kept = tail[len(tail) - self._tail_limit :]
        return bytes(self._head) + b"\n[%d bytes left out]\n" % left_out + kept
