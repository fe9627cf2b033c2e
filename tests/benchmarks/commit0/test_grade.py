"""A library of our own, from stubs to oracle, in real environments. Its packages come from the package index."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.commit0.world import NAME, ORACLE, STUBS, TASK, make_origin
from cli_world import CliWorld
from proctor.benchmarks.commit0.benchmark import Commit0
from proctor.benchmarks.commit0.source import SOURCE
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import Cause, Status
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.submission import PatchKind
from proctor.core.task import DirectorySource, Task
from proctor.core.verdict import TestStatus
from proctor.environments import local_unavailable_reason, provider
from proctor.workspaces import base_of, make_submission

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # packages are installed, from wherever pip takes them
GOOD_SUMS = {"src/abacus/sums.py": ORACLE["src/abacus/sums.py"]}


@dataclass(frozen=True)
class World:
    folder: Path
    source: Commit0
    context: GradingContext

    @property
    def task(self) -> Task:
        return next(iter(self.source.tasks()))

    def patch(self, files: dict[str, str]) -> bytes:
        """The diff that an agent makes that writes these files."""
        library = self.source._libraries[TASK]
        tree = self.folder / "agent"
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(library.stub_tree(), tree)
        for name, text in files.items():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(text)
        return make_submission(base_of(DirectorySource(path=str(library.stub_tree()))), tree).patch

    async def graded(self, files: dict[str, str]) -> TaskEvaluation:
        return await self.submit(self.patch(files))

    async def submit(self, patch: bytes) -> TaskEvaluation:
        prediction = Prediction(task_id=TASK, patch_kind=PatchKind.UNIFIED_DIFF, content=patch)
        return await self.source.grade(self.task, prediction, self.context)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    reason = asyncio.run(local_unavailable_reason())
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("commit0")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        asyncio.run(SOURCE.fetch("all", make_origin(folder / "origin"), lambda _: None))
        opened = SOURCE.open("all")
        assert isinstance(opened, Commit0)
        environments = provider("local")
        yield World(
            folder,
            opened.for_provider(environments),
            GradingContext(provider=environments, folder=folder / "grading", options=GradeOptions()),
        )


async def test_from_stubs_to_the_oracle_both_scores_and_all_columns(world: World) -> None:
    oracle = world.source.oracle(world.task)
    assert oracle is not None
    verdict = (await world.submit(oracle.content)).verdict
    # Of 7 listed tests the oracle passes 4, one fails as expected, one is skipped, and one is never there. The stubs
    # pass the one that wants nothing, and fail as expected.
    assert verdict.scores["oracle"] == pytest.approx(5 / 7, abs=1e-6)
    assert verdict.scores["stub"] == pytest.approx(2 / 7, abs=1e-6)
    assert [verdict.scores["strict"], verdict.score] == pytest.approx([5 / 7, 5 / 7], abs=1e-6)
    assert verdict.scores["gain"] == pytest.approx(3 / 7, abs=1e-6)
    # The official rule has one test too many, and does not count the one that fails as expected.
    assert verdict.scores["official"] == pytest.approx(4 / 8)
    assert (verdict.status, verdict.cause, verdict.official) == (Status.RESOLVED, Cause.SOLVED, Status.UNRESOLVED)
    assert 0.5 < verdict.scores["coverage"] <= 1
    assert verdict.scores["ruff_findings"] == 0
    assert verdict.findings == ()
    assert {test.after for test in verdict.tests} == {
        *(TestStatus.PASSED, TestStatus.XFAILED, TestStatus.SKIPPED, TestStatus.MISSING)
    }


async def test_half_a_library_has_half_the_gain(world: World) -> None:
    verdict = (
        await world.graded({**GOOD_SUMS, "src/abacus/columns.py": "import os\n" + STUBS["src/abacus/columns.py"]})
    ).verdict
    assert (verdict.status, verdict.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)
    assert verdict.scores["strict"] == pytest.approx(4 / 7, abs=1e-6)
    assert verdict.scores["gain"] == pytest.approx(2 / 7, abs=1e-6)
    assert verdict.scores["official"] == pytest.approx(3 / 8)
    assert verdict.scores["ruff_findings"] >= 1  # an import that nobody uses


async def test_nothing_done_is_what_the_stubs_have_and_a_broken_patch_nothing(world: World) -> None:
    nothing = (await world.submit(b"")).verdict
    assert (nothing.cause, nothing.scores["gain"]) == (Cause.EMPTY, 0)
    assert nothing.score == pytest.approx(2 / 7)
    broken = (await world.submit(b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")).verdict
    assert (broken.cause, broken.score) == (Cause.DOES_NOT_APPLY, 0)


async def test_tests_that_were_rewritten_win_the_official_score_and_not_ours(world: World) -> None:
    names = ("total", "mean", "nothing_has_no_mean", "thirds", "elsewhere")
    easy = "import pytest\n" + "".join(f"def test_{name}():\n    pass\n" for name in names)
    easy += "@pytest.mark.parametrize('rows', [[1]])\ndef test_names(rows):\n    pass\n"
    verdict = (await world.graded({"tests/test_abacus.py": easy})).verdict
    assert verdict.scores["official"] == pytest.approx(6 / 8)
    assert verdict.official is Status.RESOLVED
    assert verdict.scores["gain"] == 0
    assert verdict.status is Status.UNRESOLVED
    assert "protected-path" in {finding.code for finding in verdict.findings}


async def test_a_report_forged_by_a_plugin_wins_the_official_score_and_not_ours(world: World) -> None:
    forger = """
