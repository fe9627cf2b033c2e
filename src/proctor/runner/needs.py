"""What the chosen tasks need and this machine lacks, found out before anything is spent."""

from collections.abc import Sequence
from typing import Final

from proctor.core.benchmark import Benchmark, GradeOptions, StatesNeeds, sited
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec, Stocked
from proctor.core.errors import InfrastructureError
from proctor.core.run import Machine
from proctor.core.task import Task
from proctor.environments import docker_available, local_available, provider
from proctor.runner.plan import this_machine

# How many images a registry is asked for: a few tell whether it can be reached, and hundreds would be a nuisance.
_ASKED: Final = 8


async def runnable(benchmark: Benchmark, tasks: Sequence[Task], runner: str) -> dict[str, str | None]:
    """Why each task cannot be run here in rooms of this kind, by id; None where nothing is known against it.

    Raises:
        UsageError: the benchmark cannot be run in such rooms at all.
    """
    no_rooms = await {"local": local_available, "docker": docker_available}[runner]()
    if no_rooms is not None:
        return {task.id: no_rooms for task in tasks}
    rooms = provider(runner)
    try:
        missing = await lacking(benchmark, tasks, rooms, image=None, machine=this_machine())
    finally:
        await rooms.close()
    return {task.id: missing.get(task.id) for task in tasks}


async def lacking(
    benchmark: Benchmark, tasks: Sequence[Task], rooms: EnvironmentProvider, *, image: str | None, machine: Machine
) -> dict[str, str]:
    """The tasks that cannot be run here, each with the reason, as far as can be told without pulling an image."""
    missing: dict[str, str] = {}
    there = sited(benchmark, rooms)
    by_image: dict[str, list[str]] = {}
    for task in tasks:
        why = there.lacks(task, machine, rooms.name) if isinstance(there, StatesNeeds) else None
        if why is not None:
            missing[task.id] = why
        elif isinstance(rooms, Stocked) and (room := _origin(there, task, image)) is not None and room.image:
            by_image.setdefault(room.image, []).append(task.id)
    if isinstance(rooms, Stocked):
        missing |= await _without_image(rooms, by_image)
    return {task.id: missing[task.id] for task in tasks if task.id in missing}


async def _without_image(rooms: Stocked, by_image: dict[str, list[str]]) -> dict[str, str]:
    """The tasks whose images cannot be had. If none of the first few can, the others will not be either."""
    absent = [image for image in by_image if not await rooms.has(EnvironmentSpec(image=image))]
    troubles = {image: await rooms.obstacle(EnvironmentSpec(image=image)) for image in absent[:_ASKED]}
    if troubles and all(troubles.values()):
        troubles = {image: troubles.get(image) or _none_can_be_had(image, troubles) for image in absent}
    return {task: why for image, why in troubles.items() if why for task in by_image[image]}


def _none_can_be_had(image: str, troubles: dict[str, str | None]) -> str:
    known = next(iter(troubles))
    return f"the image {image} is not on this machine, and none of the others can be had: {troubles[known]}"


async def environment_of(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    rooms: EnvironmentProvider,
    options: GradeOptions,
    *,
    pull: bool = True,
) -> str:
    """Identifies the programs of the rooms, or tells that the tasks bring their own.

    Without `pull`, nothing is brought to this machine to find out.

    Raises:
        InfrastructureError: no such room can be made.
    """
    if options.image is None and isinstance(rooms, Stocked):
        origins = {(room.image, room.build) for task in tasks if (room := _origin(benchmark, task, None)) is not None}
        if origins:
            count = "one image" if len(origins) == 1 else f"{len(origins)} images"
            return f"{rooms.name}: {count} of the tasks"
    room = EnvironmentSpec(image=options.image)
    if not pull and isinstance(rooms, Stocked) and not await rooms.has(room):
        return f"{rooms.name}: an image that is not on this machine yet"
    return await rooms.digest(room)


def _origin(benchmark: Benchmark, task: Task, image: str | None) -> EnvironmentSpec | None:
    """The room that a task is graded in, where it brings an image of its own."""
    try:
        room = benchmark.room(task, GradeOptions(image=image))
    except InfrastructureError:
        return None  # it will be said of the task itself
    return room if room.image is not None or room.build is not None else None
