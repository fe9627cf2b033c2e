"""A benchmark of patches that has tasks and a test plan, and the defaults for the rest."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from proctor.benchmarks.patch_benchmark import PatchBenchmark
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, ImageSource, Oracle, PrivatePart, PublicPart, Task
from proctor.environments.local import LocalProvider
from proctor.grading import TestFormat, TestPlan, is_protected

TEST = "import unittest, one\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(one.f(), {})\n"
SOLUTION = "--- a/one.py\n+++ b/one.py\n@@ -1 +1 @@\n-def f(): return 0\n+def f(): return 1\n"
CHEAT = "--- a/tests/test_one.py\n+++ b/tests/test_one.py\n@@ -1,3 +1 @@\n+import unittest\n" + "".join(
    f"-{line}\n" for line in TEST.format(1).splitlines()
)


class Ones(PatchBenchmark):
    """One task: f shall return 1."""

    name = "ones"

    def __init__(self, folder: Path, *, hidden: bool = False, private: PrivatePart | None = None) -> None:
        start = folder / "start"
        (start / "tests").mkdir(parents=True)
        (start / "one.py").write_text("def f(): return 0\n")
        (start / "tests/test_one.py").write_text(TEST.format(1))
        self.hidden = folder / "hidden" if hidden else None
        if self.hidden is not None:
            (self.hidden / "tests").mkdir(parents=True)
            (self.hidden / "tests/test_two.py").write_text(TEST.format(2))
        self.private_dirs = (folder,)
        oracle = Oracle(text=SOLUTION, patch_kind=PatchKind.UNIFIED_DIFF)
        public = PublicPart(instruction="f shall return 1", source=DirectorySource(path=str(start)))
        self.task = Task(id="one", benchmark="ones", public=public, private=private or PrivatePart(oracle=oracle))

    def tasks(self) -> Sequence[Task]:
        return [self.task]

    def test_plan(self, task: Task) -> TestPlan:
        return TestPlan(format=TestFormat.UNITTEST, targets=("tests",))

    def hidden_tests(self, task: Task) -> Path | None:
        return self.hidden


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GradingContext:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    provider = LocalProvider(isolation=False, environments_dir=tmp_path / "environments")
    return GradingContext(provider=provider, folder=tmp_path / "graded", options=GradeOptions())


async def grade(benchmark: Ones, patch: str, context: GradingContext) -> TaskEvaluation:
    prediction = Prediction(task_id="one", patch_kind=PatchKind.UNIFIED_DIFF, content=patch.encode())
    return await benchmark.grade(benchmark.task, prediction, context)


@pytest.mark.parametrize(
    ("patch", "status", "cause"),
    [
        (SOLUTION, Status.RESOLVED, Cause.SOLVED),
        (SOLUTION.replace("return 1", "return 2"), Status.UNRESOLVED, Cause.TESTS_FAILED),
        (CHEAT, Status.UNRESOLVED, Cause.TESTS_FAILED),
        ("", Status.UNRESOLVED, Cause.EMPTY),
        ("nonsense", Status.UNRESOLVED, Cause.MALFORMED_SUBMISSION),
        (SOLUTION.replace("0", "7", 1), Status.UNRESOLVED, Cause.DOES_NOT_APPLY),
    ],
)
async def test_the_tests_decide(
    patch: str, status: Status, cause: Cause, context: GradingContext, tmp_path: Path
) -> None:
    evaluation = await grade(Ones(tmp_path), patch, context)
    assert (evaluation.verdict.status, evaluation.verdict.cause) == (status, cause), evaluation.verdict.reason
    assert evaluation.pre_patch is not None
    assert (evaluation.pre_patch.failed, evaluation.patch_kind) == (1, PatchKind.UNIFIED_DIFF)


async def test_a_submission_that_changes_the_tests_has_a_finding(context: GradingContext, tmp_path: Path) -> None:
    evaluation = await grade(Ones(tmp_path), CHEAT, context)
    assert "tests/test_one.py" in {finding.path for finding in evaluation.verdict.findings}


@pytest.mark.parametrize(
    ("targets", "path"),
    [
        (("tests",), "tests/deep/test_one.py"),
        (("tests/test_one.py::T",), "tests/test_one.py"),
        (("tests.test_one.T",), "tests/test_one.py"),
        ((), "anywhere/test_one.py"),
        ((".",), "anywhere/test_one.py"),
    ],
)
def test_test_targets_are_protected(targets: tuple[str, ...], path: str, tmp_path: Path) -> None:
    class Tested(Ones):
        def test_plan(self, task: Task) -> TestPlan:
            return TestPlan(format=TestFormat.UNITTEST, targets=targets)

    benchmark = Tested(tmp_path, private=PrivatePart(protected=("/fixed",)))
    assert is_protected(path, benchmark.protected(benchmark.task))
    assert is_protected("fixed", benchmark.protected(benchmark.task))
    assert not is_protected("one.py", benchmark.protected(benchmark.task))


async def test_hidden_tests_are_there_when_the_tests_run(context: GradingContext, tmp_path: Path) -> None:
    evaluation = await grade(Ones(tmp_path, hidden=True), SOLUTION, context)
    assert evaluation.verdict.cause is Cause.TESTS_FAILED
    assert evaluation.post_patch is not None
    assert (evaluation.post_patch.passed, evaluation.post_patch.failed) == (1, 1)


async def test_a_task_that_is_solved_from_the_start_is_no_failure_of_the_submission(
    context: GradingContext, tmp_path: Path
) -> None:
    benchmark = Ones(tmp_path)
    (tmp_path / "start/one.py").write_text("def f(): return 1\n")
    assert (await grade(benchmark, SOLUTION, context)).verdict.status is Status.ERROR


async def test_tests_run_as_often_as_was_asked_for(context: GradingContext, tmp_path: Path) -> None:
    counting = SOLUTION.replace("return 1", f"open('{tmp_path}/runs', 'a').write('x'); return 1")
    evaluation = await grade(
        Ones(tmp_path), counting, replace(context, options=GradeOptions(determinism_runs=3, controls=0))
    )
    assert evaluation.verdict.status is Status.RESOLVED
    assert (tmp_path / "runs").read_text() == "xxx"


async def test_validation_proves_the_task_and_looks_for_leaks(context: GradingContext, tmp_path: Path) -> None:
    benchmark = Ones(tmp_path)
    health = await benchmark.validate(benchmark.task, context)
    assert (health.healthy, health.problems, health.leaks) == (True, (), ())
    (tmp_path / "start/notes.txt").write_text(SOLUTION)
    health = await benchmark.validate(benchmark.task, context)
    assert health.healthy is False
    assert health.leaks
    unsolvable = Ones(tmp_path / "other", private=PrivatePart())
    assert (await unsolvable.validate(unsolvable.task, context)).problems == ("there is no oracle to try",)


async def test_the_fingerprint_is_that_of_the_trees_and_not_of_where_they_are(
    context: GradingContext, tmp_path: Path
) -> None:
    first, second, hidden = Ones(tmp_path / "1"), Ones(tmp_path / "2"), Ones(tmp_path / "3", hidden=True)
    assert first.fingerprint(first.task) == second.fingerprint(second.task) != hidden.fingerprint(hidden.task)
    (tmp_path / "2/start/one.py").write_text("def f(): return 3\n")
    assert first.fingerprint(first.task) != second.fingerprint(second.task)


async def test_what_an_agent_changes_is_collected(context: GradingContext, tmp_path: Path) -> None:
    benchmark = Ones(tmp_path)
    spec = await benchmark.prepare(benchmark.task, tmp_path / "attempt")
    async with await context.provider.start(spec) as environment:
        await environment.exec(["sed", "-i", "s/0/1/", "one.py"])
        collected = await benchmark.collect(benchmark.task, environment, tmp_path / "attempt")
    assert b"+def f(): return 1\n" in collected.content
    assert (await benchmark.grade(benchmark.task, collected, context)).verdict.status is Status.RESOLVED


async def test_a_patch_to_an_image_is_refused(context: GradingContext, tmp_path: Path) -> None:
    benchmark = Ones(tmp_path)
    public = msgspec.structs.replace(benchmark.task.public, source=ImageSource(image="x", workdir="/"))
    with pytest.raises(InvalidData, match="not an image"):
        await benchmark.prepare(msgspec.structs.replace(benchmark.task, public=public), tmp_path / "attempt")
