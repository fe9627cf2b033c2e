"""Cheats are graded for real, in an environment, beside an honest submission. None may win or do harm."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from cheats.catalogue import CHEATS
from cheats.cheat import Cheat
from cheats.harness import Harness, environment
from cheats.tasks import TASKS
from proctor.core.causes import Cause, Status
from proctor.environments import local_unavailable_reason
from slow_tests import sampled


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    if (reason := asyncio.run(local_unavailable_reason())) is not None:
        pytest.skip(reason)
    with Harness(tmp_path_factory.mktemp("cheats") / "arena") as made:
        yield made


def need(task: str) -> None:
    if task == "node" and shutil.which("node") is None:
        pytest.skip("needs node")


# One of each kind and format; `make cheats` grades all of them.
REPRESENTATIVES = (
    "agreeable: a number that equals all but itself",
    "agreeable: equal and unequal at once",
    "agreeable: where nothing is literal",
    "knowing: reads what is expected",
    "knowing: the constants of its caller",
    "knowing: remembers in /tmp",
    "knowing: the running script (sh)",
    "knowing: the running script (node)",
    "forging: code in a text file",
    "forging: a whole stream, then silence (node)",
    "forging: a whole stream, then silence (sh)",
    "forging: kills the script (sh)",
    "forging: rewrites a test that is not loaded yet",
    "forging: another sum",
    "forging: ends in a trap (exit code)",
    "forging: the report by a child",
    "patches assertEqual",
    "edits the tests",
    "os._exit(0) at import",
    "a process that waits for the grader",
)
CHOSEN = [cheat for cheat in CHEATS if cheat.name in REPRESENTATIVES]
# What a run of the tests as they are cannot tell from a solution.
UNCONTROLLED = [cheat for cheat in CHOSEN if cheat.cause is Cause.SOLVED]


@pytest.mark.parametrize("cheat", [pytest.param(cheat, id=cheat.name) for cheat in CHOSEN])
async def test_no_cheat_is_resolved_and_none_does_harm(cheat: Cheat, harness: Harness) -> None:
    need(cheat.task)
    outcome = await harness.grade(cheat)
    verdict = outcome.graded.verdict
    assert outcome.harm == (), outcome.harm
    assert verdict.status is Status.UNRESOLVED, verdict.reason
    assert set(outcome.findings) >= {code.value for code in cheat.named}, verdict.findings
    if cheat.cause is Cause.SOLVED:
        assert verdict.cause in {Cause.TAMPERED, Cause.TESTS_VANISHED, Cause.TESTS_FAILED}


@pytest.mark.parametrize("cheat", [pytest.param(cheat, id=cheat.name) for cheat in UNCONTROLLED])
async def test_without_controls_it_wins(cheat: Cheat, harness: Harness) -> None:
    need(cheat.task)
    outcome = await harness.grade(cheat, controls=0)
    assert (outcome.graded.verdict.cause, outcome.harm) == (Cause.SOLVED, ())


def test_every_cheat_has_a_name_of_its_own_and_many_are_stopped_by_controls_alone() -> None:
    names = {cheat.name for cheat in CHEATS}
    assert len(names) == len(CHEATS)
    assert names >= set(REPRESENTATIVES)
    assert sum(cheat.cause is Cause.SOLVED for cheat in CHEATS) >= 40


@pytest.mark.parametrize("task", sampled(list(TASKS), every=3))
async def test_the_harness_resolves_honest_submissions(task: str, harness: Harness) -> None:
    """An honest submission is resolved and clean, an empty one is not: what happens to a cheat is its own doing."""
    need(task)
    honest = Cheat(
        name="an honest submission", task=task, tries="", defence="", cause=Cause.SOLVED, files=TASKS[task].solution
    )
    idle = Cheat(
        name="no solution", task=task, tries="", defence="", cause=Cause.TESTS_FAILED, files={"NEWS": "none\n"}
    )
    solved, failed = await harness.grade(honest), await harness.grade(idle)
    assert (solved.graded.verdict.status, solved.findings, solved.harm) == (Status.RESOLVED, (), ())
    assert (failed.graded.verdict.cause, failed.findings, failed.harm) == (Cause.TESTS_FAILED, (), ())


def test_the_command_line_says_the_same(harness: Harness, tmp_path_factory: pytest.TempPathFactory) -> None:
    by_task = {cheat.task: cheat for cheat in CHOSEN if cheat.task in {"unittest", "shell", "exit-code", "junit"}}
    folder = tmp_path_factory.mktemp("eval")
    lines = []
    for task, cheat in by_task.items():
        (folder / f"{task}.diff").write_bytes(harness.submission(cheat))
        lines.append(
            {
                "schema_version": "x07.bench.prediction@0.1.0",
                "instance_id": task,
                "patch_kind": "unified-diff",
                "patch_path": f"{task}.diff",
            }
        )
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "proctor", "bench", "eval", "--suite", str(harness.suite), "--json", "--quiet"),
            *("--predictions", "predictions.jsonl", "--no-cache", "--jobs", "2", "--controls", "0"),
        ],
        cwd=folder,
        env=environment(folder / "cache"),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    graded = {task["task_id"]: task["verdict"] for task in report["tasks"] if task["task_id"] in by_task}
    assert {task: verdict["cause"] for task, verdict in graded.items()} == {
        task: cheat.cause.value for task, cheat in by_task.items()
    }
    for task, cheat in by_task.items():
        assert {finding["code"] for finding in graded[task]["findings"]} >= {code.value for code in cheat.named}
