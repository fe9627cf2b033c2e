"""What the chosen tasks need and this machine lacks, found out before anything is spent."""

from collections.abc import Sequence

from proctor.core.benchmark import Benchmark, GradeOptions, StatesNeeds
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.core.run import Machine
from proctor.core.task import Task
from proctor.runner.parallel import in_parallel

_AT_ONCE = 4
_TRIED = 3


async def lacking(
    benchmark: Benchmark, tasks: Sequence[Task], provider: EnvironmentProvider, *, image: str | None, machine: Machine
) -> dict[str, str]:
    """The tasks that cannot be run here, each with the reason. Images that can be pulled are, now."""
    missing: dict[str, str] = {}
    wanted: dict[str, list[str]] = {}
    for task in tasks:
        why = benchmark.lacks(task, machine, provider.name) if isinstance(benchmark, StatesNeeds) else None
        if why is not None:
            missing[task.id] = why
        elif provider.name != "local" and (room := benchmark.room(task, GradeOptions(image=image))).image is not None:
            wanted.setdefault(room.image, []).append(task.id)

    async def look(name: str) -> None:
        try:
            await provider.digest(EnvironmentSpec(image=name))
        except InfrastructureError as error:
            missing.update(dict.fromkeys(wanted[name], str(error)))

    await in_parallel(look, list(wanted), _AT_ONCE)
    return {task.id: missing[task.id] for task in tasks if task.id in missing}


async def environment_of(
    benchmark: Benchmark, tasks: Sequence[Task], provider: EnvironmentProvider, options: GradeOptions
) -> str:
    """The digest of the rooms that the tasks are answered in: of the first that can be had.

    Raises:
        InfrastructureError: none can.
    """
    rooms = [benchmark.room(task, options) for task in tasks] or [EnvironmentSpec(image=options.image)]
    by_origin = {(room.image, room.build): room for room in reversed(rooms)}
    trouble = None
    for image, build in list(reversed(by_origin))[:_TRIED]:
        try:
            return await provider.digest(EnvironmentSpec(image=image, build=build))
        except InfrastructureError as error:
            trouble = trouble or error
    raise trouble or InfrastructureError("no room can be made for these tasks")
