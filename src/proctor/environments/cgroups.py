"""Control groups: limits on memory, processes and processors that hold for a whole environment.

Version 2, or version 1 with its controllers mounted apart, wherever this process may make a group beside or below its
own: as root mostly, otherwise in a delegated tree. Where it may not, `make` returns None and the caller falls back.
"""

import functools
import math
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from proctor.core.environment import Limits

_PERIOD_MICROSECONDS: Final = 100_000
_PREFIX: Final = "proctor-"
# Limit, file, entry; version 2 and version 1 differ in the first.
_EVENTS: Final = (
    ("memory", "memory.events", "oom_kill"),
    ("memory", "memory.oom_control", "oom_kill"),
    ("processes", "pids.events", "max"),
)
_OPTIONAL: Final = {"memory.memsw.limit_in_bytes", "memory.swap.max"}  # not in a kernel that does not count swap


class Cgroup:
    """A group for one environment. Commands join it by writing to `joins` before they become their program.

    Attributes:
        controllers: what this group limits.
    """

    def __init__(self, folders: list[Path], controllers: frozenset[str]) -> None:
        self.folders = folders
        self.controllers = controllers
        self.join_fds: list[int] = []

    @classmethod
    def make(
        cls,
        name: str,
        limits: Limits,
        *,
        mounts: Path = Path("/proc/self/mountinfo"),
        own: Path = Path("/proc/self/cgroup"),
    ) -> Self | None:
        """A group with these limits, or None where none can be made or nothing is limited."""
        settings = _settings(limits)
        if not settings:
            return None
        group = cls([], frozenset(settings))
        try:
            for folder, values in _target_dirs(_PREFIX + name, settings, _hierarchies(mounts), _own_groups(own)):
                folder.mkdir()
                group.folders.append(folder)
                for file, value in values.items():
                    if (folder / file).exists() or file not in _OPTIONAL:
                        (folder / file).write_text(value)
                # Whoever joins has one thread; to move it alone spares the kernel a look at every other process.
                alone = folder / "tasks"
                group.join_fds.append(
                    os.open(alone if alone.exists() else folder / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
                )
        except OSError:
            group.remove()
            return None
        return group if group.folders else None

    def remove(self) -> None:
        """Give the group back; every process in it has ended."""
        for join in self.join_fds:
            os.close(join)
        self.join_fds.clear()
        remove_cgroups(self.folders)

    def limit_events(self) -> dict[str, int]:
        """How often the group has been at each of its limits."""
        return limit_events(self.folders)


def limit_events(folders: Iterable[Path]) -> dict[str, int]:
    """How often groups have been at their limits: processes killed for memory, and forks refused."""
    found: dict[str, int] = {}
    for folder in folders:
        for limit, file, name in _EVENTS:
            with suppress(OSError):
                words = (folder / file).read_text().split()
                found[limit] = found.get(limit, 0) + sum(
                    int(count) for word, count in zip(words[::2], words[1::2], strict=False) if word == name
                )
    return found


def process_cgroups(pid: int, *, mounts: Path = Path("/proc/self/mountinfo")) -> list[Path]:
    """The groups of a process, as far as they can be seen from here."""
    with suppress(OSError):
        found, own = _hierarchies(mounts), _own_groups(Path(f"/proc/{pid}/cgroup"))
        return [found[name] / path.lstrip("/") for name, path in own.items() if name in found]
    return []


def remove_cgroups(folders: Iterable[Path]) -> None:
    """Remove groups that are empty, or will be in a moment."""
    for folder in folders:
        for _ in range(50):
            try:
                folder.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)  # the kernel is still clearing the dead away


def _settings(limits: Limits) -> dict[str, dict[int, dict[str, str]]]:
    """Controller, version, file, value."""
    settings: dict[str, dict[int, dict[str, str]]] = {}
    if limits.memory_mb is not None:
        size = str(limits.memory_mb << 20)
        settings["memory"] = {
            1: {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size},
            2: {"memory.max": size, "memory.swap.max": "0"},
        }
    if limits.processes is not None:
        settings["pids"] = {version: {"pids.max": str(limits.processes)} for version in (1, 2)}
    if limits.cpus is not None:
        quota = str(max(1000, math.ceil(limits.cpus * _PERIOD_MICROSECONDS)))
        period = str(_PERIOD_MICROSECONDS)
        settings["cpu"] = {
            1: {"cpu.cfs_period_us": period, "cpu.cfs_quota_us": quota},
            2: {"cpu.max": f"{quota} {period}"},
        }
    return settings


def _target_dirs(
    name: str, settings: dict[str, dict[int, dict[str, str]]], found: dict[str, Path], own: dict[str, str]
) -> Iterator[tuple[Path, dict[str, str]]]:
    """The folders to make, with what to write in each.

    Raises:
        OSError: there is no place where all of them could be.
    """
    if set(settings) <= found.keys():
        for controller, versions in settings.items():
            yield found[controller] / own.get(controller, "").lstrip("/") / name, versions[1]
        return
    if "" not in found:
        raise FileNotFoundError("no control groups")
    parent = _parent(found[""], found[""] / own.get("", "").lstrip("/"), set(settings))
    yield parent / name, {file: value for versions in settings.values() for file, value in versions[2].items()}


def _parent(root: Path, own: Path, controllers: set[str]) -> Path:
    """Where a group with these controllers can be made: beside our own, or at the top.

    Not below our own: a group that holds processes, as ours does, cannot have limited groups below it.
    """
    for parent in (own.parent if own != root else root, root):
        enabled = set((parent / "cgroup.subtree_control").read_text().split())
        missing = controllers - enabled
        if not missing:
            return parent
        if os.access(parent / "cgroup.subtree_control", os.W_OK):
            (parent / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in sorted(missing)))
            return parent
    raise PermissionError("no control group of ours to delegate")


def _own_groups(file: Path) -> dict[str, str]:
    """Our own group by controller; version 2 has no name."""
    groups = {}
    for line in file.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    return groups


@functools.cache
def _hierarchies(file: Path) -> dict[str, Path]:
    """Where each of version 1's controllers is mounted, and version 2 under no name."""
    found: dict[str, Path] = {}
    for line in file.read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split(" ")[4])
        if kind == "cgroup2":
            found.setdefault("", place)
        elif kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, place)
    return found
