"""A cache of records by the digest of everything that they depend on."""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

from proctor.core.errors import InvalidData
from proctor.core.files import cache_root
from proctor.core.record import Record, from_json, to_json

T = TypeVar("T", bound=Record)
# Of the records that are being made in this process, by file.
_LOCKS: Final[WeakValueDictionary[Path, asyncio.Lock]] = WeakValueDictionary()


def cache_key(*parts: str) -> str:
    """One digest of several texts; different lists of texts have different digests."""
    return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


class RecordCache(Generic[T]):
    """Records of one type. A file that cannot be read counts as missing, and is made again."""

    def __init__(self, kind: type[T], name: str, *, root: Path | None = None) -> None:
        self._kind = kind
        self._folder = (root or cache_root()) / name

    def get(self, key: str) -> T | None:
        """The record with this key, if there is one."""
        try:
            return from_json(self._file(key).read_bytes(), self._kind)
        except (OSError, InvalidData):
            return None

    def put(self, key: str, record: T) -> None:
        """Store a record. Two writers of one key write the same, so the last one may win."""
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Not synced: what a power cut destroys is made again, and a torn file counts as missing.
        half_written = file.with_name(f".{key}.{os.getpid()}")
        half_written.write_bytes(to_json(record))
        half_written.replace(file)

    def lock(self, key: str) -> asyncio.Lock:
        """Of the making of one record, in this process."""
        return _LOCKS.setdefault(self._file(key), asyncio.Lock())

    async def get_or_make(self, key: str, make: Callable[[], Awaitable[T]]) -> T:
        """The record with this key, made and stored where there is none; whoever asks meanwhile waits for it."""
        async with self.lock(key):
            record = self.get(key)
            if record is None:
                record = await make()
                self.put(key, record)
            return record

    def _file(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"
