"""How an environment's limits are laid on each command where no control group holds them for the whole environment."""

import math
import os
import platform
import random
import re
import resource
from collections.abc import Mapping
from typing import Final

from proctor.core.environment import Limits
from proctor.core.record import Record
from proctor.environments.cgroups import Cgroup

# Since then, processes are counted for each user namespace by itself, not for the user on the whole machine.
_COUNTS_BY_NAMESPACE: Final = (5, 14)


class CommandLimits(Record):
    """What every command of an environment is given before it becomes its program.

    Attributes:
        resources: values of resource limits, by their numbers, which are the same inside: it is the same kernel.
        processors: the processors it may run on; empty for all.
    """

    rlimits: dict[int, int]
    processors: tuple[int, ...] = ()


def limits_for_command(limits: Limits, enforced: frozenset[str], *, isolated: bool) -> CommandLimits:
    """The rules for limits of which a control group already holds the controllers `held`."""
    resources = {resource.RLIMIT_CORE: 0}
    if limits.disk_mb is not None:
        resources[resource.RLIMIT_FSIZE] = limits.disk_mb << 20
    if limits.memory_mb is not None and "memory" not in enforced:
        resources[resource.RLIMIT_DATA] = limits.memory_mb << 20
    if limits.processes is not None and "pids" not in enforced and isolated and _counts_by_namespace():
        resources[resource.RLIMIT_NPROC] = limits.processes + 1  # process 1 counts too
    processors: tuple[int, ...] = ()
    if limits.cpus is not None and "cpu" not in enforced and hasattr(os, "sched_getaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        # At random, so that environments side by side do not all crowd on the first ones.
        processors = tuple(random.sample(allowed, min(len(allowed), max(1, math.ceil(limits.cpus)))))
    return CommandLimits(rlimits=resources, processors=processors)


class HeldLimit(Record):
    """How a limit is held on this machine.

    Attributes:
        whole: for the environment as a whole, not for each of its processes by itself.
    """

    name: str
    how: str
    whole: bool


def held_limits() -> tuple[HeldLimit, ...]:
    """How local environments of this process hold memory, processes and disk."""
    group = Cgroup.make(f"probe-{os.getpid()}", Limits(memory_mb=64, processes=64))
    controllers = frozenset() if group is None else group.controllers
    if group is not None:
        group.remove()
    if "pids" in controllers:
        processes = HeldLimit(name="processes", how="by a control group", whole=True)
    elif _counts_by_namespace() and os.geteuid() != 0:
        processes = HeldLimit(name="processes", how="by a resource limit", whole=True)
    else:
        processes = HeldLimit(name="processes", how="not held", whole=False)
    return (
        HeldLimit(name="memory", how="by a control group", whole=True)
        if "memory" in controllers
        else HeldLimit(name="memory", how="for each process by itself", whole=False),
        processes,
        HeldLimit(name="disk", how="measured every second", whole=True),
    )


def limit_hit(limits: Limits, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Which limit an environment has been at between two counts, in words; empty: none."""
    if after.get("memory", 0) > before.get("memory", 0):
        return f"memory of the environment ({limits.memory_mb} MB)"
    if after.get("processes", 0) > before.get("processes", 0):
        return f"processes of the environment ({limits.processes})"
    return ""


def _counts_by_namespace() -> bool:
    version = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    return version >= _COUNTS_BY_NAMESPACE
