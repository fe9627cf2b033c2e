"""Where a process keeps what it needs for a while: one folder, which whoever comes later removes if we are killed."""

import atexit
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PREFIX: Final = "proctor-"
_LOCK: Final = "lock"


@functools.cache
def scratch_folder() -> Path:
    """This process's own folder among the temporary files; removed when the process ends.

    It holds a lock for as long as the process lives. Folders whose owners have died are removed first.
    """
    place = Path(tempfile.gettempdir())
    remove_abandoned(place)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    # The lock has its name only once it is held, so nobody finds it free while we live.
    nameless = folder / f".{_LOCK}"
    lock = os.open(nameless, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    nameless.rename(folder / _LOCK)
    atexit.register(_remove, folder, os.getpid())
    return folder


def remove_abandoned(place: Path) -> list[Path]:
    """Remove the scratch folders at `place` whose owners have died; which they were."""
    removed = []
    for folder in sorted(place.glob(f"{_PREFIX}*/")):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # somebody else's, or being made or removed right now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue  # its owner lives
        else:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
        finally:
            os.close(lock)
    return removed


@contextmanager
def temporary_files_here() -> Iterator[None]:
    """Let all of this process's temporary files lie in its scratch folder, for the length of the block.

    For a process that is ours alone: where temporary files go is said once for all threads.
    """
    before = tempfile.tempdir
    tempfile.tempdir = str(scratch_folder())
    try:
        yield
    finally:
        tempfile.tempdir = before


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a child that was forked
        shutil.rmtree(folder, ignore_errors=True)
