"""Copies file trees that somebody hostile may have made, and may still be changing (see `core.trees`)."""

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from proctor.core.errors import LimitReached
from proctor.core.trees import (
    MAX_DEPTH,
    OPEN_DIRECTORY,
    OPEN_READ,
    OWNER_BITS,
    DirFdPath,
    open_forced,
    open_parent,
    remove_entry,
)

_Copied = TypeVar("_Copied")

ENTRY_BYTES: Final = 512
_CHUNK: Final = 1 << 20
_SMALL: Final = 1 << 16
_PERMISSIONS: Final = 0o777
_NO_KERNEL_COPY: Final = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_RETRIES: Final = 10
_NOT_A_DIRECTORY: Final = {errno.ENOTDIR, errno.ELOOP, errno.EMLINK}


class CopyStopped(Exception):
    """The copy was cancelled."""


class Copier:
    """Copies entries between directories, up to `max_bytes` in all; one object per copy.

    Symlinks stay symlinks, hard links become files, sockets, FIFOs and devices are left behind. Directories are
    merged, anything else in the way is replaced. Only the permission bits and, for files, the time are kept.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._limit = max_bytes
        self._used = 0
        self._stopped = False
        self._in_kernel = hasattr(os, "copy_file_range")
        self._umask = _umask()

    async def in_thread(self, copy: Callable[[], _Copied]) -> _Copied:
        """Run `copy`, which uses this object, in a thread. A caller that is cancelled stops it, and waits for it."""
        running = asyncio.ensure_future(asyncio.to_thread(copy))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.stop()
            await asyncio.wait([running])
            running.exception()
            raise

    def stop(self) -> None:
        """Make the copy, which runs in another thread, end with `Stopped` soon."""
        self._stopped = True

    def count_bytes(self, size: int) -> None:
        """Count bytes against the limit."""
        if self._stopped:
            raise CopyStopped
        self.check_size(size)
        self._used += size

    def check_size(self, size: int) -> None:
        """Refuse what would be too much before it is read."""
        if self._limit is not None and self._used + size > self._limit:
            raise LimitReached("size of the copy", value=self._used + size, limit=self._limit)

    def copy(self, source: DirFdPath, target: DirFdPath, *, mode: int | None = None) -> None:
        """Copy one entry and all below it; `mode` is for a file."""
        info = os.stat(source.name, dir_fd=source.dir_fd, follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            self._copy_symlink(source, target)
        elif stat.S_ISREG(info.st_mode):
            self._copy_file(source, target, mode)
        elif stat.S_ISDIR(info.st_mode):
            self._copy_directory(source, target, 0)

    def _copy_entry(self, entry: "os.DirEntry[str]", reading: int, writing: int, depth: int) -> None:
        source, target = DirFdPath(reading, entry.name), DirFdPath(writing, entry.name)
        if entry.is_file(follow_symlinks=False):
            self._copy_file(source, target)
        elif entry.is_dir(follow_symlinks=False):
            self._copy_directory(source, target, depth)
        elif entry.is_symlink():
            self._copy_symlink(source, target)

    def _copy_symlink(self, source: DirFdPath, target: DirFdPath) -> None:
        self.count_bytes(ENTRY_BYTES)
        write_symlink(os.readlink(source.name, dir_fd=source.dir_fd), target)

    def _copy_directory(self, source: DirFdPath, target: DirFdPath, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise LimitReached("depth of the copied tree", value=depth, limit=MAX_DEPTH)
        self.count_bytes(ENTRY_BYTES)
        reading, info = _open_with_status(source, OPEN_DIRECTORY)
        try:
            writing, made = open_or_make_directory(target)
            try:
                with os.scandir(reading) as entries:
                    for entry in entries:
                        try:
                            self._copy_entry(entry, reading, writing, depth + 1)
                        except FileNotFoundError:
                            continue  # gone between the listing and the copy
                if made:
                    os.fchmod(writing, info.st_mode & _PERMISSIONS)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def _copy_file(self, source: DirFdPath, target: DirFdPath, mode: int | None = None) -> None:
        self.count_bytes(ENTRY_BYTES)
        reader, info = _open_with_status(source, OPEN_READ)
        try:
            if not stat.S_ISREG(info.st_mode):
                return  # swapped since it was looked at
            self.check_size(info.st_size)  # a sparse terabyte is refused before it is read
            wanted = info.st_mode & _PERMISSIONS if mode is None else mode
            # Each change of a file's mode is one more entry in the file system's journal.
            as_made = wanted if wanted & self._umask == 0 else 0o600
            writer = create_file(target, as_made)
            try:
                self._copy_bytes(reader, writer, info.st_size)
                if wanted != as_made:
                    os.fchmod(writer, wanted)
                os.utime(writer, ns=(info.st_atime_ns, info.st_mtime_ns))
            finally:
                os.close(writer)
        finally:
            os.close(reader)

    def _copy_bytes(self, reader: int, writer: int, size: int) -> None:
        if size <= _SMALL:
            # Most files: the kernel takes longer to set its own copy up. A piece that is short of what was asked for is
            # the last one.
            piece = os.read(reader, _SMALL + 1)
            self.count_bytes(len(piece))
            write_all(writer, piece)
            if len(piece) <= _SMALL:
                return
        while self._in_kernel:
            try:
                count = os.copy_file_range(reader, writer, _CHUNK)
            except OSError as error:
                if error.errno not in _NO_KERNEL_COPY:
                    raise
                self._in_kernel = False
                break
            self.count_bytes(count)
            if count == 0:
                return
        while piece := os.read(reader, _CHUNK):
            self.count_bytes(len(piece))
            write_all(writer, piece)


def _open_with_status(path: DirFdPath, flags: int) -> tuple[int, os.stat_result]:
    """A descriptor, and its status as it was: to open it, its permissions may have to be changed."""
    try:
        descriptor = os.open(path.name, flags, dir_fd=path.dir_fd)
    except PermissionError:
        before = os.stat(path.name, dir_fd=path.dir_fd, follow_symlinks=False)
        descriptor = open_forced(path, flags)
        if os.path.samestat(before, os.fstat(descriptor)):
            return descriptor, before
    return descriptor, os.fstat(descriptor)


def _umask() -> int:
    """What new files of this process are made without; all bits where it cannot be asked without changing it."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))
    except (OSError, StopIteration, ValueError):
        return 0o777


