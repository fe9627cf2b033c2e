"""The journal of a run: one line per finished stage, durable before the next stage starts.

Many stages end at about the same time, and a sync takes the disk some milliseconds, whatever its size. So lines that
arrive while the disk is busy wait and share the next sync, together with the files that they refer to: a line is in the
journal only when its files are on disk. The start of an attempt is written without a sync: the line survives a kill at
once, and a power cut after the next sync.
"""

import asyncio
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.files import StagedFile, append_whole, sync_data, sync_directory, truncate_torn_line
from proctor.core.record import from_json
from proctor.core.run import JournalEntry
from proctor.core.user_files import read_line_blocks, read_user_lines

_DECODER: Final = msgspec.json.Decoder(JournalEntry)
_MAX_BATCH: Final = 64  # commits; their files are open at the same time


class _JournalCommit(NamedTuple):
    """Files, the lines that refer to them, and a future for both being durable; `unsynced_files` need not be."""

    files: Mapping[Path, bytes]
    unsynced_files: Mapping[Path, bytes]
    lines: bytes
    done: asyncio.Future[None]


class Journal:
    """Writes a journal. A run has one writer; the run's lock guarantees that."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor = -1
        self._pending: list[_JournalCommit] = []
        self._syncing: asyncio.Task[None] | None = None
        # A thread of its own: syncs must not wait for threads that copy trees or run git.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="journal")
        self._writing = threading.Lock()

    def append(self, entry: JournalEntry) -> None:
        """Write one line; it survives a kill at once, and a power cut once anything is committed.

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
        """Write files, then the lines that refer to them; returns when all of it would survive a power cut.

        Missing folders are made. `unsynced_files` are written too, and may be lost in a power cut.

        Raises:
            OSError: something cannot be written; these lines are not in the journal, or may not survive a power cut.
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
                batch, self._pending = self._pending[:_MAX_BATCH], self._pending[_MAX_BATCH:]
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
        """Write a batch; the error of each commit, if any.

        All files are written before the first is synced: one commit of the file system's own journal then does for
        most of them.
        """
        writers = [_CommitFiles(commit) for commit in batch]
        try:
            for step in (_CommitFiles.stage, _CommitFiles.sync, _CommitFiles.replace):
                for writer in writers:
                    writer.try_to(step)
        finally:
            for writer in writers:
                writer.discard()
        good = [writer.commit for writer in writers if writer.error is None]
        try:
            for folder in {path.parent for commit in good for path in commit.files}:
                sync_directory(folder)
            if lines := b"".join(commit.lines for commit in good):
                self._append_bytes(lines)
                sync_data(self._descriptor)
        except OSError as failure:
            return [writer.error or failure for writer in writers]
        return [writer.error for writer in writers]

    def _append_bytes(self, lines: bytes) -> None:
        with self._writing:
            append_whole(self._descriptor, [lines])

    async def __aenter__(self) -> Self:
        try:
            self._descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise InfrastructureError(f"cannot write the journal: {error.strerror}", where=self._file) from error
        truncate_torn_line(self._descriptor)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A caller that waited may have been cancelled; its entries are written all the same.
        while self._syncing is not None:
            await asyncio.wait({self._syncing})
        self._thread.shutdown()
        os.close(self._descriptor)


def _lines(entries: Iterable[JournalEntry]) -> bytes:
    return b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)


class _CommitFiles:
    """The files of one commit, on their way to the disk; an error ends it for this commit alone."""

    def __init__(self, commit: _JournalCommit) -> None:
        self.commit = commit
        self.error: OSError | None = None
        self._staged: list[StagedFile] = []

    def try_to(self, step: Callable[["_CommitFiles"], None]) -> None:
        """Take a step, unless one before it has failed."""
        if self.error is None:
            try:
                step(self)
            except OSError as error:
                self.error = error

    def stage(self) -> None:
        """Write them beside their targets."""
        for path, data in self.commit.unsynced_files.items():
            path.write_bytes(data)
        for path, data in self.commit.files.items():
            try:
                staged = StagedFile(path, data)
            except FileNotFoundError:
                path.parent.mkdir(parents=True)
                staged = StagedFile(path, data)
            self._staged.append(staged)

    def sync(self) -> None:
        """Have their content on disk."""
        for staged in self._staged:
            staged.sync()

    def replace(self) -> None:
        """Put them in their places."""
        for staged in self._staged:
            staged.replace()

    def discard(self) -> None:
        """Remove what an error has left beside its target."""
        for staged in self._staged:
            staged.discard()


def read_journal(file: Path) -> Iterator[JournalEntry]:
    """All entries, oldest first. An unfinished last line, left by a kill, is ignored.

    Raises:
        InvalidData: a finished line is not an entry; says which.
    """
    if not file.exists():
        return
    known = 0
    try:
        for block in read_line_blocks(file):
            if not block.endswith(b"\n"):
                return
            entries = _DECODER.decode_lines(block)
            known += len(entries)
            yield from entries
    except (OSError, msgspec.DecodeError, RecursionError):
        pass  # entries of an older version, or what is no entry: line by line
    else:
        return
    yield from itertools.islice(_read_lines(file), known, None)


def _read_lines(file: Path) -> Iterator[JournalEntry]:
    for number, line in enumerate(read_user_lines(file, "the journal"), start=1):
        if not line.endswith(b"\n"):
            return
        if line.strip():
            try:
                entry = from_json(line, JournalEntry)
            except InvalidData as error:
                raise InvalidData(error.what, where=f"{file}:{number}", fix="remove that line, then resume") from error
            yield entry
