import time
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import pytest

from processor_time import is_within
from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.core.files import file_lock
from proctor.core.result import ModelUsage, Tokens
from proctor.core.run import JournalEntry
from proctor.gateway.model_call import Role
from proctor.gateway.prices import Usage
from proctor.gateway.recording import RecordedMark
from proctor.report import run_row
from proctor.report.run_index import RunIndex
from proctor.report.run_table import RunTable, TrialQuery
from proctor.report.trajectories import read_trajectory
from proctor.results import RunStore, new_run
from recorded import record_single
from stored_runs import finish, small_run, store_trial


@pytest.fixture
def table(tmp_path: Path) -> RunTable:
    made = RunTable(small_run(tmp_path))
    assert made.refresh()
    return made


def names(table: RunTable, **query: object) -> list[str]:
    return [row.name for row in table.find(TrialQuery(**query)).rows]  # type: ignore[arg-type]


def test_every_trial_is_a_row_and_they_add_up(table: RunTable) -> None:
    assert names(table) == ["org/one", "org/one #2", "three", "three #2", "two", "two #2"]
    counts = table.counts()
    assert (counts.total, counts.done, counts.pending) == (6, 4, 2)
    assert (counts.resolved, counts.unresolved, counts.errors, counts.counted) == (1, 2, 1, 3)
    assert counts.cost_usd == pytest.approx(1.0)
    assert counts.rate == pytest.approx(1 / 3)
    assert counts.low is not None
    assert 0 < counts.low < 1 / 3


