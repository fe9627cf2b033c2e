import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from proctor.benchmarks.x07.files import PREDICTION_SCHEMA
from proctor.benchmarks.x07.format import X07Format
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData
from proctor.core.predictions import read_predictions
from proctor.core.submission import PatchKind
from proctor.results.formats import ExportOptions, ImportOptions, export_run, import_run
from stored_runs import small_run
from x07_schema import X07_REPORT
from x07_world import SUITES


@pytest.mark.parametrize(("data", "suite"), SUITES)
def test_a_report_of_x07_becomes_a_run_and_a_report_again(
    data: Callable[..., Path], suite: str, tmp_path: Path
) -> None:
    source = data("x07", f"report_{suite}_oracle.json")
    run = import_run(X07Format().read(source, ImportOptions()), root=tmp_path / "results")
    original = json.loads(source.read_text())
    config = run.config()
    assert (config.agent, config.benchmark, config.versions) == (
        *("oracle", original["suite"]["suite_id"]),
        {"x07": original["tool"]["version"]},
    )
    export_run(run, X07Format(), tmp_path / "again.json", ExportOptions())
    again = json.loads((tmp_path / "again.json").read_text())
    jsonschema.validate(again, X07_REPORT)
    for one, other in zip(original["instances"], again["instances"], strict=True):
        assert other == one
    for name in ("instances_total", "resolved", "unresolved", "errors", "skipped"):
        assert again["summary"][name] == original["summary"][name]


def test_a_run_of_ours_becomes_a_valid_report_and_a_run_again(tmp_path: Path) -> None:
    store = small_run(tmp_path / "results")
    exported = export_run(store, X07Format(), tmp_path / "report.json", ExportOptions(name="me"))
    assert exported.left_out[1:] == ("1 further trial of the same tasks: x07 has one",)
    document = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(document, X07_REPORT)
    assert {one["instance_id"]: (one["status"], one["model_name_or_path"]) for one in document["instances"]} == {
        "org/one": ("resolved", "me"),
        "three": ("error", "me"),
        "two": ("unresolved", "me"),
    }
    again = import_run(X07Format().read(tmp_path / "report.json", ImportOptions(agent="me")), root=tmp_path / "again")
    assert {usage.cost_usd for result in again.results() for usage in result.usage} == {None}
    assert {result.task_id: result.status for result in again.results()} == {
        "org/one": Status.RESOLVED,
        "three": Status.ERROR,
        "two": Status.UNRESOLVED,
    }
    assert again.result("three").cause is Cause.GRADER_FAILED
    assert again.config().agent == "me"


def test_a_document_that_is_not_a_report_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"schema_version": "x07.bench.report@0.1.0"}')
    with pytest.raises(InvalidData, match="missing required field"):
        X07Format().read(file, ImportOptions())


def test_predictions_read_back_byte_by_byte(tmp_path: Path) -> None:
    store = small_run(tmp_path / "results")
    patch_set = b'{"schema_version": "x",\n "patches": [1.0, "a\\nb"]}\n'
    odd = b"--- a/caf\xe9\r\n+++ b/x\n+\xff\tGIT binary patch"
    (store.logs("org/one", 1, 1) / "submission.diff").unlink()
    (store.logs("org/one", 1, 1) / "submission.patchset.json").write_bytes(patch_set)
    (store.logs("two", 1, 1) / "submission.diff").write_bytes(odd)
    (store.logs("three", 1, 1) / "submission.diff").unlink(missing_ok=True)
    target = tmp_path / "predictions.jsonl"
    exported = export_run(store, X07Format(), target, ExportOptions(name="me"))
    assert exported.left_out[2:] == ("three: no submission that can be graded again",)
    found = read_predictions(target, schemas=[PREDICTION_SCHEMA])
    assert found.keys() == {"org/one", "two"}
    assert (found["two"].patch_kind, found["two"].content, found["two"].model) == (PatchKind.UNIFIED_DIFF, odd, "me")
    assert found["org/one"].patch_kind is PatchKind.PATCH_SET
    assert found["org/one"].content == patch_set.strip().replace(b"\n", b" ")
    (store.logs("org/one", 1, 1) / "submission.patchset.json").write_text("no patch set")
    exported = export_run(store, X07Format(), target, ExportOptions(name="me"), replace=True)
    assert "org/one: no submission that can be graded again" in exported.left_out
