"""Where a local environment keeps what is written in it, and how a folder whose owner has died is recognised."""

import fcntl
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

from proctor.core.errors import InfrastructureError
from proctor.core.files import cache_root
from proctor.core.trees import remove_tree
from proctor.environments.cgroups import remove_cgroups


class EnvironmentDir:
    """A private folder for one environment, locked for as long as its owner lives."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self.workspace = path / "workspace"
        self.overlay_work = path / "work"
        self.tmp = path / "tmp"
        self.home = path / "home"
        self.log = path / "log"

    @classmethod
    def make(cls, environments_dir: Path) -> Self:
        """A new folder, with all in it but the workspace and what an overlay of it needs."""
        path = environments_dir / secrets.token_hex(8)
        try:
            try:
                path.mkdir(mode=0o700)
            except FileNotFoundError:
                environments_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
                path.mkdir(mode=0o700)
            folder = cls(path, os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            fcntl.flock(folder._lock, fcntl.LOCK_EX)
            for place in (folder.home, folder.tmp):
                place.mkdir(mode=0o755)
        except OSError as error:
            raise InfrastructureError(f"cannot make an environment's folder: {error.strerror}", where=path) from error
        folder.tmp.chmod(0o1777)
        return folder

    @property
    def writable_dirs(self) -> tuple[Path, ...]:
        """The places that commands write to."""
        return self.workspace, self.tmp, self.home

    def private_copy(self, number: int) -> Path:
        """Where the environment's own copy of a mount is."""
        return self.path / f"private-{number}"

    def remove_copies(self) -> None:
        """Remove the workspace and the copies of mounts, so that they can be made again."""
        for path in (self.workspace, *self.path.glob("private-*")):
            remove_tree(path)

    def write_labels(self, labels: Mapping[str, str]) -> None:
        """Write on the lock whose environment this is, for people."""
        os.write(self._lock, "".join(f"{name}={value}\n" for name, value in labels.items()).encode())

    def write_cgroups(self, lines: Iterable[object]) -> None:
        """Leave a note for the clean-up after a crash."""
        (self.path / "cgroups").write_text("".join(f"{line}\n" for line in lines))

    def remove(self) -> None:
        """Remove the folder and all in it."""
        remove_tree(self.path)
        os.close(self._lock)


def default_environments_dir() -> Path:
    """Where environments keep what is written in them, by default."""
    return cache_root() / "environments"


def remove_abandoned(environments_dir: Path) -> list[str]:
    """Remove the folders whose owners have died; their names."""
    removed = []
    for path in sorted(environments_dir.glob("*/")):
        try:
            lock = os.open(path / "lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # not ours, or being made or removed right now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if (path / "cgroups").exists():
                remove_cgroups(Path(line) for line in (path / "cgroups").read_text().splitlines())
            remove_tree(path)
            removed.append(path.name)
        except BlockingIOError:
            continue  # in use
        finally:
            os.close(lock)
    return removed
