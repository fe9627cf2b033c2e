"""Removing sandboxes: never a tree into which another one is mounted."""

import os
import re
from pathlib import Path
from typing import Final

from proctor.core import trees
from proctor.core.errors import InfrastructureError

_MOUNTS: Final = Path("/proc/self/mountinfo")


def remove_unmounted_tree(path: Path) -> None:
    """Remove a tree, or whatever else is at `path`, following no symlink; nothing there is fine.

    Raises:
        InfrastructureError: something in it cannot be removed, or is mounted there.
    """
    if trees.is_directory(path):
        check_no_mounts(path)
    try:
        trees.remove_tree(path)
    except OSError as error:
        raise InfrastructureError(f"cannot remove it: {error.strerror}", where=error.filename or path) from error


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
