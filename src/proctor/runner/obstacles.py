"""Which tasks this machine can run, and what keeps it from the others, as far as can be told without trying."""

from collections.abc import Sequence

from proctor.core.benchmark import Benchmark, Choosy
from proctor.core.task import Task
from proctor.environments import docker_available, local_available


async def obstacles(benchmark: Benchmark, tasks: Sequence[Task], runner: str) -> dict[str, str | None]:
    """Why each task cannot be run here in rooms of this kind, by id; None where nothing is known against it."""
    no_rooms = await {"local": local_available, "docker": docker_available}[runner]()
    if no_rooms is not None:
        return {task.id: no_rooms for task in tasks}
    return {task.id: benchmark.obstacle(task) if isinstance(benchmark, Choosy) else None for task in tasks}
