"""How bytes come in: into one buffer that all connections of a place share."""

import asyncio
from abc import ABC, abstractmethod
from typing import Final

_BUFFER_BYTES: Final = 256 * 1024


class SharedBufferProtocol(asyncio.BufferedProtocol, ABC):
    """A protocol that is shown what came, for as long as it looks at it.

    A plain protocol is given its bytes in an object of its own; to make that, for every event of a stream, takes a
    third of all that passing the event on does.

    Args:
        buffer: from `new_buffer`. What is in it is looked at before the next read, so those of one loop can share it.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - one size for all
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.on_data(self._buffer[:nbytes])

    @abstractmethod
    def on_data(self, data: memoryview) -> None:
        """Some bytes came. They are overwritten by the next."""


def new_buffer() -> memoryview:
    """Room for what one read brings."""
    return memoryview(bytearray(_BUFFER_BYTES))
