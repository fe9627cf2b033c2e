"""One instance on the bench: what is graded, where, and with whom beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from proctor.benchmarks.swe.instance_setup import InstanceSetup
from proctor.benchmarks.swe.official_grader import OfficialGrader
from proctor.benchmarks.swe.rows import SweRow
from proctor.benchmarks.swe.shared_exclusive_lock import SharedExclusiveLock
from proctor.core.benchmark import GradingContext
from proctor.core.disk_names import disk_name
from proctor.core.environment import EnvironmentSpec
from proctor.core.task import Task

R = TypeVar("R", bound=SweRow)


@dataclass(frozen=True, slots=True)
class SweGradingJob(Generic[R]):
    """One instance on the bench.

    Attributes:
        floor: who else is testing now.
        grader: names the rule of the verdict.
        again: whether a failure is graded once more before it counts.
    """

    row: R
    task: Task
    official_grader: OfficialGrader[R]
    setup: InstanceSetup
    context: GradingContext
    lock: SharedExclusiveLock
    grader: str
    retest_failures: bool = True

    @property
    def folder(self) -> Path:
        """Where what is left of the grading goes."""
        return self.context.folder / self.task.benchmark / disk_name(self.task.id)

    @property
    def timeout_seconds(self) -> float:
        """How long the tests may run."""
        return self.context.options.timeout_seconds or self.official_grader.timeout_seconds


def grading_spec(setup: InstanceSetup, task: Task, image: str | None) -> EnvironmentSpec:
    """The room in which a task's answers are tested."""
    room = setup.grading_spec()
    return msgspec.structs.replace(
        room, image=image or room.image, labels={"benchmark": task.benchmark, "task": task.id}
    )


async def prepare_job_spec(job: SweGradingJob[R], folder: Path) -> EnvironmentSpec:
    """A room for one test run, ready to be made; what it needs is laid out below `folder`."""
    plain = grading_spec(job.setup, job.task, job.context.options.image)
    return await job.setup.prepare_spec(plain, folder)
