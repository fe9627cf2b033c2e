"""Predictions and results in the four official forms, both ways; other harnesses' verdicts beside ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from observations import task_result
from proctor.benchmarks.data import published_results
from proctor.benchmarks.swe.harness_reports import (
    SweOutcome,
    read_outcomes,
    to_evo_report,
    to_feature_report,
    to_pro_report,
    to_swebench_report,
)
from proctor.benchmarks.swe.parity import compare
from proctor.benchmarks.swe.predictions import (
    SwePrediction,
    first_attempts,
    read_swe_predictions,
    to_evo,
    to_featurebench,
    to_pro,
    to_swebench,
)
from proctor.core.causes import Cause, Status
from proctor.core.errors import InvalidData, UsageError
from proctor.core.evaluation import TaskEvaluation
from proctor.core.result import Attempt
from proctor.core.verdict import TestOutcome, TestStatus, Verdict
from proctor.report import run_row
from proctor.report.comparison import compare_runs
from proctor.report.pareto import pareto_of_runs
from proctor.results import RunStore, new_run, summarise
from proctor.results.formats import ExportOptions, ImportOptions, export_run, find_format, import_run
from stored_runs import DIFF, config

ODD = "diff --git a/café b/café\n+x\r\n+\ttab"
PREDICTIONS = [
    SwePrediction(instance_id="a", model_patch=DIFF, model="m"),
    SwePrediction(instance_id="b", model_patch=ODD, model="m"),
    SwePrediction(instance_id="c", model_patch="", model="m"),
]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("p.jsonl", to_swebench(PREDICTIONS, model="m")),
        ("p.json", to_pro(PREDICTIONS, prefix="m")),
        ("preds.json", to_evo(PREDICTIONS, model="m")),
        ("output.jsonl", to_featurebench(PREDICTIONS, model="m")),
    ],
)
def test_every_form_of_predictions_reads_back_with_its_line_end(name: str, data: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    patches = {prediction.instance_id: prediction.model_patch for prediction in read_swe_predictions(tmp_path / name)}
    assert patches == {"a": DIFF, "b": ODD + "\n", "c": ""}


def test_predictions_are_read_from_the_forms_of_agents_too(tmp_path: Path) -> None:
    hands = tmp_path / "output.jsonl"
    hands.write_text(json.dumps({"instance_id": "a", "test_result": {"git_patch": DIFF}}) + "\n\n")
    assert read_swe_predictions(hands)[0].model_patch == DIFF
    both = tmp_path / "p.json"
    both.write_text(json.dumps([{"instance_id": "a", "patch": "no", "model_patch": DIFF, "prefix": "x"}]))
    assert (read_swe_predictions(both)[0].model_patch, read_swe_predictions(both)[0].prefix) == (DIFF, "x")
    none = tmp_path / "n.jsonl"
    none.write_text('{"instance_id": "a", "model_patch": null}')
    assert read_swe_predictions(none)[0].prediction.content == b""


def test_bad_predictions_are_reported_all_at_once(tmp_path: Path) -> None:
    file = tmp_path / "p.jsonl"
    file.write_text('{"instance_id": "a"}\nnonsense\n{"model_patch": ""}\n[1]\n{"instance_id": "a", "patch": 7}\n')
    with pytest.raises(UsageError, match="5 bad predictions") as caught:
        read_swe_predictions(file)
    assert [line.partition(": ")[0].rpartition(":")[2] for line in caught.value.details] == ["1", "2", "3", "4", "5"]
    with pytest.raises(UsageError, match="cannot read"):
        read_swe_predictions(tmp_path / "missing.jsonl")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(UsageError, match="not JSON"):
        read_swe_predictions(tmp_path / "broken.json")


def test_of_several_attempts_the_first_is_graded(tmp_path: Path) -> None:
    later = SwePrediction(instance_id="a", model_patch="later", n_attempt=2)
    assert first_attempts([later, *PREDICTIONS], tmp_path)["a"].content == DIFF.encode()
    with pytest.raises(UsageError, match="a has two predictions"):
        first_attempts([*PREDICTIONS, PREDICTIONS[0]], tmp_path)


OUTCOMES = [
    SweOutcome(instance_id="a", resolved=True, cause=Cause.SOLVED, score=1.0),
    SweOutcome(instance_id="b", resolved=False, cause=Cause.TESTS_FAILED, score=0.5),
    SweOutcome(instance_id="c", resolved=False, cause=Cause.EMPTY, score=0.0),
    SweOutcome(instance_id="d", resolved=False, cause=Cause.DOES_NOT_APPLY, score=0.0),
]
TOTAL = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("write", [to_swebench_report, to_pro_report, to_evo_report, to_feature_report])
def test_every_report_reads_back(write: Any, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(write(OUTCOMES, total=TOTAL))
    found = {outcome.instance_id: outcome.resolved for outcome in read_outcomes(tmp_path / "report.json")}
    assert {identity: found[identity] for identity in "abcd"} == {"a": True, "b": False, "c": False, "d": False}


def test_the_denominator_is_all_tasks() -> None:
    report = json.loads(to_swebench_report(OUTCOMES, total=TOTAL))
    assert (report["total_instances"], report["submitted_instances"]) == (5, 4)
    assert (report["incomplete_ids"], report["error_ids"], report["empty_patch_ids"]) == (["e"], ["d"], ["c"])
    assert json.loads(to_pro_report(OUTCOMES, total=TOTAL))["e"] is False
    evo = json.loads(to_evo_report(OUTCOMES, total=TOTAL))
    assert (evo["resolved_rate"], evo["fix_rate"]) == (0.2, 0.3)
    feature = json.loads(to_feature_report(OUTCOMES, total=TOTAL))["attempt_1"]
    assert (feature["resolved_rate"], feature["pass_rate"]) == (0.2, 0.3)


def test_a_folder_of_instances_reports_is_read(tmp_path: Path) -> None:
    said = {"patch_is_None": False, "patch_exists": True, "patch_successfully_applied": True, "resolved": True}
    tests = {"FAIL_TO_PASS": {"success": ["t"], "failure": []}, "PASS_TO_PASS": {"success": [], "failure": ["u"]}}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "report.json").write_text(json.dumps({"a": said | {"tests_status": tests}}))
    outcome = read_outcomes(tmp_path)[0]
    assert (outcome.resolved, outcome.tests) == (True, {"t": True, "u": False})
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no report\.json"):
        read_outcomes(tmp_path / "empty")
    (tmp_path / "x.json").write_text('{"something": 1}')
    with pytest.raises(InvalidData, match="not a report"):
        read_outcomes(tmp_path / "x.json")


def _evaluated(identity: str, status: Status, *, official: Status | None = None, **more: Any) -> TaskEvaluation:
    verdict = Verdict(
        task_id=identity, status=status, cause=Cause.TESTS_FAILED, reason="because", official=official, **more
    )
    return TaskEvaluation(task_id=identity, verdict=verdict, artifacts="/logs")


def test_disagreements_come_with_their_evidence_and_are_about_the_official_rule() -> None:
    theirs = [
        SweOutcome(instance_id="same", resolved=True, cause=Cause.SOLVED),
        SweOutcome(instance_id="cheat", resolved=True, cause=Cause.SOLVED),
        SweOutcome(
            instance_id="differs", resolved=True, cause=Cause.SOLVED, tests={"t": True, "u": True, "elsewhere": True}
        ),
        SweOutcome(instance_id="broken", resolved=True, cause=Cause.SOLVED),
        SweOutcome(instance_id="unknown", resolved=True, cause=Cause.SOLVED),
    ]
    tests = tuple(
        TestOutcome(id=name, before=None, after=after)
        for name, after in (("t", TestStatus.FAILED), ("u", TestStatus.PASSED))
    )
    ours = {
        "same": _evaluated("same", Status.RESOLVED),
        "cheat": _evaluated("cheat", Status.UNRESOLVED, official=Status.RESOLVED),
        "differs": _evaluated("differs", Status.UNRESOLVED, tests=tests),
        "broken": _evaluated("broken", Status.ERROR),
    }
    parity = compare("x", theirs, ours)
    assert (parity.compared, parity.agreed, parity.only_theirs) == (3, 2, ("unknown",))
    assert parity.errors == {"broken": "because"}
    (one,) = parity.disagreements
    assert (one.task_id, one.ours, one.theirs, one.evidence, one.tests, one.artifacts) == (
        "differs",
        Status.UNRESOLVED,
        Status.RESOLVED,
        "because",
        ("t",),
        "/logs",
    )


def _stored(root: Path) -> RunStore:
    """A run of two trials: one resolved, one that only the official rule calls so."""
    store = new_run("swe_bench_verified", root=root)
    results = []
    for identity, status, official in (("a", Status.RESOLVED, None), ("b", Status.UNRESOLVED, Status.RESOLVED)):
        cause = Cause.SOLVED if status is Status.RESOLVED else Cause.TAMPERED
        logs = store.logs(identity, 1, 1)
        logs.mkdir(parents=True)
        (logs / "submission.diff").write_text(DIFF)
        where = logs.relative_to(store.folder).as_posix()
        attempt = Attempt(number=1, started_at="", ended_at="", cause=Cause.ANSWERED, detail="", logs=where)
        verdict = Verdict(task_id=identity, status=status, cause=cause, reason="", official=official, score=0.5)
        results.append(
            task_result(
                identity,
                cause,
                run_id=store.run_id,
                benchmark="swe_bench_verified",
                verdict=verdict,
                attempts=(attempt,),
                usage=(),
            )
        )
        store.write_result(results[-1])
    made = config(run_id=store.run_id, benchmark="swe_bench_verified", tasks=("a", "b", "c"))
    store.write_summary(summarise(made, results))
    store.write_config(made)
    return store


@pytest.mark.parametrize("form", ["swebench", "swebench-pro", "swe-evo", "featurebench"])
def test_a_run_is_exported_as_the_official_rule_has_it_and_comes_back(form: str, tmp_path: Path) -> None:
    run = _stored(tmp_path / "results")
    exported = export_run(run, find_format(form), tmp_path / "out", ExportOptions(name="me"))
    assert exported.files == len(list((tmp_path / "out").iterdir())) == 2
    imported = find_format(form).read(tmp_path / "out", ImportOptions(agent="me"))
    store = import_run(imported, root=tmp_path / "imported")
    results = {result.task_id: result for result in store.results()}
    assert {identity: results[identity].status for identity in "ab"} == {"a": Status.RESOLVED, "b": Status.RESOLVED}
    kept = store.folder / results["a"].attempts[-1].logs / "submission.diff"
    assert kept.read_text() == DIFF
    row = run_row(store.config(), store.results())
    assert (row.avg_cost_usd, row.avg_seconds) == (None, None)  # nobody has said, so nobody has beaten anybody


def test_unknown_costs_of_an_imported_run_are_not_compared(tmp_path: Path) -> None:
    run = _stored(tmp_path / "results")
    export_run(run, find_format("swebench"), tmp_path / "out", ExportOptions())
    theirs = import_run(find_format("swebench").read(tmp_path / "out", ImportOptions()), root=tmp_path / "results")
    ours, imported = pareto_of_runs([run, theirs], ("rate", "cost", "seconds"))
    assert (ours.on_frontier, imported.on_frontier) == (True, None)
    _, (held,) = compare_runs([run, theirs])
    assert (held.comparison.cost, held.comparison.seconds) == (None, None)


@pytest.mark.parametrize("name", ["predictions.jsonl", "preds.json"])
def test_into_a_file_go_the_predictions_alone(name: str, tmp_path: Path) -> None:
    run = _stored(tmp_path / "results")
    form = "swebench" if name.endswith("l") else "swe-evo"
    exported = export_run(run, find_format(form), tmp_path / name, ExportOptions(name="me"))
    assert exported.files == 1
    assert {prediction.instance_id: prediction.model_patch for prediction in read_swe_predictions(tmp_path / name)} == {
        "a": DIFF,
        "b": DIFF,
    }


def test_a_patch_that_json_cannot_carry_is_named(tmp_path: Path) -> None:
    run = _stored(tmp_path / "results")
    (run.logs("b", 1, 1) / "submission.diff").write_bytes(DIFF.encode() + b"+caf\xe9\n")
    exported = export_run(run, find_format("swebench"), tmp_path / "p.jsonl", ExportOptions())
    assert exported.left_out == (
        "1 trial that the run has not recorded",
        "b: bytes of its patch that are not UTF-8; JSON has them escaped, and it may not apply",
    )


def test_a_resolved_task_without_test_counts_has_rate_1() -> None:
    outcomes = [
        SweOutcome(instance_id="a", resolved=True, cause=Cause.SOLVED),
        SweOutcome(instance_id="b", resolved=False, cause=Cause.TESTS_FAILED),
    ]
    assert json.loads(to_evo_report(outcomes, total="ab"))["fix_rate"] == 0.5
    assert json.loads(to_feature_report(outcomes, total="ab"))["attempt_1"]["pass_rates"] == {"a": 1.0, "b": 0.0}


def test_published_results_have_scaffold_date_and_source() -> None:
    for name, splits in (
        ("swe_bench_verified", {"verified", "lite", "full"}),
        ("swe_bench_pro", {"public", "commercial"}),
        ("swe_evo", {"test"}),
        ("ace_bench", {"full", "fast", "lite", "ace-bench 212"}),
    ):
        rows = published_results(name)
        assert {row.split for row in rows} == splits
        assert all(row.agent and row.model and row.date and row.source for row in rows)
        assert all(row.rate is not None and 0 <= row.rate <= 1 for row in rows)
    known = {row.model: row for row in published_results("swe_bench_verified") if row.resolved is not None}
    assert {model: len(row.resolved or ()) for model, row in known.items()} == {
        "Claude 4.5 Opus medium (20251101)": 372,
        "Claude 4.5 Sonnet (20250929)": 353,
        "Claude 4 Opus (20250514)": 338,
        "Claude 4 Sonnet (20250514)": 324,
    }
