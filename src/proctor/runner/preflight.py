"""What the chosen tasks need and this machine lacks, found out before anything is spent."""

from collections.abc import Sequence
from typing import Final

from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.core.run import Machine
from proctor.core.task import Task
from proctor.environments import provider
from proctor.runner.request import current_machine

# How many images a registry is asked for: a few tell whether it can be reached, and hundreds would be a nuisance.
_MAX_REGISTRY_QUERIES: Final = 8


async def obstacles_by_task(benchmark: Benchmark, tasks: Sequence[Task], runner: str) -> dict[str, str | None]:
    """Why each task cannot be run here in rooms of this kind, by id; None where nothing is known against it.

    Raises:
        UsageError: the benchmark cannot be run in such rooms at all.
    """
    rooms = provider(runner)
    try:
        no_rooms = await rooms.unavailable_reason()
        if no_rooms is not None:
            return dict.fromkeys((task.id for task in tasks), no_rooms)
        missing = await missing_requirements(benchmark, tasks, rooms, image=None, machine=current_machine())
    finally:
        await rooms.close()
    return {task.id: missing.get(task.id) for task in tasks}


async def missing_requirements(
    benchmark: Benchmark, tasks: Sequence[Task], provider: EnvironmentProvider, *, image: str | None, machine: Machine
) -> dict[str, str]:
    """The tasks that cannot be run here, each with the reason, as far as can be told without pulling an image."""
    missing: dict[str, str] = {}
    there = benchmark.for_provider(provider)
    by_image: dict[str, list[str]] = {}
    for task in tasks:
        why = there.missing_requirement(task, machine, "docker" if provider.uses_images else "local")
        if why is not None:
            missing[task.id] = why
        elif provider.uses_images and (room := _task_image_spec(there, task, image)) is not None and room.image:
            by_image.setdefault(room.image, []).append(task.id)
    missing |= await _missing_images(provider, by_image)
    return {task.id: missing[task.id] for task in tasks if task.id in missing}


async def _missing_images(provider: EnvironmentProvider, by_image: dict[str, list[str]]) -> dict[str, str]:
    """The tasks whose images cannot be had. If none of the first few can, the others will not be either."""
    absent = [image for image in by_image if not await provider.is_available(EnvironmentSpec(image=image))]
    troubles = {
        image: await provider.unavailable_reason(EnvironmentSpec(image=image))
        for image in absent[:_MAX_REGISTRY_QUERIES]
    }
    if troubles and all(troubles.values()):
        troubles = {image: troubles.get(image) or _assumed_unavailable(image, troubles) for image in absent}
    return {task: why for image, why in troubles.items() if why for task in by_image[image]}


def _assumed_unavailable(image: str, reasons: dict[str, str | None]) -> str:
    known = next(iter(reasons))
    return f"the image {image} is not on this machine, and none of the others can be had: {reasons[known]}"


async def environment_digest(
    benchmark: Benchmark,
    tasks: Sequence[Task],
    provider: EnvironmentProvider,
    options: GradeOptions,
    *,
    pull: bool = True,
) -> str:
    """Identifies the programs of the rooms, or tells that the tasks bring their own.

    Without `pull`, nothing is brought to this machine to find out.

    Raises:
        InfrastructureError: no such room can be made.
    """
    if options.image is None and provider.uses_images:
        origins = {
            (room.image, room.build) for task in tasks if (room := _task_image_spec(benchmark, task, None)) is not None
        }
        if origins:
            count = "one image" if len(origins) == 1 else f"{len(origins)} images"
            return f"{provider.name}: {count} of the tasks"
    room = EnvironmentSpec(image=options.image)
    if not pull and not await provider.is_available(room):
        return f"{provider.name}: an image that is not on this machine yet"
    return await provider.digest(room)


def _task_image_spec(benchmark: Benchmark, task: Task, image: str | None) -> EnvironmentSpec | None:
    """The room that a task is graded in, where it brings an image of its own."""
    try:
        room = benchmark.environment_spec(task, GradeOptions(image=image))
    except InfrastructureError:
        return None  # it will be said of the task itself
    return room if room.image is not None or room.build is not None else None
