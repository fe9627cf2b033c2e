"""Files on disk as git sees them, read without following links."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import Final, NamedTuple

from proctor.core.record import Record
from proctor.workspaces.paths import parents

FILE: Final = 0o100644
EXECUTABLE: Final = 0o100755
LINK: Final = 0o120000
SUBMODULE: Final = 0o160000

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
    return os.open(on_disk(root, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


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


def link_above(root: Path, path: bytes) -> bytes | None:
    """The outermost directory of `path` that is a symlink in this tree; None when there is none."""
    return next((above for above in parents(path) if type_at(root, above) == stat.S_IFLNK), None)
