"""Copies file trees that somebody hostile may have made, and may still be changing (see `core.trees`)."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

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

ENTRY_BYTES: Final = 512
_CHUNK: Final = 1 << 20
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
        self._copy(source, target, mode, 0)

    def _copy(self, source: DirFdPath, target: DirFdPath, mode: int | None, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise LimitReached("depth of the copied tree", value=depth, limit=MAX_DEPTH)
        self.count_bytes(ENTRY_BYTES)
        info = os.stat(source.name, dir_fd=source.dir_fd, follow_symlinks=False)
        permissions = stat.S_IMODE(info.st_mode) & 0o777  # as they are now: to read it they may have to be changed
        if stat.S_ISLNK(info.st_mode):
            write_symlink(os.readlink(source.name, dir_fd=source.dir_fd), target)
        elif stat.S_ISREG(info.st_mode):
            self._copy_file(source, target, permissions if mode is None else mode)
        elif stat.S_ISDIR(info.st_mode):
            self._copy_directory(source, target, permissions, depth)

    def _copy_directory(self, source: DirFdPath, target: DirFdPath, permissions: int, depth: int) -> None:
        reading = open_forced(source, OPEN_DIRECTORY)
        try:
            writing, made = open_or_make_directory(target)
            try:
                with os.scandir(reading) as entries:
                    for entry in entries:
                        try:
                            self._copy(DirFdPath(reading, entry.name), DirFdPath(writing, entry.name), None, depth + 1)
                        except FileNotFoundError:
                            continue  # gone between the listing and the copy
                if made:
                    os.fchmod(writing, permissions)
            finally:
                os.close(writing)
        finally:
            os.close(reading)

    def _copy_file(self, source: DirFdPath, target: DirFdPath, permissions: int) -> None:
        reader = open_forced(source, OPEN_READ)
        try:
            info = os.fstat(reader)
            if not stat.S_ISREG(info.st_mode):
                return  # swapped since it was looked at
            self.check_size(info.st_size)  # a sparse terabyte is refused before it is read
            writer = create_file(target)
            try:
                self._copy_bytes(reader, writer)
                os.fchmod(writer, permissions)
                os.utime(writer, ns=(info.st_atime_ns, info.st_mtime_ns))
            finally:
                os.close(writer)
        finally:
            os.close(reader)

    def _copy_bytes(self, reader: int, writer: int) -> None:
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


def create_file(path: DirFdPath) -> int:
    """Open a new, private file for writing in the place of whatever has this name."""
    for _ in range(_MAX_RETRIES):
        try:
            return os.open(path.name, _CREATE, 0o600, dir_fd=path.dir_fd)
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