def open_or_make_directory(path: DirFdPath) -> tuple[int, bool]:
    """Open a directory to write into it, made if need be, and say whether it was made."""
    made = False
    for _ in range(_MAX_RETRIES):
        try:
            descriptor = open_forced(path, OPEN_DIRECTORY)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(path.name, OWNER_BITS, dir_fd=path.dir_fd)
                made = True
            continue
        except OSError as error:
            if error.errno not in _NOT_A_DIRECTORY:
                raise
            remove_entry(path)
            continue
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if not made and mode & OWNER_BITS != OWNER_BITS:
            os.fchmod(descriptor, mode | OWNER_BITS)
        return descriptor, made
    raise OSError(errno.EBUSY, "the destination keeps changing", path.name)


def create_file(path: DirFdPath, mode: int = 0o600) -> int:
    """Open a new file for writing, private by default, in the place of whatever has this name."""
    for _ in range(_MAX_RETRIES):
        try:
            return os.open(path.name, _CREATE, mode, dir_fd=path.dir_fd)
        except FileExistsError:
            remove_entry(path)
    raise OSError(errno.EBUSY, "the destination keeps changing", path.name)


def write_symlink(text: str, path: DirFdPath) -> None:
    """Make a symlink in the place of whatever has this name."""
    try:
        os.symlink(text, path.name, dir_fd=path.dir_fd)
    except FileExistsError:
        remove_entry(path)
        os.symlink(text, path.name, dir_fd=path.dir_fd)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextmanager
def open_target_parent(path: Path) -> Iterator[DirFdPath]:
    """The same, for a copy that leaves nothing behind when it fails, unless something was there before."""
    there = os.path.lexists(path)
    with open_parent(path) as place:
        try:
            yield place
        except BaseException:
            if not there:
                remove_entry(place)
            raise