def test_the_interval_of_several_trials_of_each_task_is_the_reports(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    for task, cause in (("a", Cause.SOLVED), ("b", Cause.TESTS_FAILED), ("c", Cause.SOLVED), ("d", Cause.TESTS_FAILED)):
        for trial in (1, 2, 3):
            store_trial(store, task, cause, trial=trial, logs=False)
    reported = run_row(finish(store), store.results())
    assert (reported.resolved, reported.counted) == (6, 12)
    listed = RunIndex(tmp_path).entry("toy/run-001").counts
    shown = RunIndex(tmp_path).table("toy/run-001").counts()
    for counts in (listed, shown):
        assert counts is not None
        assert (counts.low, counts.high) == (reported.low, reported.high)


def test_rows_are_searched_filtered_and_sorted(table: RunTable) -> None:
    assert names(table, text="ORG passes") == ["org/one"]
    assert names(table, text="provider") == ["three"]
    assert names(table, text="org nonsense") == []
    assert names(table, status="unresolved") == ["org/one #2", "two"]
    assert names(table, status="live") == ["three #2", "two #2"]
    assert names(table, cause="provider_error") == ["three"]
    assert names(table, findings=True) == ["two"]
    assert names(table, category="language=python", status="resolved") == ["org/one"]
    assert names(table, category="language=go") == []
    assert names(table, sort="status")[0] == "three"
    assert names(table, descending=True)[0] == "two #2"


def test_pages_hold_all_rows_once_and_a_page_out_of_range_is_the_last(table: RunTable) -> None:
    pages = [table.find(TrialQuery(page=number), page_size=4) for number in (1, 2)]
    assert [len(page.rows) for page in pages] == [4, 2]
    assert table.find(TrialQuery(page=99), page_size=4).rows == pages[1].rows
    assert table.find(TrialQuery(text="nothing fits", page=3)).pages == 1


def session(store: RunStore) -> AbstractContextManager[object]:
    """A session that works on a run holds its lock."""
    return file_lock(store.folder / ".lock", what="it", wait_seconds=0)


def append(store: RunStore, task: str, stage: str, attempt: int = 1, *, torn: bool = False) -> None:
    entry = JournalEntry(at="now", task_id=task, trial=1, attempt=attempt, stage=stage)  # type: ignore[arg-type]
    line = msgspec.json.encode(entry)
    with store.journal.open("ab") as file:
        file.write(line[:20] if torn else line + b"\n")


def test_a_running_run_is_followed_and_only_what_is_new_is_read(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    finish(store, tasks=("a", "b"))
    table = RunTable(store)
    table.refresh()
    assert [row.status for row in table.all()] == ["pending", "pending"]
    assert not table.refresh()
    statuses: list[str] = []
    with session(store):
        for stage in ("prepared", "answered", "prepared", "collected", "graded"):
            append(store, "a", stage, attempt=1 if len(statuses) < 2 else 2)
            assert table.refresh()
            statuses.append(table.row("a", 1).status)
        assert statuses == ["solving", "retrying", "solving", "grading", "recording"]
        store_trial(store, "a", Cause.SOLVED)
        append(store, "a", "recorded", attempt=2, torn=True)
        assert not table.refresh()
        with store.journal.open("rb+") as file:
            file.truncate(file.seek(0, 2) - 20)
        append(store, "a", "recorded", attempt=2)
        assert table.refresh()
        assert table.row("a", 1).status == "resolved"
        assert table.row("b", 1).status == "pending"
        # A new journal in its place is read from the start.
        store.journal.unlink()
        append(store, "b", "prepared")
        assert table.refresh()
        assert [row.status for row in table.all()] == ["pending", "solving"]


def test_a_run_that_was_stopped_has_no_trial_that_is_shown_as_running(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    finish(store, tasks=("a", "b", "c"))
    append(store, "a", "prepared")
    append(store, "b", "collected")
    table = RunTable(store)
    with session(store):
        table.refresh()
        assert (table.running, table.counts().running, table.counts().pending) == (True, 2, 1)
        assert [row.status for row in table.all()] == ["solving", "grading", "pending"]
    assert table.refresh()
    assert (table.running, table.counts().running, table.counts().pending) == (False, 0, 3)
    assert [row.status for row in table.all()] == ["stopped", "stopped", "pending"]
    assert all(row.live for row in table.all())
    assert names(table, status="live") == ["a", "b", "c"]
    assert not table.refresh()
    with session(store):
        assert table.refresh()
        assert table.row("a", 1).status == "solving"


async def test_what_an_unfinished_trial_has_used_is_read_while_its_recording_grows(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    store_trial(store, "done")
    finish(store, tasks=("done", "live"))
    (whole := tmp_path / "whole.jsonl").touch()
    await record_single(whole, "live", ask="Do it.")
    lines = whole.read_bytes().splitlines(keepends=True)
    recording = store.logs("live", 1, 1) / "cassette.jsonl"
    recording.parent.mkdir(parents=True)
    append(store, "live", "prepared")
    table = RunTable(store)
    totals: list[tuple[int, float | None]] = []
    with session(store), recording.open("ab") as file:
        table.refresh()
        assert (table.counts().cost_usd, table.counts().tokens) == (0.25, 438)
        for line in lines:
            file.write(line[:9])  # a line that is being written is not read
            file.flush()
            table.refresh()
            file.write(line[9:])
            file.flush()
            table.refresh()
            row = table.row("live", 1)
            totals.append((row.tokens, row.cost_usd))
        assert not table.refresh()
    distinct = list(dict.fromkeys(totals))
    assert [tokens for tokens, _ in distinct] == [0, 160, 320, 488]
    trajectory = read_trajectory(recording.parent, task_id="live", agent="x")
    assert trajectory is not None
    assert distinct[-1][0] == trajectory.totals.tokens.total
    assert distinct[-1][1] == pytest.approx(trajectory.totals.cost_usd)
    table.refresh()
    assert table.counts().tokens == 438 + 488
    assert table.counts().cost_usd == pytest.approx(0.25 + (trajectory.totals.cost_usd or 0))
    assert table.counts().estimated_usd == 0


async def test_a_request_without_a_response_is_an_estimate_once_its_session_has_ended(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    finish(store, tasks=("live",))
    (whole := tmp_path / "whole.jsonl").touch()
    await record_single(whole, "live", ask="Do it.")
    header = whole.read_bytes().splitlines(keepends=True)[0]
    used = Usage(model="claude-sonnet-4-5", tokens=Tokens(input=1000, output=256), estimated=True)
    mark = RecordedMark(number=1, conversation="main", role=Role.MAIN, agent="", at="", usage=(used,), cost_usd=0.5)
    recording = store.logs("live", 1, 1) / "cassette.jsonl"
    recording.parent.mkdir(parents=True)
    recording.write_bytes(header + msgspec.json.encode(mark) + b"\n")
    append(store, "live", "prepared")
    table = RunTable(store)
    with session(store):
        table.refresh()
        assert (table.row("live", 1).cost_usd, table.counts().estimated_usd) == (0, 0)
    table.refresh()
    assert (table.row("live", 1).tokens, table.row("live", 1).cost_usd) == (1256, 0.5)
    assert (table.counts().cost_usd, table.counts().estimated_usd) == (0.5, 0.5)


def test_the_estimated_part_of_a_cost_is_that_of_the_results_and_of_the_summary(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    broken = ModelUsage(
        model="m", requests=2, tokens=Tokens(input=9), cost_usd=0.4, estimated_requests=1, estimated_usd=0.1
    )
    store_trial(store, "a", usage=(broken,))
    store_trial(store, "b")
    finish(store)
    table = RunTable(store)
    table.refresh()
    assert (table.row("a", 1).estimated_usd, table.row("b", 1).estimated_usd) == (0.1, 0)
    assert table.counts().estimated_usd == 0.1
    entry = RunIndex(tmp_path).entry("toy/run-001")
    assert entry.counts is not None
    assert (entry.counts.cost_usd, entry.counts.estimated_usd) == (0.65, 0.1)


def test_a_run_without_a_journal_is_read_from_its_results(tmp_path: Path) -> None:
    store = small_run(tmp_path)
    store.journal.unlink()
    table = RunTable(store)
    table.refresh()
    assert table.counts().done == 4


def test_an_unreadable_result_is_a_row_with_the_reason(tmp_path: Path) -> None:
    store = small_run(tmp_path)
    store.result_file("two", 1).write_text("{")
    table = RunTable(store)
    table.refresh()
    assert "cannot be read" in table.row("two", 1).reason
    with pytest.raises(UsageError, match="no task 'nobody'"):
        table.row("nobody", 1)


def test_ten_thousand_tasks_are_searched_without_a_pause(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    store_trial(store, "task-00000", logs=False)
    template = store.result_file("task-00000", 1).read_bytes()
    tasks = tuple(f"task-{number:05}" for number in range(10_000))
    for task in tasks[1:]:
        store.result_file(task, 1).write_bytes(template.replace(b"task-00000", task.encode()))
    entries = (
        JournalEntry(at="", task_id=task, trial=1, attempt=1, stage="recorded", cause=Cause.SOLVED) for task in tasks
    )
    store.journal.write_bytes(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
    config = small_run(tmp_path / "other").config()
    store.write_config(msgspec.structs.replace(config, run_id=store.run_id, tasks=tasks, trials=1))
    table = RunTable(store)
    table.refresh()
    assert table.counts().resolved == 10_000
    started = time.process_time()
    for query in (
        TrialQuery(text="task-09999"),
        TrialQuery(text="solved 77", sort="cost", descending=True),
        TrialQuery(page=50),
    ):
        assert table.find(query).total
    assert not table.refresh()
    assert is_within((time.process_time() - started) / 3, 0.15)