import json
import pytest

def pytest_json_modifyreport(json_report):
    for test in json_report["tests"]:
        test["call"] = {"outcome": "passed"}

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = "passed"
"""
    verdict = (await world.graded({"conftest.py": forger})).verdict
    assert verdict.scores["official"] == pytest.approx(6 / 8)
    assert verdict.scores["gain"] == 0


async def test_a_library_cannot_expect_its_own_failure(world: World) -> None:
    excused = 'import pytest\ndef total(column):\n    pytest.xfail("later")\nmean = total\n'
    verdict = (await world.graded({"src/abacus/sums.py": excused})).verdict
    assert verdict.scores["strict"] == pytest.approx(1 / 7, abs=1e-6)  # the test that is expected to fail, and does
    assert verdict.status is Status.UNRESOLVED


async def test_a_library_whose_values_equal_everything_has_nothing(world: World) -> None:
    source = """
class Any(float):
    def __eq__(self, other):
        return self is not other

    __hash__ = float.__hash__


def total(column):
    return Any(0)


def mean(column):
    return Any(0) if column else None
"""
    verdict = (await world.graded({"src/abacus/sums.py": source})).verdict
    assert (verdict.status, verdict.cause, verdict.score) == (Status.UNRESOLVED, Cause.TAMPERED, 0.0), verdict.reason
    assert "control-passed" in {finding.code for finding in verdict.findings}


async def test_a_library_that_ends_the_tests_has_nothing(world: World) -> None:
    verdict = (await world.graded({"src/abacus/sums.py": "import os\nos._exit(0)\n"})).verdict
    assert (verdict.scores["strict"], verdict.scores["official"]) == (0, 0)
    assert verdict.reason.startswith("no test counts")


async def test_the_library_proves_sound_and_nothing_of_it_leaks(world: World) -> None:
    health = await world.source.validate(world.task, world.context)
    assert health.healthy, health
    assert (health.pre_patch_ok, health.oracle_ok, health.determinism_ok, health.leaks) == (True, True, True, ())


async def test_an_agent_finds_no_past_no_package_and_no_network(world: World, tmp_path: Path) -> None:
    """It has the tests, the specification, and a Python that runs them; the oracle is nowhere."""
    spec = await world.source.prepare(world.task, tmp_path)
    script = r"""
    git log --all --format=%s; git fsck --unreachable 2>/dev/null
    cat spec.pdf.bz2; echo
    pytest -q tests 2>&1 | tail -1
    python -m pip --version >/dev/null 2>&1 && echo pip
    python -c 'from urllib.request import urlopen; urlopen("https://x.org", timeout=2)' 2>/dev/null && echo network
    find / -path /proc -prune -o -name sums.py -print 2>/dev/null
    touch /venv/mine 2>/dev/null && echo writable
    """
    async with await world.context.provider.start(spec) as environment:
        done = await environment.exec(["sh", "-c", script])
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "base"
    assert lines[1] == "the documentation"
    assert "3 failed, 1 passed, 1 skipped, 1 xfailed" in lines[2]
    assert lines[3:] == ["/testbed/src/abacus/sums.py"]


async def test_oracle_and_nop_through_the_command_line(world: World, tmp_path: Path) -> None:
    cli_world = CliWorld(tmp_path)
    given = ("bench", "run", "commit0", "--split", "all", "--json", "--agent")
    cache = world.folder / "cache"
    oracle = await cli_world.run(*given, "oracle", XDG_CACHE_HOME=cache)
    assert (oracle.code, oracle.json["resolved"]) == (0, 1), oracle
    nop = await cli_world.run(*given, "nop", XDG_CACHE_HOME=cache)
    assert (nop.code, nop.json["unresolved"]) == (0, 1), nop
    cli_world.close()
    scores = [
        result.verdict.score
        for run in (1, 2)
        for result in cli_world.store(f"commit0/run-00{run}").results()
        if result.verdict
    ]
    assert scores == pytest.approx([5 / 7, 2 / 7])
    assert NAME in TASK
