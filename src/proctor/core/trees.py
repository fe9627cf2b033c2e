"""Walks, reads and removes file trees that somebody hostile may have made, and may still be changing.

No symlink is ever followed. What is named by a directory's descriptor and one name in it stays in its tree whatever is
swapped in meanwhile.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from proctor.core.errors import LimitReached
from proctor.core.record import Record

FILE: Final = 0o100644
EXECUTABLE: Final = 0o100755
LINK: Final = 0o120000
SUBMODULE: Final = 0o160000

MAX_DEPTH: Final = 128
LARGEST_FILE: Final = 64 << 20
OPEN_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_DIRECTORY: Final = OPEN_READ | os.O_DIRECTORY
OWNER_BITS: Final = 0o700
_ABSENT: Final = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}


class FileEntry(NamedTuple):
    """A file or a symlink: git's mode for it, and its bytes (of a link: its target)."""

    mode: int
    data: bytes


class TreeChange(Record):
    """What changed between two trees: the files at the changed paths, before and after."""

    before: dict[str, FileEntry]
    after: dict[str, FileEntry]

    @property
    def paths(self) -> tuple[str, ...]:
        """The changed paths, in order; `os.fsencode` gives their bytes."""
        return tuple(
            path for path in sorted({*self.before, *self.after}) if self.before.get(path) != self.after.get(path)
        )


class FileKind(Enum):
    """What a directory holds under one name."""

    FILE = auto()
    LINK = auto()
    DIRECTORY = auto()
    SPECIAL = auto()


class DirectoryEntry(NamedTuple):
    """One name in a directory; `path` is relative to the tree's root."""

    path: bytes
    name: bytes
    kind: FileKind


def on_disk(root: Path, path: bytes) -> Path:
    """Where a path of the tree is on disk."""
    return root / os.fsdecode(path)


def list_directory(root: Path, directory: bytes) -> list[DirectoryEntry]:
    """What one directory of a tree holds, sorted by name."""
    found = []
    with os.scandir(os.fsencode(on_disk(root, directory))) as entries:
        for entry in entries:
            path = directory + b"/" + entry.name if directory else entry.name
            if entry.is_symlink():
                kind = FileKind.LINK
            elif entry.is_dir(follow_symlinks=False):
                kind = FileKind.DIRECTORY
            elif entry.is_file(follow_symlinks=False):
                kind = FileKind.FILE
            else:
                kind = FileKind.SPECIAL
            found.append(DirectoryEntry(path, entry.name, kind))
    return sorted(found)


def open_file(root: Path, path: bytes) -> int:
    """A descriptor of a regular file, for reading; never one behind a link, never one that blocks."""
    return os.open(on_disk(root, path), OPEN_READ)


def git_mode(status: os.stat_result) -> int:
    """The mode that git keeps of a regular file."""
    return EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE


def read_entry(root: Path, path: bytes) -> FileEntry | None:
    """The file or symlink at `path`; None when there is none."""
    try:
        place = on_disk(root, path)
        status = place.lstat()
        if stat.S_ISLNK(status.st_mode):
            return FileEntry(LINK, os.fsencode(os.readlink(place)))  # noqa: PTH115 - Path would tidy the target up
        if not stat.S_ISREG(status.st_mode):
            return None
        with os.fdopen(open_file(root, path), "rb") as file:
            return FileEntry(git_mode(status), file.read())
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def read_tree(root: Path) -> dict[bytes, FileEntry]:
    """Every file and symlink of a small tree."""
    entries = ((path, read_entry(root, path)) for path in file_paths(root))
    return {path: entry for path, entry in entries if entry is not None}


def read_change(base: Path, tree: Path, paths: Iterable[str]) -> TreeChange:
    """What is different in `tree` at these paths, compared with `base`."""
    before, after = ({path: read_entry(root, os.fsencode(path)) for path in paths} for root in (base, tree))
    return TreeChange(
        before={path: entry for path, entry in before.items() if entry is not None and entry != after[path]},
        after={path: entry for path, entry in after.items() if entry is not None and entry != before[path]},
    )


