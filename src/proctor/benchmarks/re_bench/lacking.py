"""What a task needs and this machine, or its rooms, do not have. Known before anything is spent."""

import os
from collections.abc import Iterator

from proctor.benchmarks.re_bench.families import Family
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError


def refuse_lacking(family: Family, task: str) -> None:
    """See that the task can be run here.

    Raises:
        InfrastructureError: it cannot; says all that is missing.
    """
    lacking = list(lacks(family, task))
    if lacking:
        raise InfrastructureError(
            f"this machine lacks what the task needs: {'; '.join(lacking)}",
            where=f"{family.name}/{task}",
            fix="run it where that is there; re_bench_demo needs none of it",
            cause=Cause.NOT_RUNNABLE_HERE,
        )


def lacks(family: Family, task: str) -> Iterator[str]:
    """Each thing that is missing, in a few words."""
    import psutil  # noqa: PLC0415 - slow, and only a run asks

    needs = family.task(task).resources
    if needs.gpu is not None and needs.gpu.count_range[0] > 0:
        yield f"{needs.gpu.count_range[0]} GPU ({needs.gpu.model or 'any'}), and rooms show none"
    cpus = os.cpu_count() or 1
    if needs.cpus is not None and needs.cpus > cpus:
        yield f"{needs.cpus} processors (there are {cpus})"
    memory = psutil.virtual_memory().total / 1e9
    if needs.memory_gb is not None and needs.memory_gb > memory:
        yield f"{needs.memory_gb:g} GB of memory (there are {memory:.0f})"
    if family.described.aux_vm:
        yield "a second machine"
    missing = [name for name in family.described.variables if name not in os.environ]
    if missing:
        yield f"the environment variable {', '.join(missing)}"


def needs_of(family: Family, task: str) -> str:
    """What a task asks for, for the list of tasks."""
    needs, words = family.task(task).resources, list[str]()
    if needs.gpu is not None and needs.gpu.count_range[0] > 0:
        words.append(f"{needs.gpu.count_range[0]}x{needs.gpu.model or 'gpu'}".lower())
    if needs.cpus is not None:
        words.append(f"{needs.cpus} cpu")
    if needs.memory_gb is not None:
        words.append(f"{needs.memory_gb:g} GB")
    return ", ".join([*words, *family.described.variables]) or "nothing"
