"""Runs that version 1 stored, before fields, files and folders were renamed (tests/samples/stored_v1).

The samples are what that version wrote: a run of the oracle with two trials of each task, runs of Claude Code and of a
command with a scripted model, and a sweep. The numbers are what its own reports said about them.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proctor.benchmarks.suites.load import load_suite
from proctor.core.evaluation import EvaluationReport
from proctor.core.record import read_record
from proctor.core.upgrades import holds_older_record
from proctor.results import RunStore, SweepStore, find_run, read_journal
from suite_world import make_instance, make_suite, proctor
from viewing import viewer

SAMPLES = Path(__file__).parents[1] / "samples/stored_v1"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A folder with the stored results, and the suite that they are of."""
    for name in ("add", "sum_total"):
        make_instance(tmp_path / "suite", name)
    suite = load_suite(make_suite(tmp_path / "suite", "add", "sum_total"))
    (tmp_path / "script.yaml").write_text("default: {steps: [{text: This would be paid for twice.}]}")
    shutil.copytree(SAMPLES / "results", tmp_path / "results")
    for file in [*tmp_path.glob("results/mine/*/config.json"), *tmp_path.glob("results/mine/*/sweep.json")]:
        file.write_text(
            file.read_text()
            .replace("/v1/", f"{tmp_path}/")
            .replace("1aad854d183864d178f6c0ce21f097d239e478f984a5a940bc70063f47e04b31", suite.digest())
        )
    return tmp_path


def _json(folder: Path, *arguments: str) -> Any:
    done = proctor(folder, *arguments, "--json")
    assert done.code == 0, done.stderr
    return json.loads(done.stdout)


def _undo(run: Path, *stages: str) -> None:
    """Make a run one that was killed before these stages of its last trial."""
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    last = json.loads(lines[-1])
    kept = [
        line
        for line in lines
        if (entry := json.loads(line))["stage"] not in stages
        or (entry["task_id"], entry["sample"]) != (last["task_id"], last["sample"])
    ]
    (run / "journal.jsonl").write_text("".join(kept))
    name = last["task_id"] + (f"~{last['sample']}" if last["sample"] > 1 else "")
    (run / "tasks" / f"{name}.json").unlink()
    (run / "summary.json").unlink()
    if "graded" in stages:
        (run / "logs" / name / "attempt-1" / "graded.json").unlink()


def test_every_sample_is_of_an_older_version() -> None:
    files = [path for path in SAMPLES.rglob("*.json") if path.name not in {"outcome.json", "told.json"}]
    assert len(files) > 30
    assert all(holds_older_record(file.read_bytes()) for file in files)


def test_a_report_has_the_same_numbers(world: Path) -> None:
    runs = _json(world, "bench", "report", "mine")["runs"]
    assert [(run["resolved"], run["counted"], run["total_usd"], run["tokens"]) for run in runs] == [
        (4, 4, 0.0, 0),
        (1, 2, 0.148587, 48467),
        (0, 2, 0.008125, 7095),
        (0, 1, 0.0, 0),
        (1, 1, 0.0, 0),
    ]
    assert [run["avg_seconds"] for run in runs] == [pytest.approx(0.02125), 0.8575, 0.069, None, 0.026]
    assert [run["active_share"] for run in runs] == [None, pytest.approx(0.21380768463124872), None, None, None]
    assert (runs[1]["low"], runs[1]["high"]) == pytest.approx((0.09453120573423074, 0.9054687942657693))


def test_a_comparison_has_the_same_numbers(world: Path) -> None:
    (held,) = _json(world, "bench", "compare", "mine/run-001", "mine/run-002")["comparisons"]
    found = held["comparison"]
    assert (found["first"]["trials"], found["second"]["trials"], found["common"]) == (4, 2, 2)
    assert (found["gained"], found["lost"], found["p_value"]) == ([], ["sum_total"], 1.0)
    assert found["cost"]["second"] == pytest.approx(0.0742935)


