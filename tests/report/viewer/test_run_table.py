import time
from pathlib import Path

import msgspec
import pytest

from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.core.run import JournalEntry
from proctor.report import run_row
from proctor.report.viewer.run_index import RunIndex
from proctor.report.viewer.run_table import RunTable, TrialQuery
from proctor.results import RunStore, new_run
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
    assert (time.process_time() - started) / 3 < 0.15
