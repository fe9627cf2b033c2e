"""A suite as a benchmark: its instances as tasks, given out, collected, graded and validated."""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from proctor.benchmarks.suites.grade import GRADER, check_health, grade
from proctor.benchmarks.suites.grading_job import SuiteGradingJob, environment_spec, hidden_folders
from proctor.benchmarks.suites.layout import protected_patterns
from proctor.benchmarks.suites.load import Instance, Suite
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.environment import Environment, EnvironmentSpec, Network
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, Oracle, PrivatePart, PublicPart, Task
from proctor.workspaces import base_of, check_out, make_submission


class SuiteBenchmark(Benchmark):
    """Implements `core.benchmark.Benchmark` for any suite."""

    split: str | None = None
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
        """The room of a test run, but for its tree."""
        return environment_spec(self.suite, self._instances[task.id], options)

    def tasks(self) -> Sequence[Task]:
        """Every instance that can be used."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(_task(self.name, instance) for instance in self.suite.instances)

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """The instances whose files are broken."""
        return [InvalidTask(task_id=bad.id, problems=tuple(map(str, bad.problems))) for bad in self.suite.invalid]

    def oracle(self, task: Task) -> Prediction | None:
        """The oracle's patch."""
        instance = self._instances[task.id]
        if instance.oracle is None or instance.file.oracle is None:
            return None
        return Prediction(
            task_id=task.id,
            patch_kind=instance.file.oracle.patch_kind,
            content=instance.oracle.read_bytes(),
            model="oracle",
        )

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
            hidden=hidden_folders(self.suite.path),
        )

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The agent's changes as a diff against our own copy of the repository."""
        instance = self._instances[task.id]
        left = folder / "left"
        await environment.get(environment.workdir, left)
        base = await asyncio.to_thread(base_of, DirectorySource(path=str(instance.repo)))
        made = await asyncio.to_thread(make_submission, base, left)
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=made.patch)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Baseline, apply, repair, test, rerun, verdict."""
        runs = context.options.determinism_runs or self.suite.file.defaults.determinism_runs or 1
        return await grade(self._grading_job(task, context), prediction, runs=runs)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """Fails as labelled, solved by the oracle, repeatable, no leak."""
        return await check_health(
            self._grading_job(task, context), self.oracle(task), runs=context.options.determinism_runs or 2
        )

    def _grading_job(self, task: Task, context: GradingContext) -> SuiteGradingJob:
        return SuiteGradingJob(
            suite=self.suite,
            instance=self._instances[task.id],
            fingerprint=self.fingerprint(task),
            context=context,
            folder=context.folder / "suites" / _hashed(self.name) / "instances" / _hashed(task.id),
        )


def _hashed(name: str) -> str:
    """How x07 names artifact folders: any id fits, and no two share one."""
    return f"id_{hashlib.sha256(name.encode()).hexdigest()}"


def _task(suite_id: str, instance: Instance) -> Task:
    file = instance.file
    categories = {"difficulty": file.difficulty, "language": file.language}
    gold = None
    if instance.oracle is not None and file.oracle is not None:
        text = instance.oracle.read_bytes().decode("utf-8", "surrogateescape")
        gold = Oracle(text=text, patch_kind=file.oracle.patch_kind)
    return Task(
        id=instance.id,
        benchmark=suite_id,
        public=PublicPart(instruction=instance.statement(), source=DirectorySource(path=str(instance.repo))),
        private=PrivatePart(
            oracle=gold,
            fail_to_pass=file.eval.fail_to_pass,
            pass_to_pass=file.eval.pass_to_pass,
            protected=protected_patterns(instance),
        ),
        categories={key: value for key, value in categories.items() if value is not None},
        tags=file.tags,
    )
