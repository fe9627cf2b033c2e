"""A suite as a benchmark: its instances as tasks, prepared, collected, graded and validated."""

import asyncio
import copy
import hashlib
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from proctor.benchmarks.suites.grade import GRADER, SuiteGradingJob, check_health, grade
from proctor.benchmarks.suites.installed import InstalledEnvironment, installed_environment
from proctor.benchmarks.suites.instance import Instance
from proctor.benchmarks.suites.kinds import registered_kinds
from proctor.benchmarks.suites.load import Suite, shipped_root
from proctor.benchmarks.suites.tests_instance import add_installed_files
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.environment import (
    Environment,
    EnvironmentProvider,
    EnvironmentRequirement,
    EnvironmentSpec,
    Limits,
    Network,
)
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.predictions import read_predictions
from proctor.core.task import DirectorySource, Oracle, PrivatePart, PublicPart, Task
from proctor.workspaces import base_of, check_out, collect_patch

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
        self._provider: EnvironmentProvider | None = None

    def for_provider(self, provider: EnvironmentProvider) -> "SuiteBenchmark":
        """The suite, with what its instances need installed for environments of this provider."""
        made = copy.copy(self)
        made._provider = provider  # noqa: SLF001 - our own
        return made

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """A language of its environment that this machine does not have."""
        folder = self._instances[task.id].environment
        try:
            if folder is not None and runner != "docker":
                installed_environment(folder, runner, in_image=False, image=None)
        except InfrastructureError as error:
            return error.sentence
        return None

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
        spec = EnvironmentSpec(
            image=options.image or instance.file.image,
            limits=TEST_LIMITS,
            mounts=instance.mounts,
            hidden=self._hidden,
            labels={"suite": self.name, "task": instance.id},
        )
        installed = self._installed(task, options.image)
        return spec if installed is None else installed.spec(spec)

    def _installed(self, task: Task, image: str | None = None) -> InstalledEnvironment | None:
        instance = self._instances[task.id]
        if instance.environment is None:
            return None
        in_image = self._provider is not None and self._provider.uses_images
        name = "local" if self._provider is None else self._provider.name
        return installed_environment(instance.environment, name, in_image=in_image, image=image or instance.file.image)

    async def install(self, task: Task, provider: EnvironmentProvider, image: str | None = None) -> float:
        """Install what an instance needs, where that has not been done; gives how many seconds it took.

        Raises:
            RetryableError: a package index cannot be reached.
            InfrastructureError: installing fails; says where the log is.
        """
        if self._instances[task.id].environment is None:
            return 0.0
        started = time.monotonic()
        installed = await asyncio.to_thread(self._installed, task, image)
        if installed is not None:
            await installed.build(provider, self._instances[task.id].repo, task_id=task.id)
        return time.monotonic() - started

    def install_log(self, task: Task) -> Path | None:
        """What was printed while what an instance needs was installed."""
        installed = self._installed(task)
        return None if installed is None else installed.log

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
        spec = EnvironmentSpec(
            workspace=workspace,
            image=instance.file.image,
            network=Network.MODEL,
            hidden=self._hidden,
        )
        installed = self._installed(task)
        if installed is None or self._provider is None:
            return spec
        await self.install(task, self._provider)
        spec = installed.spec(spec)
        await asyncio.to_thread(add_installed_files, spec, workspace)
        return spec

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The agent's changes as a diff against our own copy of the repository."""
        source = DirectorySource(path=str(self._instances[task.id].repo))
        return await collect_patch(task.id, environment, lambda: base_of(source), folder)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Pre-patch run, apply, repair, post-patch runs, verdict."""
        await self.install(task, context.provider, context.options.image)
        runs = context.options.determinism_runs or self.suite.file.defaults.determinism_runs or 1
        return await grade(self.grading_job(task, context), prediction, self.oracle(task), runs=runs)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """Fails as labelled, solved by the oracle, repeatable, no leak."""
        await self.install(task, context.provider, context.options.image)
        return await check_health(
            self.grading_job(task, context), self.oracle(task), runs=context.options.determinism_runs or 2
        )

    @property
    def _hidden(self) -> tuple[str, ...]:
        """Where solutions are on this machine: the suite's own folder, and the suites that ship with Proctor."""
        return (str(self.suite.path.parent), str(shipped_root()))

    def grading_job(self, task: Task, context: GradingContext) -> SuiteGradingJob:
        """One instance in grading; what it needs must have been installed."""
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
    month = instance.created[:7] if instance.created else None
    categories = {"difficulty": file.difficulty, "language": file.language, "month": month}
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
        created=instance.created,
    )
