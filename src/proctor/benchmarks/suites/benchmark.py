"""A suite as a benchmark: its instances as tasks, given out, collected, graded and validated."""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from proctor.benchmarks.suites.grade import GRADER, check_health, grade
from proctor.benchmarks.suites.layout import protected_patterns
from proctor.benchmarks.suites.load import Instance, Suite
from proctor.benchmarks.suites.steps import Bench, hidden_folders, room_spec
from proctor.core.benchmark import GradeOptions, Health, Place, Unusable
from proctor.core.environment import Environment, EnvironmentSpec, Network
from proctor.core.evaluation import Evaluated, Prediction
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, Gold, PrivatePart, PublicPart, Task
from proctor.workspaces import base_of, check_out, make_submission


class SuiteBenchmark:
    """Implements `core.benchmark.Benchmark` for any suite."""

    split: str | None = None
    grader = GRADER
    takes_turns = True

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

    def room(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The room of a test run, but for its tree."""
        return room_spec(self.suite, self._instances[task.id], options)

    def tasks(self) -> Sequence[Task]:
        """Every instance that can be used."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(_task(self.name, instance) for instance in self.suite.instances)

    def unusable(self) -> Sequence[Unusable]:
        """The instances whose files are broken."""
        return [Unusable(task_id=bad.id, problems=tuple(map(str, bad.problems))) for bad in self.suite.bad]

    def gold(self, task: Task) -> Prediction | None:
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

    async def grade(self, task: Task, prediction: Prediction, place: Place) -> Evaluated:
        """Baseline, apply, repair, test, rerun, verdict."""
        runs = place.options.determinism_runs or self.suite.file.defaults.determinism_runs or 1
        return await grade(self._bench(task, place), prediction, runs=runs)

    async def validate(self, task: Task, place: Place) -> Health:
        """Fails as labelled, solved by the oracle, repeatable, no leak."""
        return await check_health(self._bench(task, place), self.gold(task), runs=place.options.determinism_runs or 2)

    def _bench(self, task: Task, place: Place) -> Bench:
        return Bench(
            suite=self.suite,
            instance=self._instances[task.id],
            fingerprint=self.fingerprint(task),
            place=place,
            folder=place.folder / "suites" / _hashed(self.name) / "instances" / _hashed(task.id),
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
        gold = Gold(text=text, patch_kind=file.oracle.patch_kind)
    return Task(
        id=instance.id,
        benchmark=suite_id,
        public=PublicPart(instruction=instance.statement(), source=DirectorySource(path=str(instance.repo))),
        private=PrivatePart(
            gold=gold,
            fail_to_pass=file.eval.fail_to_pass,
            pass_to_pass=file.eval.pass_to_pass,
            protected=protected_patterns(instance),
        ),
        categories={key: value for key, value in categories.items() if value is not None},
        tags=file.tags,
    )
