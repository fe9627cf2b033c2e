"""What the base class of benchmarks gives to a benchmark that says no more than it has to."""

from dataclasses import replace
from pathlib import Path

import pytest
from toy_benchmark import Toy

from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.environments.local import LocalProvider
from proctor.runner.evaluate import evaluate


class Plain(Benchmark):
    """The tasks and the grading of toys, and the defaults for everything else."""

    name = "plain"

    def __init__(self) -> None:
        self._toy = Toy(3)
        self.permits: list[object] = []

    def tasks(self) -> list[Task]:
        return list(self._toy.tasks())

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        return EnvironmentSpec()

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        return await self._toy.prepare(task, folder)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        return await self._toy.collect(task, environment, folder)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        self.permits.append(context.permit)
        return await self._toy.grade(task, prediction, context)


@pytest.fixture
def context(tmp_path: Path) -> GradingContext:
    provider = LocalProvider(isolation=False, environments_dir=tmp_path / "environments")
    return GradingContext(provider=provider, folder=tmp_path / "graded", options=GradeOptions())


async def test_what_a_benchmark_does_not_say_has_a_default(tmp_path: Path, context: GradingContext) -> None:
    plain = Plain()
    first, second, _ = plain.tasks()
    assert plain.fingerprint(first) == plain.fingerprint(first) != plain.fingerprint(second)
    assert len(plain.digest()) == 64
    assert plain.for_provider(context.provider) is plain
    assert (plain.split, plain.source, plain.invalid_tasks()) == (None, "", ())
    oracle = plain.oracle(first)
    assert oracle is not None
    assert (oracle.patch_kind, oracle.content) == (PatchKind.SHELL_SCRIPT, b"echo right >answer.txt\n")
    file = tmp_path / "predictions.jsonl"
    file.write_text('{"instance_id": "toy-0001", "patch_kind": "shell-script", "patch_inline": "true"}\n')
    assert plain.read_predictions(file)["toy-0001"].content == b"true"


async def test_health_is_proved_by_grading_nothing_and_the_oracle(context: GradingContext) -> None:
    class Solved(Plain):
        def oracle(self, task: Task) -> Prediction:
            return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b"right")

    health = await Solved().validate(Solved().tasks()[0], context)
    assert (health.healthy, health.pre_patch_ok, health.oracle_ok, health.determinism_ok) == (True, True, True, True)
    health = await Plain().validate(Plain().tasks()[1], context)
    assert health.problems == ("the oracle is not resolved: it is wrong",)


@pytest.mark.parametrize("truth", [True, False])
async def test_a_benchmark_that_says_it_uses_no_permit_gets_none(
    truth: bool, context: GradingContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Stated(Plain):
        uses_permit = truth

    stated = Stated()
    (task, *_) = stated.tasks()
    await evaluate(
        stated,
        [task],
        {task.id: Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b"right")},
        replace(context, use_cache=False),
    )
    (permit,) = stated.permits
    assert (permit is not context.permit) is truth


@pytest.mark.parametrize(("truth", "cause"), [(True, Cause.EMPTY), (False, Cause.NO_SUBMISSION)])
async def test_a_benchmark_says_what_a_missing_prediction_counts_as(
    truth: bool, cause: Cause, context: GradingContext
) -> None:
    class Stated(Plain):
        missing_is_empty = truth

    (task, *_) = Stated().tasks()
    (evaluation,) = await evaluate(
        Stated(),
        [task],
        {},
        replace(context, use_cache=False),
    )
    assert evaluation.verdict.cause is cause
