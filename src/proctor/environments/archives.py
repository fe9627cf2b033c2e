"""Trees as tar streams, as a Docker engine gives and takes them."""

import os
import queue
import stat
import tarfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, Final, cast

from proctor.core.errors import LimitReached, RetryableError
from proctor.core.trees import MAX_DEPTH, DirFdPath, open_forced, open_parent
from proctor.environments.tree_copy import (
    ENTRY_BYTES,
    Copier,
    CopyStopped,
    create_file,
    open_or_make_directory,
    open_target_parent,
    write_all,
    write_symlink,
)

_CHUNK: Final = 1 << 20
_QUEUE_CHUNKS: Final = 8
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_END_OF_ARCHIVE: Final = b"\0" * 1024


def pack(source: Path | bytes, target: str, mode: int | None) -> Iterator[bytes]:
    """A tar stream, in large pieces, that puts `source` at the absolute path `target`, owned by root."""
    waiting = bytearray()
    for piece in _pack(source, target.lstrip("/"), mode):
        waiting += piece
        if len(waiting) >= _CHUNK:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting) + _END_OF_ARCHIVE


def _pack(source: Path | bytes, name: str, mode: int | None) -> Iterator[bytes]:
    if isinstance(source, bytes):
        entry = _entry(name, tarfile.REGTYPE, 0o644 if mode is None else mode, 0)
        entry.size = len(source)
        yield _header(entry)
        yield source
        yield b"\0" * (-len(source) % tarfile.BLOCKSIZE)
        return
    with open_parent(source.resolve()) as place:
        yield from _pack_entry(place, name, mode, 0)


def _pack_entry(source: DirFdPath, name: str, mode: int | None, depth: int) -> Iterator[bytes]:
    if depth > MAX_DEPTH:
        raise LimitReached("depth of the copied tree", value=depth, limit=MAX_DEPTH)
    info = os.stat(source.name, dir_fd=source.dir_fd, follow_symlinks=False)
    permissions = stat.S_IMODE(info.st_mode) & 0o777
    if stat.S_ISLNK(info.st_mode):
        link = _entry(name, tarfile.SYMTYPE, 0o777, info.st_mtime)
        link.linkname = os.readlink(source.name, dir_fd=source.dir_fd)
        yield _header(link)
    elif stat.S_ISREG(info.st_mode):
        yield from _pack_file(source, name, permissions if mode is None else mode)
    elif stat.S_ISDIR(info.st_mode):
        yield _header(_entry(name, tarfile.DIRTYPE, permissions, info.st_mtime))
        directory = open_forced(source, _READ | os.O_DIRECTORY)
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    yield from _pack_entry(DirFdPath(directory, entry.name), f"{name}/{entry.name}", None, depth + 1)
        finally:
            os.close(directory)


def _pack_file(source: DirFdPath, name: str, permissions: int) -> Iterator[bytes]:
    reader = open_forced(source, _READ)
    try:
        info = os.fstat(reader)
        entry = _entry(name, tarfile.REGTYPE, permissions, info.st_mtime)
        entry.size = info.st_size
        yield _header(entry)
        rest = info.st_size
        while rest:
            piece = os.read(reader, min(rest, _CHUNK))
            if not piece:
                raise RetryableError("a file shrank while it was copied", where=source.name)
            rest -= len(piece)
            yield piece
        yield b"\0" * (-info.st_size % tarfile.BLOCKSIZE)
    finally:
        os.close(reader)


def _entry(name: str, kind: bytes, mode: int, mtime: float) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode
    entry.mtime = int(mtime)
    return entry


def _header(entry: tarfile.TarInfo) -> bytes:
    return entry.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


class ChunkPipe:
    """A file for one thread to read, made of pieces that another one gives."""

    def __init__(self) -> None:
        self._pieces: queue.Queue[bytes] = queue.Queue(_QUEUE_CHUNKS)
        self._rest = memoryview(b"")
        self._stopped = False

    def put(self, piece: bytes) -> bool:
        """Add a piece, empty at the end of the file; False when there is no space for it right now."""
        try:
            self._pieces.put_nowait(piece)
        except queue.Full:
            return False
        return True

    def stop(self) -> None:
        """Make the reader end with `Stopped`."""
        self._stopped = True
        self.put(b"")  # wakes it; when there is no space, it is not asleep

    def read(self, size: int) -> bytes:
        """What the tar reader calls."""
        parts = []
        while size > 0:
            if not self._rest:
                self._rest = memoryview(self._pieces.get())
                if self._stopped:
                    raise CopyStopped
                if not self._rest:
                    self._pieces.put(b"")  # stay at the end
                    break
            part, self._rest = self._rest[:size], self._rest[size:]
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def unpack(chunks: ChunkPipe, target: Path, max_bytes: int) -> None:
    """Write what a tar stream of one file or tree holds to `target`, and to no other place whatever it says.

    Raises:
        LimitReached: it holds more than allowed.
        RetryableError: it is broken.
    """
    try:
        with open_target_parent(target) as place, closing(_Unpacker(place, Copier(max_bytes))) as unpacking:
            unpacking.run(chunks)
    except tarfile.TarError as error:
        raise RetryableError(f"the engine sent a broken archive: {error}") from error


