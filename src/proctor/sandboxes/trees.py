"""Reading from and removing trees in which somebody else may have planted symlinks, pipes or mounts."""

import os
import re
import shutil
import stat
from pathlib import Path
from typing import Final

from proctor.core.errors import InfrastructureError

LARGEST_FILE: Final = 64 << 20
_MOUNTS: Final = Path("/proc/self/mountinfo")


def read_regular_file(home: Path, *parts: str) -> bytes | None:
    """The bytes of the plain file ``home/parts…``; None when there is none.

    No symlink is followed below the parent of `home`, and nothing is opened that could block: what is not a plain
    file, or not ours to read, or absurdly large, counts as absent.
    """
    descriptor = -1
    try:
        for part in (str(home), *parts[:-1]):
            parent = descriptor if descriptor >= 0 else None
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
            if parent is not None:
                os.close(parent)
            descriptor = inner
        file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=descriptor)
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


def remove_tree(path: Path) -> None:
    """Remove a tree, or whatever else is at `path`, following no symlink; nothing there is fine.

    Raises:
        InfrastructureError: something in it cannot be removed.
    """
    if not is_directory(path):
        path.unlink(missing_ok=True)
        return
    check_no_mounts(path)
    try:
        try:
            shutil.rmtree(path)
        except PermissionError:
            # Some programs make their caches read-only, directories too; the owner may still remove them.
            _open_directories(path)
            shutil.rmtree(path)
    except OSError as error:
        raise InfrastructureError(f"cannot remove it: {error.strerror}", where=error.filename or path) from error


def _open_directories(path: Path) -> None:
    path.chmod(0o700)
    for directory, names, _ in os.walk(path):
        for name in names:
            inner = Path(directory, name)
            if not inner.is_symlink():
                inner.chmod(0o700)


def check_no_mounts(path: Path) -> None:
    """Refuse to touch a tree into which another one is mounted: removing it would reach outside.

    Raises:
        InfrastructureError: names the mount.
    """
    if not _MOUNTS.exists():
        return
    inside = f"{path.resolve()}/"
    for line in os.fsdecode(_MOUNTS.read_bytes()).splitlines():
        mounted = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), line.split(" ")[4])
        if mounted.startswith(inside):
            raise InfrastructureError(
                "another file system is mounted inside the sandbox", where=mounted, fix="unmount it first"
            )
