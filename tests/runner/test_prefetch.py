"""Who makes the environments is told which ones will be wanted, and which ones no more."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toy_benchmark import Toy

from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, PrivatePart, PublicPart, Task
from proctor.core.verdict import Verdict
from proctor.runner.evaluate import evaluate


class Provider(EnvironmentProvider):
    """Keeps what it is told."""

    name = "told"

    def __init__(self) -> None:
        self.told: list[object] = []

    def prefetch(self, specs: Sequence[EnvironmentSpec]) -> None:
        self.told.append([spec.image for spec in specs])

    def release(self, spec: EnvironmentSpec) -> None:
        self.told.append(spec.image)

    async def digest(self, spec: EnvironmentSpec) -> str:
        return str(spec.image)

    async def start(self, spec: EnvironmentSpec) -> Environment:
        raise NotImplementedError


class Benchmark(Toy):
    """Every task has an image of its own name, but for one that this machine cannot run."""

    def __init__(self, provider: Provider) -> None:
        super().__init__(0)
        self.provider = provider

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        if task.id == "nowhere":
            raise InfrastructureError("not here", cause=Cause.NOT_RUNNABLE_HERE)
        return EnvironmentSpec(image=task.id)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        self.provider.told.append(f"grade {task.id}")
        verdict = Verdict(task_id=task.id, status=Status.RESOLVED, cause=Cause.SOLVED, reason="")
        return TaskEvaluation(task_id=task.id, verdict=verdict)


def task(name: str) -> Task:
    public = PublicPart(instruction="", source=DirectorySource(path=""))
    return Task(id=name, benchmark="b", public=public, private=PrivatePart())


async def test_an_evaluation_tells_what_it_will_grade_in_order_and_when_each_is_done(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    provider = Provider()
    benchmark = Benchmark(provider)
    names = ["c", "no-answer", "nowhere", "a"]
    predictions = {
        name: Prediction(task_id=name, patch_kind=PatchKind.UNIFIED_DIFF, content=b"", model="m")
        for name in names
        if name != "no-answer"
    }
    done = await evaluate(
        benchmark,
        [task(name) for name in names],
        predictions,
        GradingContext(provider, tmp_path, GradeOptions(), use_cache=False),
    )
    assert provider.told == [["c", "a"], "grade c", "c", "grade a", "a"]
    assert [one.verdict.status for one in done] == [Status.RESOLVED, Status.SKIPPED, Status.SKIPPED, Status.RESOLVED]