class _Unpacker:
    """Writes the entries of one archive, each below the target by a walk that follows no symlink."""

    def __init__(self, target: DirFdPath, copier: Copier) -> None:
        self._target = target
        self._copier = copier
        self._modes: list[tuple[list[str], int]] = []
        self._folders: list[str] | None = None
        self._current = -1

    def run(self, chunks: ChunkPipe) -> None:
        file = cast("IO[bytes]", chunks)
        with tarfile.open(fileobj=file, mode="r|", encoding="utf-8", errors="surrogateescape") as archive:
            for entry in archive:
                self._copier.count_bytes(ENTRY_BYTES)
                path = self._path(entry.name)
                if path is not None:
                    self._write(archive, entry, path)
        # Last, and from the inside out: a directory that may not be written could not have been filled.
        for path, mode in reversed(self._modes):
            directory, _ = open_or_make_directory(self._enter(path))
            os.fchmod(directory, mode)
            os.close(directory)

    def _path(self, name: str) -> list[str] | None:
        """Where an entry goes: the archive's own first name is replaced by the target's."""
        parts = [part for part in name.split("/") if part not in {"", "."}]
        if not parts or ".." in parts:
            return None
        if len(parts) > MAX_DEPTH:
            raise LimitReached("depth of the copied tree", value=len(parts), limit=MAX_DEPTH)
        return [self._target.name, *parts[1:]]

    def _enter(self, path: list[str]) -> DirFdPath:
        """A path as a place, with the directories above it made if need be. Good until the next call."""
        folders = path[:-1]
        if folders != self._folders:
            current = os.dup(self._target.dir_fd)
            try:
                for name in folders:
                    following, _ = open_or_make_directory(DirFdPath(current, name))
                    os.close(current)
                    current = following
            except BaseException:
                os.close(current)
                raise
            self.close()
            self._folders, self._current = folders, current
        return DirFdPath(self._current, path[-1])

    def close(self) -> None:
        """Let go of the directory that was entered last."""
        if self._folders is not None:
            self._folders = None
            os.close(self._current)

    def _write(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, path: list[str]) -> None:
        place = self._enter(path)
        if entry.isdir():
            directory, made = open_or_make_directory(place)
            os.close(directory)
            if made:
                self._modes.append((path, entry.mode & 0o777))
        elif entry.issym():
            write_symlink(entry.linkname, place)
        elif entry.isreg():
            self._write_file(archive, entry, place)
        elif entry.islnk():
            self._copy_hard_link(entry, path)

    def _write_file(self, archive: tarfile.TarFile, entry: tarfile.TarInfo, target: DirFdPath) -> None:
        self._copier.check_size(entry.size)
        source = archive.extractfile(entry)
        if source is None:
            return
        writer = create_file(target)
        try:
            while piece := source.read(_CHUNK):
                self._copier.count_bytes(len(piece))
                write_all(writer, piece)
            os.fchmod(writer, entry.mode & 0o777)
            os.utime(writer, (entry.mtime, entry.mtime))
        finally:
            os.close(writer)

    def _copy_hard_link(self, entry: tarfile.TarInfo, path: list[str]) -> None:
        """A hard link is a file of its own on this side. What links to anything but a file is no link of an
        environment's.
        """
        original = self._path(entry.linkname)
        if original is None:
            return
        twin = self._enter(original)
        directory = os.dup(twin.dir_fd)  # it is good until the next call only
        try:
            twin = DirFdPath(directory, twin.name)
            with suppress(FileNotFoundError):
                if stat.S_ISREG(os.stat(twin.name, dir_fd=directory, follow_symlinks=False).st_mode):
                    self._copier.copy(twin, self._enter(path))
        finally:
            os.close(directory)
