import json
import os
from pathlib import Path

import msgspec
import pytest

from observations import task_result
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.result import Attempt, TaskResult
from proctor.results import RunStore, find_run, read_journal
from proctor.results.formats import (
    ExportOptions,
    ExportResult,
    ExternalRun,
    ExternalTrial,
    Format,
    ImportOptions,
    count_files,
    export_run,
    external_config,
    find_format,
    import_run,
)


def outcome(task: str, trial: int = 1, cause: Cause = Cause.SOLVED) -> TaskResult:
    attempt = Attempt(number=1, started_at="a", ended_at="b", cause=cause, detail="", logs="elsewhere")
    return task_result(task, cause, run_id="", benchmark="theirs", trial=trial, attempts=(attempt,), usage=())


class Lines(Format):
    """A format with one line per trial."""

    about = "lines"
    suffix = ".txt"

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        lines = [f"{result.task_id} {result.trial} {result.status}" for result in run.results()]
        if options.name == "broken":
            target.write_text("half")
            raise UsageError("it broke")
        target.write_text("\n".join(lines))
        return ExportResult(files=count_files(target))

    def read(self, source: Path, options: ImportOptions) -> ExternalRun:
        config = external_config(benchmark=options.benchmark or "theirs", origin=str(source), agent="them")
        rows = [line.split() for line in source.read_text().splitlines()]
        trials = (
            ExternalTrial(
                outcome(task, int(trial), Cause.SOLVED if status == "resolved" else Cause.TESTS_FAILED),
                {"original/line.txt": f"{task} {status}".encode()},
            )
            for task, trial, status in rows
        )
        return ExternalRun(config, trials)


@pytest.fixture
def stored(tmp_path: Path) -> RunStore:
    source = tmp_path / "theirs.txt"
    source.write_text("a/b 1 resolved\na/b 2 unresolved\nc 1 unresolved")
    return import_run(Lines().read(source, ImportOptions()), root=tmp_path / "results")


def test_an_imported_run_is_a_run_like_any_other(stored: RunStore, tmp_path: Path) -> None:
    config = find_run("theirs/run-001", root=tmp_path / "results").config()
    assert (config.run_id, config.tasks, config.trials) == ("run-001", ("a/b", "c"), 2)
    assert config.origin == str(tmp_path / "theirs.txt")
    assert stored.result("a/b", 2).status is Status.UNRESOLVED
    assert stored.result("c").run_id == "run-001"
    logs = stored.folder / stored.result("c").attempts[0].logs
    assert (logs / "original" / "line.txt").read_text() == "c unresolved"
    assert {(entry.task_id, entry.trial, entry.stage) for entry in read_journal(stored.journal)} == {
        ("a/b", 1, "recorded"),
        ("a/b", 2, "recorded"),
        ("c", 1, "recorded"),
    }
    summary = json.loads((stored.folder / "summary.json").read_text())
    assert (summary["resolved"], summary["unresolved"]) == (1, 2)


def test_an_export_reads_back_equal(stored: RunStore, tmp_path: Path) -> None:
    export_run(stored, Lines(), tmp_path / "ours.txt", ExportOptions())
    again = import_run(Lines().read(tmp_path / "ours.txt", ImportOptions()), root=tmp_path / "results")
    assert again.run_id == "run-002"
    assert [msgspec.structs.replace(result, run_id="") for result in again.results()] == [
        msgspec.structs.replace(result, run_id="") for result in stored.results()
    ]


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", ""])
def test_an_import_writes_nothing_outside_its_run(tmp_path: Path, name: str) -> None:
    config = external_config(benchmark="theirs", origin="x", agent="them")
    with pytest.raises(InvalidData, match="not a path below the logs"):
        import_run(ExternalRun(config, [ExternalTrial(outcome("a"), {name: b"evil"})]), root=tmp_path / "results")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert list((tmp_path / "results" / "theirs").iterdir()) == []


def test_two_results_of_one_trial_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    config = external_config(benchmark="theirs", origin="x", agent="them")
    with pytest.raises(InvalidData, match="occurs twice"):
        import_run(ExternalRun(config, [ExternalTrial(outcome("a")), ExternalTrial(outcome("a"))]), root=tmp_path)
    assert list((tmp_path / "theirs").iterdir()) == []


def test_an_export_is_whole_or_not_there(stored: RunStore, tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with pytest.raises(UsageError, match="broke"):
        export_run(stored, Lines(), target, ExportOptions(name="broken"))
    assert not target.exists()
    target.write_text("mine")
    with pytest.raises(UsageError, match="--force"):
        export_run(stored, Lines(), target, ExportOptions())
    with pytest.raises(UsageError, match="broke"):
        export_run(stored, Lines(), target, ExportOptions(name="broken"), replace=True)
    assert target.read_text() == "mine"
    export_run(stored, Lines(), target, ExportOptions(), replace=True)
    assert target.read_text().startswith("a/b 1 resolved")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.txt", "results", "theirs.txt"]


class LinesFolder(Lines):
    """A format of a folder with one file."""

    suffix = ""

    def export(self, run: RunStore, target: Path, options: ExportOptions) -> ExportResult:
        target.mkdir()
        return super().export(run, target / "lines.txt", options)


def test_force_writes_over_the_last_export_and_over_nothing_else(stored: RunStore, tmp_path: Path) -> None:
    target = tmp_path / "out"
    for _ in range(2):
        export_run(stored, LinesFolder(), target, ExportOptions(), replace=True)
    assert [file.name for file in target.iterdir()] == ["lines.txt"]
    (target / "thesis.txt").write_text("mine")
    with pytest.raises(
        UsageError, match=r"it contains thesis\.txt, which is not part of the export; remove it yourself"
    ):
        export_run(stored, LinesFolder(), target, ExportOptions(), replace=True)
    assert (target / "thesis.txt").read_text() == "mine"
    with pytest.raises(UsageError, match="not an earlier export"):
        export_run(stored, Lines(), target, ExportOptions(), replace=True)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for form in (Lines(), LinesFolder()):
        with pytest.raises(UsageError, match="not an earlier export"):
            export_run(stored, form, pipe, ExportOptions(), replace=True)
    assert pipe.is_fifo()
    assert not list(tmp_path.glob(".export-*"))


def test_an_export_to_where_nothing_can_be_written_is_refused(stored: RunStore) -> None:
    with pytest.raises(UsageError, match="nothing can be written there"):
        export_run(stored, Lines(), Path("/proc/out.txt"), ExportOptions())


def test_a_format_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no format 'nonsense'"):
        find_format("nonsense")
