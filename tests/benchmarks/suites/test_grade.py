"""How instances are graded, below the command line: the way to the test process, and what is kept."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from proctor.benchmarks.suites.benchmark import SuiteBenchmark
from proctor.benchmarks.suites.load import load_suite
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.environment import EnvironmentSpec
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.environments.local import LocalProvider
from proctor.environments.local_environment import LocalEnvironment
from suite_world import BUGGY, SOLUTION, diff, make_instance, make_suite
from waiting import limits

PACKAGE = str(Path(inspect.getfile(SuiteBenchmark)).parents[2])
MOST_CALLS = 8


def calls() -> list[str]:
    """The functions of the package that are being called, from the outermost to the innermost."""
    frames = [frame for frame in inspect.stack() if frame.filename.startswith(PACKAGE)]
    return [f"{Path(frame.filename).stem}.{frame.function}" for frame in reversed(frames)]


class TracingProvider(LocalProvider):
    """Notes by which calls each environment is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[list[str]] = []

    async def start(self, spec: EnvironmentSpec) -> LocalEnvironment:
        self.traces.append(calls())
        return await super().start(spec)

    async def run_once(self, spec: EnvironmentSpec, command: Any, *, permit: Any = None) -> Any:
        self.traces.append(calls())
        return await super().run_once(spec, command, permit=permit)


async def graded(folder: Path, provider: LocalProvider, patch: str = SOLUTION, **defaults: Any) -> TaskEvaluation:
    benchmark = SuiteBenchmark(load_suite(make_suite(folder, **defaults)))
    (task,) = benchmark.tasks()
    prediction = Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=patch.encode())
    context = GradingContext(provider=provider, folder=folder / "art", options=GradeOptions(), use_cache=False)
    try:
        return await benchmark.grade(task, prediction, context)
    finally:
        await provider.close()


@pytest.mark.parametrize(
    "changes",
    [{}, {"requires": ["python3"]}, {"eval": {"setup": [["true"]]}}],
    ids=["plain", "with requirements", "with setup"],
)
async def test_few_calls_lead_from_grading_to_the_tests(tmp_path: Path, changes: dict[str, Any]) -> None:
    make_instance(tmp_path, **changes)
    provider = TracingProvider()
    assert (await graded(tmp_path, provider)).verdict.cause is Cause.SOLVED
    # Runs that go on beside each other are traced from their own task on, in whatever order they begin.
    assert "benchmark.grade" in {trace[0] for trace in provider.traces}
    for trace in provider.traces:
        assert len(trace) < MOST_CALLS, " > ".join(trace)  # the provider's own call is one more


async def test_files_made_by_the_setup_are_there_for_the_tests(tmp_path: Path) -> None:
    hidden = "import unittest, pathlib\nfrom calc import add\n\nclass T(unittest.TestCase):\n    def test_it(self):\n"
    hidden += "        self.assertEqual((add(2, 3), pathlib.Path('made').read_text()), (5, 'by setup'))\n"
    tests = {
        "setup": [["sh", "-c", "printf 'by setup' > made; echo > tests/test_calc.py"]],
        "fail_to_pass": ["tests.test_calc.T.test_it"],
        "pass_to_pass": [],
    }
    make_instance(tmp_path, hidden=hidden, eval=tests)
    evaluation = await graded(tmp_path, LocalProvider())
    assert evaluation.verdict.cause is Cause.SOLVED, evaluation.verdict.reason
    kept = {file.name for file in Path(evaluation.artifacts or "").rglob("*") if file.is_file()}
    runs = {name.split(".")[0].rstrip("0123456789ab") for name in kept}
    assert runs == {"instance", "submission", "pre_patch", "post_patch", "controls", "paper"}
    assert {"pre_patch.tests.json", "pre_patch.txt", "post_patch.tests.json", "post_patch.txt"} <= kept


async def test_the_suites_default_limits_a_test_run(tmp_path: Path) -> None:
    make_instance(tmp_path, eval={"timeout_seconds": None})
    endless = diff("calc.py", BUGGY, "def add(a, b):\n    while True:\n        pass\n")
    for seconds in limits(1):
        evaluation = await graded(tmp_path, LocalProvider(), endless, timeout_seconds=int(seconds))
        if evaluation.verdict.status is not Status.ERROR:  # the tests had enough time before there was a submission
            break
    assert evaluation.verdict.cause is Cause.TEST_TIMEOUT
