"""The journal of a run: one line per finished stage, durable before the next stage starts.

Many stages end at about the same time, and making a line durable takes the disk some milliseconds whatever its length.
So lines that arrive while the disk is busy wait together and share the next sync.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.run import JournalEntry


class Journal:
    """The writing end. One run has one writer; the run's lock sees to that."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor = -1
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._syncing: asyncio.Task[None] | None = None

    async def append(self, entry: JournalEntry) -> None:
        """Write one line; returns when it would survive a power cut."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((msgspec.json.encode(entry) + b"\n", done))
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_all())
        await done

    async def _sync_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    await asyncio.to_thread(self._write, b"".join(line for line, _ in batch))
                except OSError as error:
                    for _, done in batch:
                        if not done.done():
                            done.set_exception(error)
                else:
                    for _, done in batch:
                        if not done.done():
                            done.set_result(None)
        finally:
            self._syncing = None

    def _write(self, lines: bytes) -> None:
        while lines:
            lines = lines[os.write(self._descriptor, lines) :]
        os.fdatasync(self._descriptor)

    async def __aenter__(self) -> Self:
        self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        _end_torn_line(self._descriptor)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._syncing is not None:
            await self._syncing
        os.close(self._descriptor)


def read_journal(file: Path) -> Iterator[JournalEntry]:
    """All entries, oldest first, one at a time. A last line without an end was cut off by a kill, and never counted.

    Raises:
        InvalidData: a whole line is not an entry; says which.
    """
    decoder = msgspec.json.Decoder(JournalEntry)
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            if line.strip():
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise InvalidData(
                        f"not a journal entry: {error}", where=f"{file}:{number}", fix="remove that line to go on"
                    ) from error


def _end_torn_line(descriptor: int) -> None:
    """Cut off what a killed writer left of its last line."""
    size = os.fstat(descriptor).st_size
    end, block = size, 65536
    while end > 0:
        start = max(0, end - block)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end != size:
        os.ftruncate(descriptor, end)
