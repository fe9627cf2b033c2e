import os
import subprocess
import sys
from pathlib import Path

import pytest

from documents import checked
from proctor.cli.dispatch import dispatch
from proctor.core.causes import Cause
from proctor.core.files import file_lock
from proctor.core.record import to_json
from proctor.core.run import JournalEntry
from proctor.report.stored_runs import is_running
from proctor.results import RunStore, new_run
from proctor.results.run_lock import hold_runs, is_held_elsewhere
from stored_runs import finish, store_trial


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunStore:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path))
    store = new_run("toy", root=tmp_path)
    store_trial(store, "a", Cause.SOLVED, logs=False)
    finish(store, tasks=("a", "b"), name="nightly")
    return store


def test_a_run_is_watched_from_another_process_until_it_ends(store: RunStore) -> None:
    command = [sys.executable, "-u", "-m", "proctor", "bench", "watch", "nightly"]
    before = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*")}
    with (
        file_lock(store.folder / ".lock", what="it", wait_seconds=0),
        subprocess.Popen(command, env=dict(os.environ), stdout=subprocess.PIPE, text=True) as watching,
    ):
        assert watching.stdout is not None
        assert watching.stdout.readline() == "toy/run-001 (nightly): [1/2] a resolved\n"
        store_trial(store, "b", Cause.TESTS_FAILED, logs=False)
        with store.journal.open("ab") as journal:
            entry = JournalEntry(at="", task_id="b", trial=1, attempt=1, stage="recorded", cause=Cause.TESTS_FAILED)
            journal.write(to_json(entry).replace(b"\n", b"") + b"\n")
        assert watching.stdout.readline().startswith("toy/run-001 (nightly): [2/2] b unresolved: a test fails")
        assert watching.poll() is None
        after = {path: path.stat().st_mtime_ns for path in store.folder.rglob("*") if path in before}
        written = {path.name for path, time in after.items() if before[path] != time}
        assert written <= {"journal.jsonl", "trials"}
        os.utime(store.journal)
        (store.folder / ".lock").rename(store.folder / ".gone")  # the session has ended
        last = watching.stdout.read()
    assert last.startswith("toy/run-001 (nightly): finished, 2/2 done, 1 resolved, 50.0% (")
    assert watching.returncode == 0


def test_a_run_that_stopped_is_said_to_have(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["bench", "watch", "run-001", "--once"]) == 12
    assert "stopped, 1/2 done" in capsys.readouterr().out
    assert dispatch(["bench", "watch", "run-001", "--json"]) == 12
    (run,) = checked(capsys.readouterr().out)["runs"]
    assert (run["state"], run["done"], run["trials"]) == ("stopped", 1, 2)


def test_a_run_on_another_machine_is_seen_to_be_running(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    """No lock of it is in the list of this kernel: only its sign of life is in the folder that both share."""
    lock = store.folder / ".lock"
    lock.write_text("of another machine")
    assert dispatch(["bench", "watch", "run-001", "--once"]) == 0
    assert "running, 1/2 done" in capsys.readouterr().out
    os.utime(lock, (0, 0))  # it was killed long ago
    assert dispatch(["bench", "watch", "run-001", "--once"]) == 12
    assert "stopped, 1/2 done" in capsys.readouterr().out


async def test_a_session_shows_that_it_works_and_that_it_has_ended(store: RunStore) -> None:
    lock = store.folder / ".lock"
    async with hold_runs([store]):
        assert lock.read_bytes()
        assert not is_held_elsewhere(store)  # it is on this machine, whose kernel knows better
        assert is_running(store)
    assert lock.read_bytes() == b""
    assert not is_running(store)


def test_of_what_ended_long_ago_the_last_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = new_run("toy", root=tmp_path / "many")
    for number in range(30):
        store_trial(store, f"task-{number:02}", Cause.SOLVED, logs=False)
    finish(store)
    assert dispatch(["bench", "watch", "run-001", "--results", str(tmp_path / "many")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("toy/run-001: 10 earlier trials")
    assert lines[1:-1] == [f"toy/run-001: [{number + 1}/30] task-{number:02} resolved" for number in range(10, 30)]
