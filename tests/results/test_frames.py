import csv
import json
import os
import sys
from pathlib import Path

import pytest

from paths import REPOSITORY
from proctor import load_results
from proctor.cli.dispatch import dispatch
from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.results import RunStore, new_run
from proctor.results.attempt_record import RECORDING_FILE
from stored_runs import finish, store_trial

polars = pytest.importorskip("polars")
CALL = {
    "kind": "exchange",
    "number": 1,
    "conversation": "main",
    "role": "main",
    "agent": "lead",
    "at": "2026-01-02T03:04:06Z",
    "request": {"model": "sonnet", "stream": True, "add": []},
    "response": {"status": 200, "headers": {}, "ms": 1500},
    "usage": [{"model": "claude-sonnet-5", "tokens": {"input": 10, "output": 5, "cache_write_5m": 2}}],
    "cost_usd": 0.125,
}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    store = new_run("toy", root=tmp_path)
    store_trial(store, "a", Cause.SOLVED)
    store_trial(store, "b", Cause.TESTS_FAILED)
    store_trial(store, "c", Cause.PROVIDER_ERROR)
    lines = [json.dumps({"kind": "cassette"}), json.dumps(CALL), json.dumps({**CALL, "number": 2}), '{"kind": "exch']
    (store.logs("a", 1, 1) / RECORDING_FILE).write_text("\n".join(lines))
    finish(store, name="nightly")
    return store


def test_there_is_a_row_for_each_trial_test_and_model_call(store: RunStore) -> None:
    made = load_results(store.folder)
    trials = made.to_frame()
    assert trials["task"].to_list() == ["a", "b", "c"]
    assert trials["name"].to_list() == ["nightly"] * 3
    assert trials.filter("counted")["resolved"].to_list() == [True, False]
    assert trials["cost_usd"].sum() == pytest.approx(0.75)
    tests = made.to_frame("tests")
    assert tests.rows_by_key("task")["a"][0][-4:] == ("t::a", "failed", "passed", True)
    assert len(tests) == 4
    calls = made.to_frame("model_calls")
    assert calls["number"].to_list() == [1, 2]
    assert calls.row(0, named=True)["seconds"] == 1.5
    assert (calls["cost_usd"].sum(), calls["cache_write_tokens"].sum()) == (0.25, 4)


def test_requests_of_a_trial_without_a_result_are_there_too(store: RunStore) -> None:
    """Of a run that was stopped: they were paid for."""
    for attempt in (1, 2):
        logs = store.logs("d", 1, attempt)
        logs.mkdir(parents=True)
        (logs / RECORDING_FILE).write_text(json.dumps(CALL))
    finish(store, tasks=("a", "b", "c", "d"))
    calls = load_results(store.folder).to_frame("model_calls")
    assert calls.filter(polars.col("task") == "d")["attempt"].to_list() == [1, 2]
    assert calls["cost_usd"].sum() == 0.5
    assert len(load_results(store.folder).to_frame()) == 3


@pytest.mark.parametrize("rows", ["trials", "tests", "model_calls"])
def test_pandas_has_the_same_as_polars(store: RunStore, rows: str) -> None:
    pandas = pytest.importorskip("pandas")
    made = load_results(store.folder)
    ours, theirs = made.to_frame(rows), made.to_frame(rows, library="pandas")  # type: ignore[arg-type]
    assert list(theirs.columns) == ours.columns
    plain = [[None if pandas.isna(value) else value for value in row] for row in theirs.itertuples(index=False)]
    assert plain == [list(row) for row in ours.rows()]


def test_a_run_without_results_has_all_columns(tmp_path: Path) -> None:
    store = new_run("toy", root=tmp_path)
    finish(store, tasks=("a",))
    for rows in ("trials", "tests", "model_calls"):
        frame = load_results(store.folder).to_frame(rows)
        assert frame.height == 0
        assert frame.schema["trial"] == polars.Int64


def test_rows_that_are_mistyped_are_named(store: RunStore) -> None:
    with pytest.raises(UsageError, match="did you mean 'tests'"):
        load_results(store.folder).to_frame("test")  # type: ignore[arg-type]


def test_csv_and_parquet_are_exported(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROCTOR_RESULTS", str(tmp_path))
    for form in ("csv", "parquet"):
        assert dispatch(["bench", "export", "nightly", "--format", form, "--out", str(tmp_path / form)]) == 0
    rows = list(csv.DictReader((tmp_path / "csv/trials.csv").read_text().splitlines()))
    frame = polars.read_parquet(tmp_path / "parquet/trials.parquet")
    assert [row["status"] for row in rows] == frame["status"].to_list() == ["resolved", "unresolved", "error"]
    assert polars.read_parquet(tmp_path / "parquet/model_calls.parquet").height == 2
    assert len((tmp_path / "csv/tests.csv").read_text().splitlines()) == 5


def test_the_notebook_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    kernels = tmp_path / "jupyter/kernels/python3"
    kernels.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernels / "kernel.json").write_text(json.dumps({"argv": command, "display_name": "it", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    notebook = nbformat.read(REPOSITORY / "docs/data-frames.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    said = "".join(output.get("text", "") for output in printed)
    assert said == "core-mini/run-001 0 of 4\ncore-mini/run-002 4 of 4\n"
    assert not any(output["output_type"] == "error" for output in printed)
