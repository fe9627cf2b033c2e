"""The spool of a node: what attempts leave behind, kept until the driver has all of it."""

import fcntl
import hashlib
import os
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from proctor.core.disk_names import disk_name
from proctor.core.errors import InvalidData
from proctor.core.files import cache_root, write_atomic
from proctor.core.record import Record, read_record, to_json
from proctor.core.run import Trial
from proctor.results.attempt_record import RECORDING_FILE
from proctor.runner.executors.messages import MAX_CHUNK_BYTES, SpoolEntry, attempt_key

_NAME_FILE: Final = "attempt-name.json"
_LOGS: Final = "logs"
# Runs that nobody has resumed for so long are not going to be.
_KEEP_SECONDS: Final = 30 * 86400.0


class _SpooledAttempt(Record):
    """Which attempt a folder of the spool belongs to."""

    run: str
    trial: Trial
    number: int


class Spool:
    """One folder per attempt, below the cache of the node.

    Machines may share a cache, and workers a machine: each machine has a folder of its own, and what a worker makes is
    locked until it is removed, or the worker has ended.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root or cache_root() / "spool" / disk_name(socket.gethostname())
        self._locks: dict[str, int] = {}

    def create(self, run: str, trial: Trial, number: int) -> Path:
        """An empty folder for the logs of an attempt."""
        folder = self._folder(attempt_key(run, trial, number))
        shutil.rmtree(folder, ignore_errors=True)
        (folder / _LOGS).mkdir(parents=True)
        write_atomic(folder / _NAME_FILE, to_json(_SpooledAttempt(run=run, trial=trial, number=number)))
        self._locks[folder.name] = os.open(folder / _NAME_FILE, os.O_RDONLY | os.O_CLOEXEC)
        with suppress(OSError):  # some file systems have no locks
            fcntl.flock(self._locks[folder.name], fcntl.LOCK_EX | fcntl.LOCK_NB)
        return folder / _LOGS

    def entries(self) -> list[SpoolEntry]:
        """All that is kept and not being made; what is too old, or cannot be read, is removed."""
        found = []
        for folder in sorted(self._root.iterdir()) if self._root.is_dir() else ():
            if _is_locked(folder / _NAME_FILE):
                continue
            try:
                known = read_record(folder / _NAME_FILE, _SpooledAttempt)
                recording = folder / _LOGS / RECORDING_FILE
                size = recording.stat().st_size if recording.exists() else 0
                if time.time() - folder.stat().st_mtime > _KEEP_SECONDS:
                    raise InvalidData("too old")
            except (InvalidData, OSError):
                shutil.rmtree(folder, ignore_errors=True)
                continue
            key = attempt_key(known.run, known.trial, known.number)
            found.append(SpoolEntry(key, known.run, known.trial, known.number, size))
        return found

    def digest(self, key: str, size: int) -> str:
        """Of the first bytes of an attempt's recording."""
        return file_digest(self._folder(key) / _LOGS / RECORDING_FILE, size)

    def read(self, key: str, offset: int) -> bytes:
        """A part of an attempt's recording."""
        with (self._folder(key) / _LOGS / RECORDING_FILE).open("rb") as file:
            return os.pread(file.fileno(), MAX_CHUNK_BYTES, offset)

    def remove(self, key: str) -> None:
        """The driver has all of it."""
        folder = self._folder(key)
        shutil.rmtree(folder, ignore_errors=True)
        if (lock := self._locks.pop(folder.name, None)) is not None:
            os.close(lock)

    def close(self) -> None:
        """Nothing is being made any more."""
        for lock in self._locks.values():
            os.close(lock)
        self._locks.clear()

    def _folder(self, key: str) -> Path:
        return self._root / hashlib.sha256(key.encode()).hexdigest()[:32]


def _is_locked(file: Path) -> bool:
    """Whether a worker holds the lock of this file."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # it is not there, or cannot be read: found out elsewhere
    return False


def file_digest(file: Path, size: int) -> str:
    """The digest of the first bytes of a file; of nothing where it is shorter or not there."""
    digest, left = hashlib.sha256(), size
    try:
        with file.open("rb") as opened:
            while left and (block := opened.read(min(left, MAX_CHUNK_BYTES))):
                digest.update(block)
                left -= len(block)
    except FileNotFoundError:
        pass
    return digest.hexdigest() if not left else ""
