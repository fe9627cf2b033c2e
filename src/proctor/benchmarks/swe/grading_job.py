"""One instance in grading."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Generic

import msgspec

from proctor.benchmarks.swe.instance_setup import InstanceSetup
from proctor.benchmarks.swe.official_grader import OfficialGrader
from proctor.benchmarks.swe.rows import R
from proctor.benchmarks.swe.shared_exclusive_lock import SharedExclusiveLock
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.task import Task
from proctor.grading import GradingJob


@dataclass(frozen=True, slots=True, kw_only=True)
class SweGradingJob(GradingJob, Generic[R]):
    """One instance in grading.

    Attributes:
        lock: shared by test runs, exclusive for one that must run alone.
        retest_failures: whether a failure is graded once more before it counts.
    """

    row: R
    official_grader: OfficialGrader[R]
    setup: InstanceSetup
    lock: SharedExclusiveLock
    retest_failures: bool = True

    @asynccontextmanager
    async def start_prepared(self) -> AsyncIterator[Environment]:
        """A fresh environment for one test run, with all that the setup lays out for it."""
        with TemporaryDirectory(prefix="proctor-swe-") as folder:
            spec = await self.setup.prepare_spec(self.spec, Path(folder))
            async with await self.context.provider.start(spec) as environment:
                yield environment


def grading_spec(setup: InstanceSetup, task: Task, image: str | None) -> EnvironmentSpec:
    """The environment in which a task's submissions are tested."""
    spec = setup.grading_spec()
    return msgspec.structs.replace(
        spec, image=image or spec.image, labels={"benchmark": task.benchmark, "task": task.id}
    )
