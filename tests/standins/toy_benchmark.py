"""A benchmark whose tasks cost next to nothing: the agent's last response is its submission, and `right` is right."""

import os
from collections.abc import Sequence
from pathlib import Path

from proctor.core.benchmark import Benchmark, BenchmarkSource, GradeOptions, GradingContext, TaskHealth
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentSpec, Network
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, Oracle, PrivatePart, PublicPart, Task
from proctor.core.verdict import Verdict


class Toy(Benchmark):
    """As many tasks as TOY_TASKS says."""

    name = "toy"
    source = "toy"
    grader = "toy/1"

    def __init__(self, count: int | None = None) -> None:
        count = int(os.environ.get("TOY_TASKS", "3")) if count is None else count
        self._tasks = [self._task(f"toy-{number:04}") for number in range(1, count + 1)]

    def _task(self, name: str) -> Task:
        return Task(
            id=name,
            benchmark=self.name,
            public=PublicPart(instruction=f"task: {name}\n", source=DirectorySource(path="/")),
            private=PrivatePart(oracle=Oracle(text="echo right >answer.txt\n")),
            categories={"parity": "even" if int(name[-4:]) % 2 == 0 else "odd"},
        )

    def digest(self) -> str:
        return f"toy-{len(self._tasks)}"

    def fingerprint(self, task: Task) -> str:
        return task.id

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        return EnvironmentSpec()

    def tasks(self) -> Sequence[Task]:
        return self._tasks

    def oracle(self, task: Task) -> Prediction | None:
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b"right\n")

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        workspace = folder / "workspace"
        workspace.mkdir()
        (workspace / "answer.txt").write_text("nothing\n")
        return EnvironmentSpec(workspace=workspace, network=Network.MODEL)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        left = folder / "answer.txt"
        await environment.get(f"{environment.workdir}/answer.txt", left)
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=left.read_bytes())

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        folder = context.folder / task.id
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "seen.txt").write_bytes(prediction.content)
        right = prediction.content.strip().endswith(b"right")
        verdict = Verdict(
            task_id=task.id,
            status=Status.RESOLVED if right else Status.UNRESOLVED,
            cause=Cause.SOLVED if right else Cause.TESTS_FAILED,
            reason="it is right" if right else "it is wrong",
            grader=self.grader,
            deviations=_deviations(),
        )
        return TaskEvaluation(task_id=task.id, verdict=verdict)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """Every toy is sound but those that TOY_SICK names."""
        sound = task.id not in os.environ.get("TOY_SICK", "").split()
        return TaskHealth(
            task_id=task.id,
            environment="toy",
            healthy=sound,
            pre_patch_ok=sound,
            oracle_ok=True,
            determinism_ok=True,
            problems=() if sound else ("it is unhealthy",),
            deviations=_deviations(),
        )


def _deviations() -> tuple[str, ...]:
    """What TOY_DEVIATION says."""
    deviation = os.environ.get("TOY_DEVIATION")
    return (deviation,) if deviation else ()


class ToySource(BenchmarkSource):
    """Toys are made where they are asked for."""

    about = "toys"

    def open(self, split: str | None) -> Toy:
        """A new box of toys."""
        assert split is None
        return Toy()


SOURCE: BenchmarkSource = ToySource()
