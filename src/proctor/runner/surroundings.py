"""What the rooms of a run are made from."""

from collections.abc import Sequence

import msgspec

from proctor.core.benchmark import Benchmark, GradeOptions, sited
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec
from proctor.core.task import Task


async def surroundings(
    rooms: EnvironmentProvider, benchmark: Benchmark, tasks: Sequence[Task], *, image: str | None
) -> str:
    """The digest of a room for the first task: where tasks have images of their own, no other need be here.

    Raises:
        InfrastructureError: no such room can be made.
    """
    if not tasks:
        return await rooms.digest(EnvironmentSpec(image=image))
    room = sited(benchmark, rooms).room(tasks[0], GradeOptions(image=image))
    return await rooms.digest(msgspec.structs.replace(room, workspace=None, mounts=()))
