"""Control groups that environments take turns in: the kernel takes milliseconds to make one, and as long to remove
it.
"""

from pathlib import Path

from proctor.core.environment import Limits
from proctor.environments.cgroups import Cgroup
from proctor.environments.environment_dir import EnvironmentDir

CgroupKey = tuple[int | None, int | None, float | None]


class CgroupPool:
    """The control groups of one provider's environments.

    A folder among the environments' names all of them, so that the clean-up after a crash finds them.
    """

    def __init__(self, environments_dir: Path) -> None:
        self._environments_dir = environments_dir
        self._folder: EnvironmentDir | None = None
        self._available = True
        self._created: list[Path] = []
        self._free: dict[CgroupKey, list[Cgroup]] = {}

    def acquire(self, limits: Limits) -> Cgroup | None:
        """A group with these limits that nobody is in; None where none can be made or nothing is limited."""
        free = self._free.get(_key(limits))
        if free:
            return free.pop()
        if self._folder is None:
            if not self._available or _key(limits) == (None, None, None):
                return None
            self._folder = EnvironmentDir.make(self._environments_dir)
        group = Cgroup.make(f"{self._folder.path.name}-{len(self._created)}", limits)
        if group is not None:
            self._created += group.folders
            self._folder.write_cgroups(self._created)
        elif not self._created:
            # This user may make none: no folder that names them is left among the environments'.
            self._available = False
            self.close()
        return group

    def release(self, limits: Limits, group: Cgroup) -> None:
        """Every process in it has ended: the next environment may have it."""
        self._free.setdefault(_key(limits), []).append(group)

    def close(self) -> None:
        """Remove the groups that nobody is in."""
        for group in (group for groups in self._free.values() for group in groups):
            group.remove()
        self._free.clear()
        if self._folder is not None:
            self._folder.remove()
        self._folder = None
        self._created = []


def _key(limits: Limits) -> CgroupKey:
    return limits.memory_mb, limits.processes, limits.cpus
