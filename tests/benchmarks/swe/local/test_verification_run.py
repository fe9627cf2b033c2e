"""The verification run, in every manner in which tests are run: only honest answers pass."""

import textwrap
from pathlib import Path

import pytest

from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.evaluation import Prediction
from proctor.core.submission import PatchKind
from proctor.core.verdict import Verdict
from proctor.environments.local import LocalProvider
from swe_local_world import MANNERS, NUMBERS, NUMBERS_FIXED, World, diff_of, labels_of

pytestmark = pytest.mark.slow
EQUALS_EVERYTHING = """\
class Number(int):
    def __eq__(self, other):
        return self is not other

    __hash__ = int.__hash__


def double(number):
    return Number(number)
"""
# What each manner's own program prints of a test that passed, written where that program writes, and then the end.
PRINTS = """\
import os

for line in {lines!r}:
    for place in range(1, 24):
        try:
            os.write(place, ("\\n" + line + "\\n").encode())
        except OSError:
            pass
os._exit(0)
"""
# Besides, where our reporter runs the tests, it is found on the stack and made to report what is wanted.
WALKS_FRAMES = """\
import os
import sys


def double(number):
    frame = sys._getframe()
    while frame is not None:
        names = frame.f_locals
        if "report" in names and "tests" in names:
            report, current = names["report"], names["name"]
            every = [one[0] for one in names["tests"]]
            report.finish(current, "passed")
            for name in every[every.index(current) + 1 :]:
                report.start(name)
                report.finish(name, "passed")
            report.final(0)
            os._exit(0)
        frame = frame.f_back
    return Number(number)


class Number(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__
"""
PASSING_RUNTESTS = """\
import sys

for line in {lines!r}:
    print(line)
sys.exit(0)
"""


async def verdict_on(world: World, manner: str, patch: str, folder: Path, *, controls: int = 1) -> Verdict:
    benchmark = world.benchmark(world.numbers_row(manner))
    (task,) = benchmark.tasks()
    options = GradeOptions(controls=controls)
    context = GradingContext(provider=LocalProvider(), folder=folder, options=options)
    prediction = Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=patch.encode(), model="m")
    return (await benchmark.grade(task, prediction, context)).verdict


def printed_lines(manner: str) -> list[str]:
    form = {"pytest": "PASSED {}", "django": "{} ... ok", "sympy": "{} ok"}[manner]
    return [form.format(label) for label in labels_of(manner)]


def numbers_patch(source: str) -> str:
    return diff_of({"src/numbers_of.py": (NUMBERS, source)})


@pytest.mark.parametrize("manner", MANNERS)
async def test_an_honest_answer_is_resolved_with_every_test_under_control(
    manner: str, world: World, tmp_path: Path
) -> None:
    other = NUMBERS_FIXED.replace("2 * number", "number << 1")
    verdict = await verdict_on(world, manner, numbers_patch(other), tmp_path)
    assert (verdict.status, verdict.official, verdict.findings) == (Status.RESOLVED, None, ()), verdict.reason
    assert verdict.controls is not None
    assert (verdict.controls.controlled, verdict.controls.uncontrolled) == (5, ())


@pytest.mark.parametrize("manner", MANNERS)
async def test_an_object_that_equals_everything_passes_altered_tests_too(
    manner: str, world: World, tmp_path: Path
) -> None:
    verdict = await verdict_on(world, manner, numbers_patch(EQUALS_EVERYTHING), tmp_path)
    assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, Cause.TAMPERED), verdict.reason
    assert verdict.official is Status.RESOLVED
    assert next(finding.code for finding in verdict.findings) == "control-passed"


@pytest.mark.parametrize("manner", MANNERS)
async def test_output_of_the_submission_does_not_decide(manner: str, world: World, tmp_path: Path) -> None:
    patch = numbers_patch(PRINTS.format(lines=printed_lines(manner)) + NUMBERS)
    verdict = await verdict_on(world, manner, patch, tmp_path, controls=0)
    assert (verdict.status, verdict.cause, verdict.official) == (
        Status.UNRESOLVED,
        Cause.TAMPERED,
        Status.RESOLVED,
    ), verdict.reason
    assert "passes only by its log" in verdict.reason


async def test_a_reporter_that_is_found_on_the_stack_reports_altered_tests_as_passed(
    world: World, tmp_path: Path
) -> None:
    verdict = await verdict_on(world, "sympy", numbers_patch(WALKS_FRAMES), tmp_path)
    assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, Cause.TAMPERED), verdict.reason
    assert next(finding.code for finding in verdict.findings) == "control-passed"


@pytest.mark.parametrize(("manner", "program"), [("django", "tests/runtests.py"), ("sympy", "bin/test")])
async def test_a_replaced_test_program_is_restored(manner: str, program: str, world: World, tmp_path: Path) -> None:
    before = (world.repository / program).read_text()
    after = before.splitlines(keepends=True)[0] + PASSING_RUNTESTS.format(lines=printed_lines(manner))
    verdict = await verdict_on(world, manner, diff_of({program: (before, after)}), tmp_path)
    assert (verdict.status, verdict.cause, verdict.official) == (
        Status.UNRESOLVED,
        Cause.TAMPERED,
        Status.RESOLVED,
    ), verdict.reason


async def test_tests_that_are_edited_while_they_run_are_what_they_were(world: World, tmp_path: Path) -> None:
    edits = textwrap.dedent("""\
        from pathlib import Path

        for file in Path(__file__).parents[1].glob("tests/**/*.py"):
            try:
                file.write_text(file.read_text().replace("== 4", "== 3").replace("== 6", "== 4"))
            except OSError:
                pass
        """)
    verdict = await verdict_on(world, "pytest", numbers_patch(edits + EQUALS_EVERYTHING), tmp_path)
    assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, Cause.TAMPERED), verdict.reason


async def test_an_instance_is_validated_with_its_controls(world: World, tmp_path: Path) -> None:
    benchmark = world.benchmark(world.numbers_row("django"))
    (task,) = benchmark.tasks()
    context = GradingContext(provider=LocalProvider(), folder=tmp_path, options=GradeOptions(determinism_runs=1))
    health = await benchmark.validate(task, context)
    assert health.healthy, health.problems
    assert health.controls is not None
    assert (health.controls.controlled, health.controls.uncontrolled) == (5, ())