def test_a_run_and_its_trials_are_shown(world: Path) -> None:
    shown = _json(world, "bench", "show", "mine/run-001")
    assert sorted((one["task_id"], one["trial"], one["status"]) for one in shown["tasks"]) == [
        ("add", 1, "resolved"),
        ("add", 2, "resolved"),
        ("sum_total", 1, "resolved"),
        ("sum_total", 2, "resolved"),
    ]
    assert (shown["config"]["trials"], shown["config"]["schema_version"]) == (2, "proctor.run_config@3")
    one = proctor(world, "bench", "show", "mine/run-001", "add", "--trial", "2")
    assert one.code == 0, one.stderr
    assert "resolved (solved)" in one.stdout
    assert find_run("run-002", root=world / "results").config().agent_options.append_system_prompt == "Be brief."


def test_a_journal_is_read(world: Path) -> None:
    entries = list(read_journal(find_run("run-001", root=world / "results").journal))
    assert {(entry.task_id, entry.trial) for entry in entries if entry.stage == "recorded"} == {
        ("add", 1),
        ("add", 2),
        ("sum_total", 1),
        ("sum_total", 2),
    }


@pytest.mark.parametrize("name", ["atif", "harbor", "x07"])
def test_a_run_is_exported(world: Path, name: str) -> None:
    made = _json(world, "bench", "export", "mine/run-002", "--format", name, "--out", "out.json")
    assert made["files"] > 0


async def test_the_viewer_shows_a_run(world: Path) -> None:
    async def get(path: str) -> str:
        async with http.get(address + path) as response:
            assert response.status == 200
            return await response.text()

    async with viewer(world / "results") as address, aiohttp.ClientSession() as http:
        runs = await get("/")
        assert all(f"run-00{number}" in runs for number in range(1, 6))
        assert "$0.15" in await get("/run/mine/run-002")
        task = await get("/run/mine/run-002/task?task=add")
        assert ("I look at the files." in task, "return a+b" in task) == (True, True)
        assert "resolved" in await get("/run/mine/run-001/task?task=add&trial=2")


@pytest.mark.parametrize("stages", [("recorded",), ("graded", "recorded")])
@pytest.mark.parametrize("run", ["run-001", "run-003"])
def test_a_run_is_resumed_in_place_and_pays_nothing_twice(world: Path, run: str, stages: tuple[str, ...]) -> None:
    store = RunStore(world / "results/mine" / run)
    before = {(one.task_id, one.trial): one for one in store.results()}
    _undo(store.folder, *stages)
    done = proctor(world, "bench", "resume", f"mine/{run}")
    assert done.code == 0, done.stderr
    after = {(one.task_id, one.trial): one for one in store.results()}
    assert {key: (one.status, one.cause, one.usage, one.agent_seconds) for key, one in after.items()} == {
        key: (one.status, one.cause, one.usage, one.agent_seconds) for key, one in before.items()
    }
    assert not (store.folder / "trials").exists()
    assert not list(store.folder.rglob("attempt-2"))


def test_a_trial_that_is_missing_is_made_where_version_1_looked_for_it(world: Path) -> None:
    store = RunStore(world / "results/mine/run-001")
    _undo(store.folder, "prepared", "collected", "graded", "recorded")
    done = proctor(world, "bench", "resume", "mine/run-001")
    assert done.code == 0, done.stderr
    assert len(list((store.folder / "tasks").glob("*~2.json"))) == 2
    assert store.result("sum_total", 2).status == "resolved"


def test_a_sweep_is_resumed_and_compared(world: Path) -> None:
    sweep = SweepStore(world / "results/mine/sweep-001")
    assert sweep.sweep().reference == "none"
    done = proctor(world, "bench", "resume", "mine/sweep-001")
    assert done.code == 0, done.stderr
    assert "(1 gained, 0 lost of 1 common task; p = 1.000, McNemar's exact test)" in done.stdout


def test_a_report_of_an_evaluation_is_read(tmp_path: Path) -> None:
    report = read_record(SAMPLES / "report.json", EvaluationReport)
    assert [one.pre_patch.failed for one in report.tasks if one.pre_patch] == [1, 1]
    assert [one.post_patch.passed for one in report.tasks if one.post_patch] == [2, 2]
    done = proctor(tmp_path, "bench", "score", SAMPLES / "report.json", "--json")
    assert json.loads(done.stdout)["resolved"]["total"] == 2
