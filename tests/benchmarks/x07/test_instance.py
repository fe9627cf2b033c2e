import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paths import sample_data, shared_data
from proctor.benchmarks.suites.benchmark import SuiteBenchmark
from proctor.benchmarks.suites.load import Suite, load_suite
from proctor.benchmarks.x07.files import suite_jcs_sha256
from proctor.benchmarks.x07.instance import X07Instance
from proctor.core.errors import InvalidData
from x07_world import SUITES


def document(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "x07.bench.instance@0.1.0",
        "instance_id": "one",
        "world": "solve-pure",
        "problem_statement_path": "issue.md",
        "repo_path": "repo",
        "eval": {"kind": "x07test", "manifest": "tests/tests.json"},
        **changes,
    }


def loaded(folder: Path, instance: dict[str, Any], suite: str = "proctor.suite@1", **defaults: Any) -> Suite:
    place = folder / "instances" / "one"
    (place / "repo").mkdir(parents=True)
    (place / "issue.md").write_text("Fix it.")
    (place / "instance.json").write_text(json.dumps(instance))
    refs = [{"id": "one", "path": "instances/one"}]
    head = {"schema_version": suite, "suite_id": "mine", "instances": refs, "defaults": defaults}
    (folder / "suite.json").write_text(json.dumps(head))
    return load_suite(folder)


@pytest.mark.parametrize(
    ("data", "name", "ids"),
    [
        pytest.param(sample_data, "tally_v0", ["tally_empty_0001", "tally_sum_0002"], id="our-sample"),
        pytest.param(shared_data, "core_v0", ["std_logic_0002", "std_math_0001"], id="real-sample"),
    ],
)
def test_x07s_own_suite_loads_as_it_is(data: Callable[..., Path], name: str, ids: list[str]) -> None:
    suite = load_suite(data("x07", name, "suite.json"))
    assert [instance.id for instance in suite.instances] == ids
    assert suite.invalid == ()
    report = json.loads(data("x07", f"report_{name}_oracle.json").read_bytes())
    assert suite_jcs_sha256(suite.file) == report["suite"]["suite_jcs_sha256_hex"]
    assert list(suite.instances[1].notes) == report["instances"][1]["notes"]


@pytest.mark.parametrize(("data", "suite"), SUITES)
def test_x07s_own_predictions_load(data: Callable[..., Path], suite: str) -> None:
    benchmark = SuiteBenchmark(load_suite(data("x07", suite, "suite.json")))
    predictions = benchmark.read_predictions(data("x07", suite, "predictions.oracle.jsonl"))
    assert len(predictions) == 2
    assert {prediction.model for prediction in predictions.values()} == {"oracle"}


@pytest.mark.parametrize("schema", ["proctor.instance@1", "x07.bench.instance@0.1.0"])
@pytest.mark.parametrize("suite", ["proctor.suite@1", "x07.bench.suite@0.1.0"])
def test_suites_of_either_kind_hold_instances_of_either_form(tmp_path: Path, suite: str, schema: str) -> None:
    (instance,) = loaded(tmp_path, document(schema_version=schema), suite).instances
    assert isinstance(instance, X07Instance)
    assert instance.file.world == "solve-pure"


def test_only_x07s_suites_have_a_default_world(tmp_path: Path) -> None:
    assert loaded(tmp_path / "x07", document(), "x07.bench.suite@0.1.0", world="solve-fs").instances
    with pytest.raises(InvalidData, match="world"):
        loaded(tmp_path / "ours", document(), world="solve-fs")


def test_a_bad_instance_is_kept_apart_with_its_problem(tmp_path: Path) -> None:
    bad = document(schema_version="proctor.instance@1", eval={"kind": "x07test", "manifest": "/abs"})
    suite = loaded(tmp_path, bad)
    assert suite.instances == ()
    assert [problem.path for problem in suite.invalid[0].problems] == ["$.eval.manifest"]


def test_x07s_leniency_about_ids_and_statements_is_kept_for_its_own_instances(tmp_path: Path) -> None:
    odd = {"instance_id": "other", "problem_statement_path": "nope.md"}
    (instance,) = loaded(tmp_path / "x07", document(**odd)).instances
    assert len(instance.notes) == 2
    assert instance.statement() == ""
    suite = loaded(tmp_path / "ours", document(schema_version="proctor.instance@1", **odd))
    assert [problem.path for problem in suite.invalid[0].problems] == ["$.instance_id", "$.problem_statement_path"]


def test_manifest_and_lock_file_are_protected(tmp_path: Path) -> None:
    (instance,) = loaded(tmp_path, document()).instances
    assert instance.protected == ("/tests/tests.json", "/stdlib.lock")
