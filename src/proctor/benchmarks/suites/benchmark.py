"""A suite as a benchmark: its instances as tasks, prepared, collected, graded and validated."""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from proctor.benchmarks.suites.grade import GRADER, SuiteGradingJob, check_health, grade
from proctor.benchmarks.suites.instance import Instance
from proctor.benchmarks.suites.kinds import registered_kinds
from proctor.benchmarks.suites.load import Suite, shipped_root
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.environment import (
    Environment,
    EnvironmentRequirement,
    EnvironmentSpec,
    Limits,
    Network,
    get_tree,
)
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.predictions import read_predictions
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, Oracle, PrivatePart, PublicPart, Task
from proctor.workspaces import base_of, check_out, make_submission

TEST_SECONDS: Final = 300.0
TEST_LIMITS: Final = Limits(memory_mb=4096, processes=512, disk_mb=4096)


class SuiteBenchmark(Benchmark):
    """Any suite as a benchmark."""

    grader = GRADER
    uses_permit = True

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        self.name = suite.id
        self.source = str(suite.path)
        self._instances = {instance.id: instance for instance in suite.instances}
        self._fingerprints: dict[str, str] = {}

    def digest(self) -> str:
        """Identifies the data."""
        return self.suite.digest(self._fingerprints)

    def fingerprint(self, task: Task) -> str:
        """Identifies all of one instance that a verdict depends on."""
        if task.id not in self._fingerprints:
            self._fingerprints[task.id] = self._instances[task.id].digest()
        return self._fingerprints[task.id]

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The environment of a test run, without its tree.

        Raises:
            InfrastructureError: it needs a program that this machine does not have.
        """
        instance = self._instances[task.id]
        return EnvironmentSpec(
            image=options.image or instance.file.image,
            limits=TEST_LIMITS,
            mounts=instance.mounts,
            hidden=self._hidden,
            labels={"suite": self.name, "task": instance.id},
        )

    def environment_requirements(self, task: Task) -> Sequence[EnvironmentRequirement]:
        """What the instance requires, and what runs its tests."""
        return self._instances[task.id].environment_requirements

    def tasks(self) -> Sequence[Task]:
        """Every instance that can be used."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(_task(self.name, instance) for instance in self.suite.instances)

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """The instances whose files are broken."""
        return [InvalidTask(task_id=bad.id, problems=tuple(map(str, bad.problems))) for bad in self.suite.invalid]

    def read_predictions(self, file: Path) -> dict[str, Prediction]:
        """Prediction lines, also those that state the version of a tool whose suites we read."""
        schemas = [kind.prediction_schema for kind in registered_kinds().values() if kind.prediction_schema]
        return read_predictions(file, schemas=schemas)

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """A workspace with the instance's repository, as the only commit of a git repository."""
        instance = self._instances[task.id]
        workspace = folder / "workspace"
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(instance.repo)))
        await asyncio.to_thread(check_out, base, workspace)
        return EnvironmentSpec(
            workspace=workspace,
            image=instance.file.image,
            network=Network.MODEL,
            hidden=self._hidden,
        )

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The agent's changes as a diff against our own copy of the repository."""
        instance = self._instances[task.id]
        workspace = folder / "left"
        await get_tree(environment, environment.workdir, workspace)
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(instance.repo)))
        submission = await asyncio.to_thread(make_submission, base, workspace)
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=submission.patch)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Pre-patch run, apply, repair, post-patch runs, verdict."""
        runs = context.options.determinism_runs or self.suite.file.defaults.determinism_runs or 1
        return await grade(self._grading_job(task, context), prediction, self.oracle(task), runs=runs)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """Fails as labelled, solved by the oracle, repeatable, no leak."""
        return await check_health(
            self._grading_job(task, context), self.oracle(task), runs=context.options.determinism_runs or 2
        )

    @property
    def _hidden(self) -> tuple[str, ...]:
        """Where solutions are on this machine: the suite's own folder, and the suites that ship with Proctor."""
        return (str(self.suite.path.parent), str(shipped_root()))

    def _grading_job(self, task: Task, context: GradingContext) -> SuiteGradingJob:
        instance, options = self._instances[task.id], context.options
        own_timeout = instance.timeout_seconds or self.suite.file.defaults.timeout_seconds
        return SuiteGradingJob(
            task_id=task.id,
            grader=GRADER,
            context=context,
            folder=context.folder / "suites" / _hashed(self.name) / "instances" / _hashed(task.id),
            spec=self.environment_spec(task, options),
            timeout=options.timeout_seconds or own_timeout or TEST_SECONDS,
            protected=instance.protected,
            overlay=instance.hidden,
            tags=instance.file.tags,
            notes=instance.notes,
            instance=instance,
            fingerprint=self.fingerprint(task),
        )


def _hashed(name: str) -> str:
    """The name of an artifact folder: any id fits, and no two ids share one."""
    return f"id_{hashlib.sha256(name.encode()).hexdigest()}"


def _task(suite_id: str, instance: Instance) -> Task:
    file = instance.file
    categories = {"difficulty": file.difficulty, "language": file.language}
    oracle = None
    if instance.oracle is not None and file.oracle is not None:
        text = instance.oracle.read_bytes().decode("utf-8", "surrogateescape")
        oracle = Oracle(text=text, patch_kind=file.oracle.patch_kind)
    return Task(
        id=instance.id,
        benchmark=suite_id,
        public=PublicPart(instruction=instance.statement(), source=DirectorySource(path=str(instance.repo))),
        private=PrivatePart(
            oracle=oracle,
            fail_to_pass=file.eval.fail_to_pass,
            pass_to_pass=file.eval.pass_to_pass,
            protected=instance.protected,
        ),
        categories={key: value for key, value in categories.items() if value is not None},
        tags=file.tags,
    )
