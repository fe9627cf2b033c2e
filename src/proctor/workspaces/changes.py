"""Changing a tree: all or nothing, and never through a link."""

import errno
import functools
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from proctor.core.causes import Cause
from proctor.core.trees import EXECUTABLE, LINK, FileEntry
from proctor.workspaces.invalid_submission import InvalidSubmission
from proctor.workspaces.paths import display_path, parents

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CONFLICT_ERRORS: Final = {errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ELOOP, errno.ENAMETOOLONG}


def write_changes(root: Path, changes: Mapping[bytes, FileEntry | None]) -> None:
    """Put every change in place (None removes), or leave the tree as it was.

    New contents are written aside first, then everything happens by renaming, so that a failure can be undone
    by renaming back. Directories that become empty go, as with ``git apply``. A file keeps its permissions but
    for the executable bits.

    Raises:
        InvalidSubmission: something that the changes do not remove is in the way.
    """
    if changes:
        _TreeUpdate(root, changes).run()


class _TreeUpdate:
    """One all-or-nothing change of a tree; every directory is opened without following links."""

    def __init__(self, root: Path, changes: Mapping[bytes, FileEntry | None]) -> None:
        self.root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.changes = changes
        self.aside = b".proctor-" + secrets.token_hex(8).encode()
        self.undo: list[Callable[[], None]] = []
        self.permissions: dict[bytes, int] = {}
        self.needed = {above for path, entry in changes.items() if entry is not None for above in parents(path)}

    def run(self) -> None:
        path = b""
        try:
            os.mkdir(self.aside, 0o700, dir_fd=self.root)
            try:
                for number, entry in enumerate(self.changes.values()):
                    self._write_aside(number, entry)
                for number, path in enumerate(self.changes):
                    self._move_aside(number, path)
                for number, (path, entry) in enumerate(self.changes.items()):
                    self._move_into_place(number, path, entry)
            except BaseException:
                for step in reversed(self.undo):
                    step()
                raise
        except OSError as error:
            if error.errno in _CONFLICT_ERRORS:
                what = f"cannot be written: {os.strerror(error.errno or 0).lower()}"
                raise InvalidSubmission(Cause.DOES_NOT_APPLY, what, where=display_path(path)) from error
            raise
        finally:
            shutil.rmtree(self.aside, ignore_errors=True, dir_fd=self.root)
            os.close(self.root)

    def _write_aside(self, number: int, entry: FileEntry | None) -> None:
        if entry is None:
            return
        place = self.aside + b"/new-%d" % number
        if entry.mode == LINK:
            os.symlink(entry.data, place, dir_fd=self.root)
            return
        with os.fdopen(os.open(place, _NEW_FILE, 0o600, dir_fd=self.root), "wb") as file:
            file.write(entry.data)

    def _move_aside(self, number: int, path: bytes) -> None:
        old = self.aside + b"/old-%d" % number
        try:
            with self._parent(path) as (directory, name):
                status = os.lstat(name, dir_fd=directory)
                if stat.S_ISDIR(status.st_mode):
                    return  # gone by the time it is replaced, if the changes empty it
                os.rename(name, old, src_dir_fd=directory, dst_dir_fd=self.root)
        except (FileNotFoundError, NotADirectoryError):
            return
        if stat.S_ISREG(status.st_mode):
            self.permissions[path] = stat.S_IMODE(status.st_mode)
        self.undo.append(lambda: self._move_back(old, path))
        if self.changes[path] is None:
            self._prune(path)

    def _move_back(self, old: bytes, path: bytes) -> None:
        with self._parent(path) as (directory, name):
            os.rename(old, name, src_dir_fd=self.root, dst_dir_fd=directory)

    def _prune(self, path: bytes) -> None:
        for above in reversed(parents(path)):
            if above in self.needed:
                return
            with self._parent(above) as (directory, name):
                mode = stat.S_IMODE(os.lstat(name, dir_fd=directory).st_mode)
                try:
                    os.rmdir(name, dir_fd=directory)
                except OSError as error:
                    if error.errno in {errno.ENOTEMPTY, errno.EEXIST}:
                        return
                    raise
            self.undo.append(functools.partial(self._recreate_directory, above, mode))

    def _recreate_directory(self, path: bytes, mode: int) -> None:
        with self._parent(path) as (directory, name):
            os.mkdir(name, dir_fd=directory)
            os.chmod(name, mode, dir_fd=directory)

    def _move_into_place(self, number: int, path: bytes, entry: FileEntry | None) -> None:
        if entry is None:
            return
        new = self.aside + b"/new-%d" % number
        if entry.mode != LINK:
            kept = self.permissions.get(path, 0o644) & 0o777
            readers = (kept & 0o444) >> 2
            os.chmod(new, kept | readers if entry.mode == EXECUTABLE else kept & ~0o111, dir_fd=self.root)
        with self._parent(path, make=True) as (directory, name):
            os.rename(new, name, src_dir_fd=self.root, dst_dir_fd=directory)
        self.undo.append(lambda: self._remove(path))

    def _remove(self, path: bytes) -> None:
        with self._parent(path) as (directory, name):
            os.unlink(name, dir_fd=directory)

    @contextmanager
    def _parent(self, path: bytes, *, make: bool = False) -> Iterator[tuple[int, bytes]]:
        *above, name = path.split(b"/")
        directory = os.dup(self.root)
        try:
            for depth, step in enumerate(above):
                try:
                    inner = os.open(step, _DIRECTORY, dir_fd=directory)
                except FileNotFoundError:
                    if not make:
                        raise
                    os.mkdir(step, 0o755, dir_fd=directory)
                    self.undo.append(functools.partial(self._remove_directory, b"/".join(above[: depth + 1])))
                    inner = os.open(step, _DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = inner
            yield directory, name
        finally:
            os.close(directory)

    def _remove_directory(self, path: bytes) -> None:
        with self._parent(path) as (directory, name):
            os.rmdir(name, dir_fd=directory)
