"""Temporary folders: one for the process, which a later process removes if we are killed, and others in it."""

import asyncio
import atexit
import fcntl
import functools
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

_PREFIX: Final = "proctor-scratch-"
# A socket's path may have about 100 characters, of which what is made in the folder takes a part.
_MAX_SOCKET_DIR_LENGTH: Final = 60
_SHORT_PARENT: Final = Path("/tmp")  # noqa: S108 - only our user can read what is made there


@functools.cache
def scratch_folder() -> Path:
    """This process's own folder among the temporary files; removed when the process ends.

    It is locked for as long as the process lives. Folders whose owners have died are removed first.
    """
    return _make(Path(tempfile.gettempdir()).absolute())


def socket_folder() -> Path:
    """The same, or where its name is too long for sockets to be made in it, a second one."""
    folder = scratch_folder()
    return folder if len(str(folder)) <= _MAX_SOCKET_DIR_LENGTH else _make(_SHORT_PARENT)


@functools.cache
def _make(parent: Path) -> Path:
    remove_abandoned(parent)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        # Held until the process ends. Another process may have taken the folder for abandoned before it was locked.
        lock = _open(folder)
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                atexit.register(_remove, folder, os.getpid())
                return folder
            os.close(lock)


def remove_abandoned(parent: Path) -> list[Path]:
    """Remove the scratch folders in `parent` whose owners have died; which they were."""
    removed = []
    for folder in sorted(parent.glob(f"{_PREFIX}*")):
        lock = _open(folder)
        if lock is None:
            continue  # another user's, or just removed
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


def _open(folder: Path) -> int | None:
    try:
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


@contextmanager
def tempfiles_in_scratch() -> Iterator[None]:
    """Put all of this process's temporary files into its scratch folder, for the length of the block.

    For a process that is ours alone: the setting holds for all threads.
    """
    before, folder = tempfile.tempdir, scratch_folder()
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a child that was forked
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def scratch_dir(root: Path) -> AsyncIterator[Path]:
    """An empty folder below `root`, for the length of the block; its name is a number that no other has."""
    folder = next(folder for number in itertools.count(1) if not (folder := root / str(number)).exists())
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        # Removing a large tree takes a while, in which other attempts proceed. What cannot be removed keeps its number.
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
