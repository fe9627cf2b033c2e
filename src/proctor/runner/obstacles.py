"""Which tasks this machine can run, and what keeps it from the others, as far as can be told without trying."""

from collections.abc import Sequence

from proctor.core.benchmark import Benchmark, Choosy, sited
from proctor.core.task import Task
from proctor.environments import docker_available, local_available, provider


async def obstacles(benchmark: Benchmark, tasks: Sequence[Task], runner: str) -> dict[str, str | None]:
    """Why each task cannot be run here in rooms of this kind, by id; None where nothing is known against it.

    Raises:
        UsageError: the benchmark cannot be run in such rooms at all.
    """
    no_rooms = await {"local": local_available, "docker": docker_available}[runner]()
    if no_rooms is not None:
        return {task.id: no_rooms for task in tasks}
    rooms = provider(runner)
    try:
        there = sited(benchmark, rooms)
        return {task.id: there.obstacle(task) if isinstance(there, Choosy) else None for task in tasks}
    finally:
        await rooms.close()
