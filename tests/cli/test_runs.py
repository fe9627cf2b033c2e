import json
import os
import pty
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from documents import checked
from proctor.cli.dispatch import dispatch
from proctor.core.causes import Cause
from proctor.core.files import file_lock
from proctor.core.record import to_json
from proctor.core.run import RunConfig
from proctor.core.sweep import Sweep, SweepRun
from proctor.results import RunStore, find_run, new_run, new_sweep
from stored_runs import config, finish, store_trial


def make_run(root: Path, benchmark: str = "toy", *causes: Cause, **changes: Any) -> RunStore:
    store = new_run(benchmark, root=root)
    for number, cause in enumerate(causes or (Cause.SOLVED,)):
        store_trial(store, f"task-{number}", cause, logs=False)
    finish(store, benchmark=benchmark, **changes)
    return store


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path


def listed(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    capsys.readouterr()
    assert dispatch(["runs", *options, "--json"]) == 0
    return [run["run"] for run in checked(capsys.readouterr().out)["runs"]]


def test_runs_of_all_benchmarks_are_listed_the_newest_first(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(results, "toy", Cause.SOLVED, Cause.TESTS_FAILED, created_at="2026-01-01T00:00:00+00:00", name="nightly")
    make_run(results, "other", created_at="2026-01-03T00:00:00+00:00", agent="nop", model=None, note="a note")
    assert listed(capsys) == ["other/run-001", "toy/run-001"]
    assert dispatch(["runs"]) == 0
    said = capsys.readouterr()
    newest, oldest = said.out.splitlines()[1:]
    assert newest.split()[:5] == ["other/run-001", "finished", "nop", "-", "1/1"]
    assert newest.endswith("a note")
    assert oldest.startswith("toy/run-001 (nightly)   finished   claude_code   claude-sonnet-4-5   1/2        50.0%")
    assert "$0.50" in oldest
    assert said.err == f"2 runs, $0.75, in {results}\n"


def test_runs_are_filtered_and_sorted(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(results, "toy", Cause.TESTS_FAILED, run_tags={"purpose": "release"})
    make_run(results, "toy", Cause.SOLVED, agent="codex", model="gpt-5.5", run_tags={"purpose": "trial"})
    make_run(results, "other", Cause.SOLVED, Cause.TESTS_FAILED, tasks=("task-0", "task-1", "task-2"))
    assert listed(capsys, "toy", "--sort", "run") == ["toy/run-001", "toy/run-002"]
    assert listed(capsys, "--agent", "codex") == ["toy/run-002"]
    assert listed(capsys, "--model", "GPT") == ["toy/run-002"]
    assert listed(capsys, "--tag", "purpose", "--sort", "run") == ["toy/run-001", "toy/run-002"]
    assert listed(capsys, "--tag", "purpose=trial") == ["toy/run-002"]
    assert listed(capsys, "--state", "stopped") == ["other/run-001"]
    assert listed(capsys, "--search", "codex trial") == ["toy/run-002"]
    assert listed(capsys, "--sort", "rate") == ["toy/run-002", "other/run-001", "toy/run-001"]
    assert listed(capsys, "--sort", "rate", "--reverse", "--limit", "1") == ["toy/run-001"]


def test_a_benchmark_or_command_that_is_mistyped_is_named(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(results)
    assert dispatch(["runs", "tooy"]) == 2
    assert capsys.readouterr().err.endswith("there are no runs of 'tooy'; did you mean 'toy'?\n")
    assert dispatch(["runs", "delet", "run-001"]) == 2
    assert "did you mean 'delete'?" in capsys.readouterr().err
    assert dispatch(["bench", "show", "run-01"]) == 2
    assert "there is no run 'run-01'; did you mean 'run-001'?" in capsys.readouterr().err


def test_a_run_is_renamed_tagged_and_annotated(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_run(results)
    assert dispatch(["runs", "rename", "run-001", "my run"]) == 0
    assert dispatch(["runs", "tag", "my run", "a=1", "b=2"]) == 0
    assert dispatch(["runs", "tag", "toy/my run", "--remove", "a"]) == 0
    assert dispatch(["runs", "note", "my run", "what it was for"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "toy/run-001: my run",
        "toy/run-001: a=1 b=2",
        "toy/run-001: b=2",
        "toy/run-001: what it was for",
    ]
    stored = store.config()
    assert (stored.name, stored.run_tags, stored.note) == ("my run", {"b": "2"}, "what it was for")
    assert dispatch(["bench", "show", "my run"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("toy/run-001 (my run): baseline")
    assert dispatch(["runs", "rename", "my run", "--clear"]) == 0
    assert store.config().name is None


def test_a_run_is_named_when_it_is_started(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--name", "first", "--tag", "a=1", "--tag", "b=2", "--note", "why", "--limit", "1"]
    command = [sys.executable, "-m", "proctor", "bench", "run", "core-mini", "--agent", "nop", "--isolation", "off"]
    env = {**os.environ, "PROCTOR_RESULTS": str(results)}
    subprocess.run([*command, *options], env=env, capture_output=True, check=True)
    assert dispatch(["runs", "--json", "--tag", "b=2"]) == 0
    (run,) = checked(capsys.readouterr().out)["runs"]
    assert (run["name"], run["tags"], run["note"]) == ("first", {"a": "1", "b": "2"}, "why")
    refused = subprocess.run([*command, "--tag", "smoke"], env=env, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr) == (
        2,
        "proctor: --tag must be of the form NAME=VALUE (a tag of the run; --task-tag selects tasks), not 'smoke'\n",
    )


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("run-007", "look like the id of a run"),
        ("a/b", "slash"),
        ("-x", "begin with"),
        ("", "one line"),
        ("x" * 101, "100 characters"),
    ],
)
def test_an_ambiguous_run_name_is_refused(
    results: Path, capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    make_run(results)
    assert dispatch(["runs", "rename", "run-001", "--", name]) == 2
    assert why in capsys.readouterr().err


def test_a_name_that_two_runs_have_is_ambiguous(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(results, name="same")
    make_run(results, name="same")
    assert dispatch(["bench", "show", "same"]) == 2
    sentence = "proctor: several runs are called 'same'; say which: toy/run-001, toy/run-002\n"
    assert capsys.readouterr().err == sentence


def test_an_archived_run_is_left_out_of_lists_and_reports(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(results)
    make_run(results)
    assert dispatch(["runs", "archive", "run-001"]) == 0
    assert listed(capsys) == ["toy/run-002"]
    assert listed(capsys, "--archived", "--sort", "run") == ["toy/run-001", "toy/run-002"]
    assert dispatch(["bench", "report", "toy", "--json"]) == 0
    said = capsys.readouterr()
    assert [run["run_id"] for run in json.loads(said.out)["runs"]] == ["run-002"]
    assert "1 archived run is left out" in said.err
    assert dispatch(["runs", "archive", "run-001", "--undo"]) == 0
    assert len(listed(capsys)) == 2


def test_deleting_says_what_it_cost_and_needs_a_yes(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_run(results, "toy", Cause.SOLVED, Cause.SOLVED, name="old")
    env = {**os.environ, "PROCTOR_RESULTS": str(results)}
    command = [sys.executable, "-m", "proctor", "runs", "delete", "old"]
    done = subprocess.run(command, env=env, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "toy/run-001 (old): 2 results, which cost $0.50" in done.stderr
    assert store.folder.is_dir()
    assert dispatch(["runs", "delete", "old", "--yes"]) == 0
    assert not store.folder.exists()
    assert listed(capsys) == []


def test_on_a_terminal_deleting_asks_first(results: Path) -> None:
    store = make_run(results, "toy", Cause.SOLVED, name="old")
    assert answer("old", "n") == ["toy/run-001 (old): 1 result, which cost $0.25", "nothing is deleted"]
    assert store.folder.is_dir()
    assert answer("old", "y")[-1] == "deleted toy/run-001"
    assert not store.folder.exists()


def answer(run: str, reply: str) -> list[str]:
    """What `runs delete` prints on a terminal whose user replies to its question."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "proctor", "runs", "delete", run]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as job:
        os.close(theirs)
        seen = b""
        while b"permanently?" not in seen:
            seen += os.read(ours, 4096)
        os.write(ours, f"{reply}\n".encode())
        with suppress(OSError):  # how a terminal whose program has ended says so
            while data := os.read(ours, 4096):
                seen += data
        assert job.wait() == 0
    os.close(ours)
    return [line for line in seen.decode().replace("\r", "").split("\n") if line and "permanently?" not in line]


def test_what_cannot_all_be_deleted_is_not_deleted_in_part(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stores = [make_run(results, "toy", Cause.SOLVED) for _ in range(3)]
    with file_lock(stores[1].folder / ".lock", what="it", wait_seconds=0):
        assert dispatch(["runs", "delete", "run-001", "run-002", "--yes"]) == 12
    assert dispatch(["runs", "delete", "run-001", "run-009", "--yes"]) == 2
    assert dispatch(["runs", "archive", "run-001", "run-009"]) == 2
    assert all(store.folder.is_dir() and not store.config().archived for store in stores)
    (stores[2].folder / "config.json").write_text("{")
    capsys.readouterr()
    assert dispatch(["runs", "delete", "run-001", "toy/run-001", "run-003", "--yes"]) == 0  # one twice, one unreadable
    printed = capsys.readouterr()
    assert printed.out == "deleted toy/run-001\ndeleted toy/run-003\n"
    assert "2 runs, which cost $0.25, and what is not known" in printed.err
    assert listed(capsys) == ["toy/run-002"]


def test_a_filter_that_is_mistyped_is_named(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(results, agent="codex")
    assert dispatch(["runs", "--agent", "codx"]) == 2
    assert "did you mean 'codex'?" in capsys.readouterr().err
    assert dispatch(["runs", "--sweep", "sweep-001"]) == 2
    assert "no run is part of a sweep 'sweep-001'" in capsys.readouterr().err
    assert listed(capsys, "--agent", "nop") == []  # an agent that has no run yet
    assert dispatch(["runs", "--results", str(results / "nowhere")]) == 0
    assert "nowhere, which is not there" in capsys.readouterr().err


def test_a_running_run_is_not_deleted(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = make_run(results)
    with file_lock(store.folder / ".lock", what="it", wait_seconds=0):
        assert dispatch(["runs", "delete", "run-001", "--yes"]) == 12
        assert "run toy/run-001 is in use by another command" in capsys.readouterr().err
        assert listed(capsys, "--state", "running") == ["toy/run-001"]
    assert store.config().run_id == "run-001"


def test_a_sweep_is_archived_and_deleted_as_one_and_its_labels_are_names(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [SweepRun(label=label, config=config(run_id="")) for label in ("model=a", "model=b")]
    sweep = Sweep(
        sweep_id="",
        name="ab",
        benchmark="toy",
        file="",
        runs=tuple(made),
        reference="model=a",
        rule=None,
        created_at="2026-01-01T00:00:00+00:00",
    )
    store = new_sweep(sweep, root=results)
    store.runs()
    assert find_run("sweep-001/model=b").run_id == find_run("model=b").run_id == "run-002"
    assert listed(capsys, "--sweep", "sweep-001", "--sort", "run") == ["toy/run-001", "toy/run-002"]
    assert dispatch(["runs", "delete", "model=b", "--yes"]) == 2
    assert "is part of toy/sweep-001" in capsys.readouterr().err
    assert dispatch(["runs", "delete", "sweep-001", "--yes"]) == 0
    assert [path.name for path in (results / "toy").iterdir()] == []


def test_results_can_be_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path / "there", name="nightly")
    for command in (["runs"], ["bench", "report", "toy"], ["bench", "show", "nightly"], ["runs", "tag", "nightly"]):
        assert dispatch([*command, "--results", str(tmp_path / "there")]) == 0
        assert "run-001" in capsys.readouterr().out
    assert dispatch(["bench", "show", "nightly"]) == 2


def test_an_unreadable_run_costs_itself_only(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(results)
    broken = make_run(results)
    (broken.folder / "config.json").write_text("{")
    assert dispatch(["runs", "--sort", "run"]) == 0
    said = capsys.readouterr()
    assert [line.split()[1] for line in said.out.splitlines()[1:]] == ["finished", "unreadable"]
    assert "toy/run-002 cannot be read: " in said.err


def test_several_trials_of_a_task_are_listed_from_the_summary_as_they_are_reported(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = new_run("toy", root=results)
    for task, trial, cause in (("a", 1, Cause.SOLVED), ("a", 2, Cause.SOLVED), ("b", 1, Cause.TESTS_FAILED)):
        store_trial(store, task, cause, trial=trial, logs=False)
    finish(store)
    (store.folder / "trials").rename(store.folder / "trials-away")  # the list must not need them
    assert dispatch(["runs", "--json"]) == 0
    (run,) = checked(capsys.readouterr().out)["runs"]
    (store.folder / "trials-away").rename(store.folder / "trials")
    assert dispatch(["bench", "report", "toy", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["runs"]
    assert [run[name] for name in ("rate", "low", "high")] == [row[name] for name in ("rate", "low", "high")]
    assert (run["state"], run["done"], run["trials"]) == ("stopped", 3, 4)


def test_four_thousand_runs_are_listed_in_no_time_and_linearly(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def copies(benchmark: str, number: int) -> None:
        store = make_run(results, benchmark, *[Cause.SOLVED] * 5)
        tasks = tuple(f"some__repository-{number:05}" for number in range(100))
        made: RunConfig = msgspec.structs.replace(store.config(), tasks=(*store.config().tasks, *tasks))
        files = {name: (store.folder / name).read_bytes() for name in ("journal.jsonl", "summary.json")}
        for index in range(2, number + 1):
            folder = store.folder.parent / f"run-{index:03}"
            folder.mkdir()
            (folder / "config.json").write_bytes(to_json(made))
            for name, content in files.items():
                (folder / name).write_bytes(content)

    def seconds(benchmark: str) -> float:
        start = time.process_time()
        assert dispatch(["runs", benchmark, "--limit", "1"]) == 0
        return time.process_time() - start

    copies("few", 400)
    few = seconds("few")
    copies("many", 3600)
    many = seconds("many")
    assert len(listed(capsys, "--sort", "run")) == 4000
    assert many < 20 * few  # ten times as many
    assert many < 10  # CPU time, on a machine that is busy


def test_imported_runs_are_marked_in_every_report(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for origin, name in (("harbor", "theirs"), (None, "ours")):
        store = new_run("toy", root=results)
        store_trial(store, "a", Cause.SOLVED, logs=False, categories={"language": "go"})
        store_trial(store, "b", Cause.TESTS_FAILED, logs=False, categories={"language": "c"})
        finish(store, origin=origin, name=name)
    for words in (["report", "toy"], ["pareto", "toy"], ["breakdown", "theirs"], ["compare", "ours", "theirs"]):
        assert dispatch(["bench", *words]) == 0
        assert "run-001 (theirs) is imported from harbor: its verdicts were made there." in capsys.readouterr().out
    assert dispatch(["runs", "--search", "theirs"]) == 0
    assert "finished, imported" in capsys.readouterr().out