def file_paths(root: Path) -> Iterator[bytes]:
    """The paths of all that is no directory in a tree."""
    waiting = [b""]
    while waiting:
        for child in list_directory(root, waiting.pop()):
            if child.kind is FileKind.DIRECTORY:
                waiting.append(child.path)
            else:
                yield child.path


def write_entry(root: Path, path: bytes, entry: FileEntry) -> None:
    """Write one file or symlink of a tree that is ours alone."""
    place = on_disk(root, path)
    place.parent.mkdir(parents=True, exist_ok=True)
    if entry.mode == LINK:
        place.symlink_to(os.fsdecode(entry.data))
        return
    permissions = 0o755 if entry.mode == EXECUTABLE else 0o644
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions)
    with os.fdopen(descriptor, "wb") as file:
        file.write(entry.data)


def type_at(root: Path, path: bytes) -> int | None:
    """What is at `path`, as `stat.S_IFMT` tells it, links not followed; None when nothing can be there."""
    try:
        return stat.S_IFMT(on_disk(root, path).lstat().st_mode)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise


def read_regular_file(home: Path, *parts: str) -> bytes | None:
    """The bytes of the plain file ``home/parts…``; None when there is none.

    No symlink is followed below the parent of `home`, and nothing is opened that could block: what is not a plain
    file, or not ours to read, or absurdly large, counts as absent.
    """
    descriptor = -1
    try:
        for part in (str(home), *parts[:-1]):
            parent = descriptor if descriptor >= 0 else None
            inner = os.open(part, OPEN_DIRECTORY, dir_fd=parent)
            if parent is not None:
                os.close(parent)
            descriptor = inner
        file = os.open(parts[-1], OPEN_READ, dir_fd=descriptor)
    except OSError:
        return None
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
        os.close(file)
        return None
    with os.fdopen(file, "rb") as opened:
        return opened.read()


def is_directory(path: Path) -> bool:
    """Whether a directory itself, not a symlink to one, is there to be seen."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


class DirFdPath(NamedTuple):
    """A name in an open directory."""

    dir_fd: int
    name: str


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
            os.chmod(own, stat.S_IMODE(mode) | OWNER_BITS)  # noqa: PTH101 - it is no path
            return os.open(own, flags & ~os.O_NOFOLLOW)
        finally:
            os.close(handle)


def make_readable(tree: Path) -> None:
    """Give the owner of a tree, who we are, back the permissions to read it. What cannot be reached stays as it is."""
    waiting = [tree]
    while waiting:
        directory = waiting.pop()
        with suppress(OSError):
            directory.chmod(stat.S_IMODE(directory.lstat().st_mode) | OWNER_BITS)
            with os.scandir(directory) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                        if not mode & stat.S_IRUSR:
                            Path(entry.path).chmod(mode | stat.S_IRUSR | stat.S_IWUSR)


@contextmanager
def open_parent(path: Path) -> Iterator[DirFdPath]:
    """A path of the host as a place."""
    path = path.absolute()
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield DirFdPath(directory, path.name)
    finally:
        os.close(directory)


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
        top = open_forced(path, OPEN_DIRECTORY)
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
    if mode & OWNER_BITS != OWNER_BITS:
        os.fchmod(directory, mode | OWNER_BITS)
    with os.scandir(directory) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    moved = False
    for name, is_directory in found:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
        elif depth < MAX_DEPTH:
            inner = open_forced(DirFdPath(directory, name), OPEN_DIRECTORY)
            try:
                moved = _empty_directory(inner, top, depth + 1) or moved
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=directory)
        else:
            # Only a directory that may be written can be moved.
            os.close(open_forced(DirFdPath(directory, name), OPEN_DIRECTORY))
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
        directory = open_forced(path, OPEN_DIRECTORY)
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
