"""A benchmark whose tasks take no work, and environments in which nothing runs: what is left is the pipeline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, PrivatePart, PublicPart, Task
from proctor.core.verdict import Verdict


class NoWork(Benchmark):
    """Tasks with these ids; a subclass has a name, and says what is asked of an agent."""

    instruction = "Do nothing."

    def __init__(self, ids: Sequence[str]) -> None:
        self._tasks = [
            Task(
                id=task_id,
                benchmark=self.name,
                public=PublicPart(instruction=self.instruction.format(id=task_id), source=DirectorySource(path="/")),
                private=PrivatePart(),
            )
            for task_id in ids
        ]

    def digest(self) -> str:
        return self.name  # nodes have all tasks, and a run takes some of them

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        return EnvironmentSpec()

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        return EnvironmentSpec()

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b"")

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        verdict = Verdict(task_id=task.id, status=Status.UNRESOLVED, cause=Cause.EMPTY, reason="nothing was done")
        return TaskEvaluation(task_id=task.id, verdict=verdict)


class NoEnvironment:
    """An environment in which nothing runs."""

    workdir = "/workspace"
    digest = "none"
    model_url = None

    async def __aenter__(self) -> "NoEnvironment":
        return self

    async def __aexit__(self, *_: object) -> None: ...


class NoEnvironments(EnvironmentProvider):
    """Makes such environments."""

    name = "none"

    def __init__(self, **_: object) -> None:
        pass

    async def start(self, spec: EnvironmentSpec) -> Any:
        return NoEnvironment()

    async def digest(self, spec: EnvironmentSpec) -> str:
        return "none"
