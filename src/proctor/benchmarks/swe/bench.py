"""One instance on the bench: what is graded, where, and with whom beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from proctor.benchmarks.swe.alone import Floor
from proctor.benchmarks.swe.procedure import Procedure
from proctor.benchmarks.swe.recipe import Recipe
from proctor.benchmarks.swe.rows import Row
from proctor.core.benchmark import Place
from proctor.core.environment import EnvironmentSpec
from proctor.core.names import disk_name
from proctor.core.task import Task

R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Bench(Generic[R]):
    """One instance on the bench.

    Attributes:
        floor: who else is testing now.
        grader: names the rule of the verdict.
        again: whether a failure is graded once more before it counts.
    """

    row: R
    task: Task
    procedure: Procedure[R]
    recipe: Recipe
    place: Place
    floor: Floor
    grader: str
    again: bool = True

    @property
    def folder(self) -> Path:
        """Where what is left of the grading goes."""
        return self.place.folder / self.task.benchmark / disk_name(self.task.id)

    @property
    def seconds(self) -> float:
        """How long the tests may run."""
        return self.place.options.timeout_seconds or self.procedure.seconds


def room_of(bench_recipe: Recipe, task: Task, image: str | None) -> EnvironmentSpec:
    """The room in which a task's answers are tested."""
    room = bench_recipe.grading_room()
    return msgspec.structs.replace(
        room, image=image or room.image, labels={"benchmark": task.benchmark, "task": task.id}
    )


async def furnished(bench: Bench[R], folder: Path) -> EnvironmentSpec:
    """A room for one test run, ready to be made; what it needs is laid out below `folder`."""
    plain = room_of(bench.recipe, bench.task, bench.place.options.image)
    return await bench.recipe.furnish(plain, folder)
