"""What this machine must have for environments: git, a provider that works, and space on its disks."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InfrastructureError
from proctor.core.formatting import file_size
from proctor.core.programs import find_program

MIN_FREE_BYTES: Final = 256_000_000


async def check_machine(provider: EnvironmentProvider, folders: Iterable[Path]) -> None:
    """See that this machine can run anything at all, and has space for it in these folders.

    Raises:
        InfrastructureError: it cannot; says why and what to do.
    """
    if find_program("git") is None:
        raise InfrastructureError(
            "git, which makes workspaces and submissions, is not on PATH",
            fix="install git (Debian: apt-get install git)",
        )
    reason = await provider.unavailable_reason()
    if reason is not None:
        raise InfrastructureError(reason)
    check_disk_space([*folders, *await provider.storage_folders()])


def check_disk_space(folders: Iterable[Path]) -> None:
    """See that there is some space in every folder, or where it will be made.

    Raises:
        InfrastructureError: there is not; says where.
    """
    for folder in folders:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        disk = shutil.disk_usage(there)
        if disk.total and disk.free < MIN_FREE_BYTES:  # nothing in all: this is no disk, and is refused when written
            raise InfrastructureError(
                f"the disk is full: {file_size(disk.free)} are free, and {file_size(MIN_FREE_BYTES)} are needed",
                where=folder,
                fix="free some space; PROCTOR_RESULTS, PROCTOR_CACHE and TMPDIR name Proctor's own folders",
            )
