"""What a task needs and this machine, or its environments, do not have. Known before anything is spent."""

import os

from proctor.benchmarks.re_bench.families import TaskFamilyFiles
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError
from proctor.environments.gpus import count_host_gpus


def require_resources(family: TaskFamilyFiles, task: str) -> None:
    """See that the task can be run here.

    Raises:
        InfrastructureError: it cannot; says all that is missing.
    """
    import psutil

    memory_mb = psutil.virtual_memory().total // 2**20
    missing = missing_resources(family, task, cpus=psutil.cpu_count() or 1, memory_mb=memory_mb, gpus=count_host_gpus())
    if missing:
        raise InfrastructureError(
            f"missing requirements: {'; '.join(missing)}",
            where=f"{family.name}/{task}",
            fix="run it where that is there; re_bench_demo needs none of it",
            cause=Cause.NOT_RUNNABLE_HERE,
        )


def missing_resources(family: TaskFamilyFiles, task: str, *, cpus: int, memory_mb: int, gpus: int = 0) -> list[str]:
    """What a machine of this size does not have, each in a few words."""
    needs, missing = family.task(task).resources, list[str]()
    if needs.gpus > gpus:
        missing.append(f"{needs.gpus} GPU ({needs.gpu_model}), and environments show {gpus or 'none'}")
    if needs.cpus is not None and needs.cpus > cpus:
        missing.append(f"{needs.cpus} processors (there are {cpus})")
    if needs.memory_gb is not None and needs.memory_gb * 1000 > memory_mb:
        missing.append(f"{needs.memory_gb:g} GB of memory (there are {memory_mb / 1000:.0f})")
    if family.description.needs_aux_vm:
        missing.append("a second machine")
    keys = [name for name in family.description.variables if name not in os.environ]
    if keys:
        missing.append(f"the environment variable {', '.join(keys)}")
    return missing


def requirements_text(family: TaskFamilyFiles, task: str) -> str:
    """What a task asks for, for the list of tasks."""
    needs, words = family.task(task).resources, list[str]()
    if needs.gpu is not None and needs.gpu.count_range[0] > 0:
        words.append(f"{needs.gpu.count_range[0]}x{needs.gpu.model or 'gpu'}".lower())
    if needs.cpus is not None:
        words.append(f"{needs.cpus} cpu")
    if needs.memory_gb is not None:
        words.append(f"{needs.memory_gb:g} GB")
    return ", ".join([*words, *family.description.variables]) or "nothing"
