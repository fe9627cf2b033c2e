"""The journal of a run: one line per finished stage, durable before the next stage starts.

Many stages end at about the same time, and making a line durable takes the disk some milliseconds whatever its length.
So lines that arrive while the disk is busy wait together and share the next sync, and with them the files that they
speak of: a line is in the journal only when its files are on disk. That something has begun is noted without waiting:
the line outlives the process at once, and a power cut a moment later.
"""

import asyncio
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.files import append_whole, sync_directory, truncate_torn_line, write_atomic
from proctor.core.record import from_json
from proctor.core.run import JournalEntry

_sync: Final = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class _JournalCommit(NamedTuple):
    """Files, the lines that speak of them, and who waits for both to be durable; `loose` files need not be."""

    files: Mapping[Path, bytes]
    unsynced_files: Mapping[Path, bytes]
    lines: bytes
    done: asyncio.Future[None]


class Journal:
    """The writing end. One run has one writer; the run's lock sees to that."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor = -1
        self._pending: list[_JournalCommit] = []
        self._syncing: asyncio.Task[None] | None = None
        # A thread of its own: the disk must not wait for others that copy trees or run git.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._writing = threading.Lock()

    def append(self, entry: JournalEntry) -> None:
        """Write one line; it outlives the process from now on, and a power cut once anything is committed.

        Raises:
            OSError: it cannot be written.
        """
        self._append_bytes(_lines([entry]))

    async def commit(
        self,
        *entries: JournalEntry,
        files: Mapping[Path, bytes] | None = None,
        unsynced_files: Mapping[Path, bytes] | None = None,
    ) -> None:
        """Write files, then the lines that speak of them; returns when all of it would survive a power cut.

        Folders are made where they are missing. Files that are `loose` are written too, and may be lost in one.

        Raises:
            OSError: something cannot be written; these lines are not in the journal, or will not outlive a power cut.
        """
        done = asyncio.get_running_loop().create_future()
        self._pending.append(_JournalCommit(files or {}, unsynced_files or {}, _lines(entries), done))
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_all())
        await done

    async def _sync_all(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                outcomes = await loop.run_in_executor(self._thread, self._write, batch)
                for commit, error in zip(batch, outcomes, strict=True):
                    if commit.done.done():
                        continue
                    if error is None:
                        commit.done.set_result(None)
                    else:
                        commit.done.set_exception(error)
        finally:
            self._syncing = None

    def _write(self, batch: list[_JournalCommit]) -> list[OSError | None]:
        """Write a whole batch; what became of each part of it."""
        outcomes = [_write_files(commit) for commit in batch]
        folders = {
            path.parent for commit, error in zip(batch, outcomes, strict=True) if not error for path in commit.files
        }
        good = b"".join(commit.lines for commit, error in zip(batch, outcomes, strict=True) if error is None)
        try:
            for folder in folders:
                sync_directory(folder)
            if good:
                self._append_bytes(good)
                _sync(self._descriptor)
        except OSError as failure:
            return [error or failure for error in outcomes]
        return outcomes

    def _append_bytes(self, lines: bytes) -> None:
        with self._writing:
            append_whole(self._descriptor, [lines])

    async def __aenter__(self) -> Self:
        self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        truncate_torn_line(self._descriptor)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever waited may have been cancelled; what was handed in is written all the same.
        while self._syncing is not None:
            await asyncio.wait({self._syncing})
        self._thread.shutdown()
        os.close(self._descriptor)


def _lines(entries: Iterable[JournalEntry]) -> bytes:
    return b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)


def _write_files(commit: _JournalCommit) -> OSError | None:
    try:
        for path, data in commit.unsynced_files.items():
            path.write_bytes(data)
        for path, data in commit.files.items():
            try:
                write_atomic(path, data, sync_parent=False)
            except FileNotFoundError:
                path.parent.mkdir(parents=True)
                write_atomic(path, data, sync_parent=False)
    except OSError as error:
        return error
    return None


def read_journal(file: Path) -> Iterator[JournalEntry]:
    """All entries, oldest first, one at a time. A last line without an end was cut off by a kill, and never counted.

    Raises:
        InvalidData: a whole line is not an entry; says which.
    """
    if not file.exists():
        return
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            if line.strip():
                try:
                    entry = from_json(line, JournalEntry)
                except InvalidData as error:
                    raise InvalidData(
                        error.what, where=f"{file}:{number}", fix="remove that line, then resume"
                    ) from error
                yield entry
