from pathlib import Path

import pytest

from proctor.core.errors import UsageError
from proctor.report.run_index import RunIndex
from proctor.results import RunStore
from stored_runs import small_run


def test_the_index_has_every_run_the_latest_first_and_opens_no_other_folder(tmp_path: Path) -> None:
    first, second = small_run(tmp_path / "results"), small_run(tmp_path / "results")
    index = RunIndex(tmp_path / "results")
    assert set(index.names()) == {"toy/run-001", "toy/run-002"}
    small_run(tmp_path / "elsewhere")
    for name in ("toy/../../elsewhere/toy/run-001", "../elsewhere/toy", "toy/run-003", "", "/", "toy/"):
        with pytest.raises(UsageError, match="no run"):
            index.table(name)
    entry = index.entry("toy/run-001")
    assert entry.counts is not None
    assert (entry.counts.done, entry.running) == (4, False)
    (second.folder / "config.json").write_text("{")
    assert "this is not JSON" in index.entry("toy/run-002").problem
    assert RunIndex(tmp_path / "results", [first]).names() == ["toy/run-001"]


def test_two_chosen_runs_of_one_name_are_refused_and_one_run_twice_is_one(tmp_path: Path) -> None:
    first, second = small_run(tmp_path / "here"), small_run(tmp_path / "there")
    assert RunIndex(tmp_path, [first, RunStore(first.folder)]).names() == ["toy/run-001"]
    with pytest.raises(UsageError, match="two of these runs are called 'toy/run-001'"):
        RunIndex(tmp_path, [first, second])
