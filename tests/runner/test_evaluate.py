"""What is graded, and what is known already."""

import secrets
from dataclasses import replace
from pathlib import Path

import pytest
from toy_benchmark import Toy

from proctor.core.benchmark import GradeOptions, GradingContext, TaskHealth
from proctor.core.causes import Cause, Status
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.task import Task
from proctor.environments.local import LocalProvider
from proctor.runner.evaluate import evaluate, validate


class Installed(Toy):
    """Toys that are installed when the first answer is graded; before that nobody can tell what they will be."""

    def __init__(self) -> None:
        super().__init__(1)
        self.installed = ""
        self.graded = 0

    def fingerprint(self, task: Task) -> str:
        return self.installed or secrets.token_hex(16)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        self.installed = "toys 1.0"
        self.graded += 1
        return await super().grade(task, prediction, context)


class Mistaken(Toy):
    """The grading of its first task, and everything about it, is a mistake."""

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        if task.id == "toy-0001":
            raise KeyError("oops")
        return await super().grade(task, prediction, replace(context, folder=context.folder / task.id))

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        if task.id == "toy-0001":
            raise KeyError("oops")
        return await super().validate(task, context)


async def test_a_plugins_mistake_costs_its_task_and_leaves_a_traceback_among_the_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))
    toys = Mistaken(2)
    answers = {task.id: answer for task in toys.tasks() if (answer := toys.oracle(task))}
    provider = LocalProvider(isolation=False, environments_dir=tmp_path / "environments")
    context = GradingContext(provider, tmp_path / "artifacts", GradeOptions())
    first, second = await evaluate(toys, toys.tasks(), answers, context)
    assert (first.verdict.status, first.verdict.cause) == (Status.ERROR, Cause.INTERNAL_ERROR)
    assert (first.verdict.reason, second.verdict.status) == (
        "internal error: KeyError: 'oops' (see crash.log)",
        Status.RESOLVED,
    )
    crash = tmp_path / "artifacts/toy-0001/crash.log"
    assert "in grade" in crash.read_text()
    bad, good = await validate(toys, toys.tasks(), context, jobs=1, on_validated=lambda _: None)
    assert bad.problems == ("could not be tried here: internal error: KeyError: 'oops' (see crash.log)",)
    assert good.healthy
    assert "in validate" in crash.read_text()


@pytest.mark.parametrize("use_cache", [True, False])
async def test_a_verdict_is_found_again_whose_packages_were_installed_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use_cache: bool
) -> None:
    toys = Installed()
    oracles = {task.id: toys.oracle(task) for task in toys.tasks()}
    monkeypatch.setenv("PROCTOR_CACHE", str(tmp_path / "cache"))

    async def once(name: str) -> TaskEvaluation:
        (evaluated,) = await evaluate(
            toys,
            toys.tasks(),
            {task: answer for task, answer in oracles.items() if answer is not None},
            GradingContext(
                LocalProvider(isolation=False, environments_dir=tmp_path / "environments"),
                tmp_path / name,
                GradeOptions(),
                use_cache=use_cache,
            ),
        )
        return evaluated

    first, second = await once("first"), await once("second")
    assert toys.graded == (1 if use_cache else 2)
    assert (first.verdict.status, second.verdict) == (Status.RESOLVED, first.verdict)
