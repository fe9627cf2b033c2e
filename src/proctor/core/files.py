"""Atomic writes, appends, locks that end with the process, and the cache folder."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from proctor.core.errors import RetryableError

HEALTH_CACHE: Final = "health"  # the part of the cache for the results of `validate`
_BLOCK_BYTES: Final = 256 * 1024


def cache_root() -> Path:
    """The folder for everything that can be made again: PROCTOR_CACHE, or one in the user's cache folder."""
    given = os.environ.get("PROCTOR_CACHE")
    if given:
        return Path(given).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "proctor"


def write_atomic(path: Path, data: bytes | str, *, mode: int = 0o644) -> None:
    """Replace `path` by `data` so that readers, also after a crash, see the old file or the new one, never a part.

    The temporary file has a fixed name beside the target, so that a leftover of a killed write is overwritten by the
    next. Callers hold a lock or are the only writer.
    """
    staged = StagedFile(path, data.encode() if isinstance(data, str) else data, mode=mode)
    try:
        staged.sync()
        staged.replace()
    finally:
        staged.discard()
    sync_directory(path.parent)


class StagedFile:
    """A file that is written beside its target, synced, and then put in its place: three steps, so that many files can
    share the disk's syncs. `discard` removes what has not come as far as that; afterwards it does nothing.
    """

    def __init__(self, path: Path, data: bytes, *, mode: int = 0o644) -> None:
        self._target = os.fspath(path)
        folder, name = os.path.split(self._target)
        self._staged = os.path.join(folder, f".{name}.tmp")
        self._descriptor = -1
        _refuse_special_file(self._target)
        # O_EXCL: a symlink planted under the temporary name is refused, and the mode holds from the first byte.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self._descriptor = os.open(self._staged, flags, mode)
        except FileExistsError:
            os.unlink(self._staged)
            self._descriptor = os.open(self._staged, flags, mode)
        try:
            os.fchmod(self._descriptor, mode)
            _write_all(self._descriptor, data)
        except BaseException:
            self.discard()
            raise

    def sync(self) -> None:
        """Have its content on disk."""
        os.fsync(self._descriptor)

    def replace(self) -> None:
        """Put it in its place; that survives a power cut once the directory is synced."""
        os.replace(self._staged, self._target)
        self._close()

    def discard(self) -> None:
        """Remove it, unless it is in its place."""
        if self._close():
            with suppress(FileNotFoundError):
                os.unlink(self._staged)

    def _close(self) -> bool:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return False
        os.close(descriptor)
        return True


def _refuse_special_file(path: str) -> None:
    """A rename would replace a device, even /dev/null, by a file for all programs of the machine."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EEXIST, "it exists and is not a regular file", path)


# The content of a file, without its times; macOS has no such call.
sync_data: Final = getattr(os, "fdatasync", os.fsync)


def sync_directory(path: Path) -> None:
    """Make renames and removals in this directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and FUSE file systems cannot sync a directory.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def append_whole(descriptor: int, pieces: Iterable[bytes]) -> None:
    """Append all of it, or nothing: when writing fails half-way, as on a full disk, the file is cut back.

    Raises:
        OSError: it cannot be written.
    """
    start = os.fstat(descriptor).st_size
    try:
        rest = b""
        for piece in pieces:
            if len(rest) > _BLOCK_BYTES:
                _write_all(descriptor, rest)
                rest = b""
            rest += piece
        _write_all(descriptor, rest)
    except OSError:
        os.ftruncate(descriptor, start)
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def truncate_torn_line(descriptor: int) -> None:
    """Cut off the unfinished last line that a killed writer left."""
    size = end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end != size:
        os.ftruncate(descriptor, end)


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A path beside `target` for a folder that becomes `target` when the block ends without an error.

    What a killed process has left there is removed first: the caller holds a lock, so none writes to it any more.
    """
    import shutil  # slow, and loaded only where folders are made

    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        yield partial
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def file_lock(
    path: Path, *, what: str, wait_seconds: float = 60.0, on_wait: Callable[[], None] | None = None
) -> Iterator[int]:
    """Hold an exclusive lock on the file `path`; the kernel drops it when the holder dies.

    Yields the lock's descriptor: a child process that inherits it holds the lock too, also after this one is killed.

    Args:
        path: the lock file; it is not removed, since that would allow two holders.
        what: what the lock guards, for the error message.
        wait_seconds: how long to wait for another holder.
        on_wait: called once if another holder must be waited for.

    Raises:
        RetryableError: another process held it for all of `wait_seconds`.
    """
    deadline = time.monotonic() + wait_seconds
    waiting = False
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise RetryableError(
                        f"{what} is in use by another command",
                        fix="wait for it to end" + (f" (waited {wait_seconds:g} s)" if wait_seconds else ""),
                    ) from None
                if on_wait and not waiting:
                    on_wait()
                waiting = True
                time.sleep(0.02)
        yield descriptor
    finally:
        os.close(descriptor)
