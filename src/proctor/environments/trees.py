"""Copying and removing file trees that somebody hostile may have made, and may still be changing.

Everything is named by a directory's descriptor and one name in it, and no symlink is ever followed: whatever is
swapped in while we look, we never leave the two trees.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from proctor.core.errors import LimitReached

ENTRY_BYTES: Final = 512
MAX_DEPTH: Final = 128
_CHUNK: Final = 1 << 20
_OWNER_BITS: Final = 0o700
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY: Final = _READ | os.O_DIRECTORY
_NO_KERNEL_COPY: Final = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF}
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_RETRIES: Final = 10
_NOT_A_DIRECTORY: Final = {errno.ENOTDIR, errno.ELOOP, errno.EMLINK}


class DirFdPath(NamedTuple):
    """A name in an open directory."""

    dir_fd: int
    name: str


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
        reading = open_forced(source, _DIRECTORY)
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
        reader = open_forced(source, _READ)
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


def open_forced(path: DirFdPath, flags: int) -> int:
    """Open what is there, not through a symlink, and even if its owner, who we are, has no permission left."""
    try:
        return os.open(path.name, flags, dir_fd=path.dir_fd)
    except PermissionError:
        if not hasattr(os, "O_PATH"):
            raise
        handle = os.open(path.name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=path.dir_fd)
        try:
            mode = os.fstat(handle).st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise
            # Through the handle, so that it is this very file, whatever has taken its name since.
            own = f"/proc/self/fd/{handle}"
            os.chmod(own, stat.S_IMODE(mode) | _OWNER_BITS)  # noqa: PTH101 - it is no path
            return os.open(own, flags & ~os.O_NOFOLLOW)
        finally:
            os.close(handle)


def open_or_make_directory(path: DirFdPath) -> tuple[int, bool]:
    """Open a directory to write into it, made if need be, and say whether it was made."""
    made = False
    for _ in range(_MAX_RETRIES):
        try:
            descriptor = open_forced(path, _DIRECTORY)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(path.name, _OWNER_BITS, dir_fd=path.dir_fd)
                made = True
            continue
        except OSError as error:
            if error.errno not in _NOT_A_DIRECTORY:
                raise
            remove_entry(path)
            continue
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if not made and mode & _OWNER_BITS != _OWNER_BITS:
            os.fchmod(descriptor, mode | _OWNER_BITS)
        return descriptor, made
    raise OSError(errno.EBUSY, "something keeps getting in the way", path.name)


def create_file(path: DirFdPath) -> int:
    """Open a new, private file for writing in the place of whatever has this name."""
    for _ in range(_MAX_RETRIES):
        try:
            return os.open(path.name, _CREATE, 0o600, dir_fd=path.dir_fd)
        except FileExistsError:
            remove_entry(path)
    raise OSError(errno.EBUSY, "something keeps getting in the way", path.name)


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
def open_parent(path: Path) -> Iterator[DirFdPath]:
    """A path of the host as a place."""
    path = path.absolute()
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield DirFdPath(directory, path.name)
    finally:
        os.close(directory)


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


def remove_tree(path: Path) -> None:
    """Remove a file or a tree, however deep and whatever its permissions; nothing there is fine."""
    with open_parent(path) as place:
        remove_entry(place)


def remove_entry(path: DirFdPath) -> None:
    """Remove one name from a directory, and all below it."""
    try:
        os.unlink(path.name, dir_fd=path.dir_fd)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        top = open_forced(path, _DIRECTORY)
        try:
            # What lies too deep is moved up to here first, and goes in the next round.
            while _empty_directory(top, top, 0):
                pass
        finally:
            os.close(top)
        os.rmdir(path.name, dir_fd=path.dir_fd)


def _empty_directory(directory: int, top: int, depth: int) -> bool:
    """Remove all that is in a directory; True when something was moved to `top` instead."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & _OWNER_BITS != _OWNER_BITS:
        os.fchmod(directory, mode | _OWNER_BITS)
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    moved = False
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
        elif depth < MAX_DEPTH:
            inner = open_forced(DirFdPath(directory, name), _DIRECTORY)
            try:
                moved = _empty_directory(inner, top, depth + 1) or moved
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=directory)
        else:
            # Only a directory that may be written can be moved.
            os.close(open_forced(DirFdPath(directory, name), _DIRECTORY))
            os.rename(name, f"{os.urandom(8).hex()}-deep", src_dir_fd=directory, dst_dir_fd=top)
            moved = True
    return moved


def has_foreign_files(tree: Path) -> bool:
    """Whether anything in the tree belongs to another user or group than ours."""
    owner = (os.getuid(), os.getgid())
    waiting = [str(tree)]
    root = tree.stat()
    if (root.st_uid, root.st_gid) != owner:
        return True
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                if (info.st_uid, info.st_gid) != owner:
                    return True
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
    return False


def disk_bytes(tree: Path) -> int:
    """What a tree takes on the disk, though something inside may be changing it.

    Raises:
        LimitReached: it is nested deeper than a copy may be.
    """
    with open_parent(tree) as place:
        return _disk_bytes(place, 0)


def _disk_bytes(path: DirFdPath, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise LimitReached("depth of the tree", value=depth, limit=MAX_DEPTH)
    try:
        # Taking away its own permissions does not hide a directory's size.
        directory = open_forced(path, _DIRECTORY)
    except OSError:
        return 0  # gone, or no directory any more
    total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                except FileNotFoundError:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    total += _disk_bytes(DirFdPath(directory, entry.name), depth + 1)
    finally:
        os.close(directory)
    return total
