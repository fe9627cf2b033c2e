"""The gate of a node: no request to the model is sent before the driver has synced and acknowledged its mark."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from proctor.gateway.backend import RecordingGate, RecordingLost
from proctor.runner.executors.lease import NodeLease
from proctor.runner.executors.messages import MAX_CHUNK_BYTES, NodeMessage, NodeMessages, RecordingBytes

# Most answers of a model are followed by the next request at once: what is known of both is sent together. For the
# driver, each message is work.
_COLLECT_SECONDS: Final = 0.05


class Outbox:
    """What a node has to send about one attempt or grading; messages that wait are sent together."""

    def __init__(self) -> None:
        self._messages: NodeMessages = []
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()

    def put(self, message: NodeMessage) -> None:
        """Add a message."""
        self._messages.append(message)
        self._changed.set()

    def notify(self, *, urgent: bool = False) -> None:
        """There is something to send that is not in here; `urgent`: somebody waits for its arrival."""
        self._changed.set()
        if urgent:
            self._urgent.set()

    async def wait(self) -> NodeMessages:
        """All messages, soon after there is one or `notify` was called; at once where it is urgent."""
        await self._changed.wait()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._urgent.wait(), _COLLECT_SECONDS)
        return self.take()

    def take(self) -> NodeMessages:
        """All messages that there are now."""
        self._changed.clear()
        self._urgent.clear()
        messages, self._messages = self._messages, []
        return messages


class NodeGate(RecordingGate):
    """Copies one attempt's recording to the driver, and holds requests back until the driver has their marks."""

    def __init__(self, recording: Path, outbox: Outbox, lease: NodeLease) -> None:
        self._recording = recording
        self._outbox = outbox
        self._lease = lease
        self._size = 0
        self._sent = 0
        self._acknowledged = 0
        self._closed = False
        self._changed = asyncio.Event()

    def written(self, size: int) -> None:
        """Have it sent."""
        self._size = size
        self._outbox.notify()

    async def wait_for_copy(self, size: int) -> None:
        """Wait for the driver's acknowledgement, and then see that the lease still holds.

        Raises:
            RecordingLost: it does not, or the attempt has been ended.
        """
        self._size = max(size, self._size)
        self._outbox.notify(urgent=True)
        while self._acknowledged < size and not self._closed:
            await self._changed.wait()
        if self._closed or not self._lease.holds:
            raise RecordingLost

    def acknowledge(self, size: int) -> None:
        """The driver has so many bytes, synced."""
        self._acknowledged = max(self._acknowledged, size)
        self._notify()

    def close(self) -> None:
        """Let no further request be sent."""
        self._closed = True
        self._notify()

    def unsent(self, spent_usd: float) -> list[RecordingBytes]:
        """What has been recorded and not been sent, in pieces that a message can carry."""
        found: list[RecordingBytes] = []
        if self._sent >= self._size:
            return found
        with self._recording.open("rb") as file:
            while self._sent < self._size:
                data = os.pread(file.fileno(), min(self._size - self._sent, MAX_CHUNK_BYTES), self._sent)
                found.append(RecordingBytes(self._sent, data, spent_usd))
                self._sent += len(data)
        return found

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
