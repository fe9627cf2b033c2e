import hashlib
import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from paths import sample_data, shared_data
from plain_environment import environment_at
from proctor.benchmarks.suites.instance import Instance
from proctor.benchmarks.suites.load import Suite, load_suite
from proctor.benchmarks.x07.instance import X07Instance
from proctor.benchmarks.x07.repair import repair, with_first_pass
from proctor.benchmarks.x07.report import (
    label_notes,
    x07_json,
    x07_list_report,
    x07_report,
    x07_validate_report,
)
from proctor.benchmarks.x07.test_command import X07Run, run_x07_test
from proctor.benchmarks.x07.toolchain import make_toolchain, x07_version
from proctor.core.benchmark import TaskHealth
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.evaluation import (
    EvaluationReport,
    EvaluationSummary,
    Invocation,
    RepairSummary,
    TaskEvaluation,
    TestSummary,
)
from proctor.core.record import from_json, to_json
from proctor.core.submission import PatchKind
from proctor.core.verdict import TestOutcome, TestStatus, Verdict
from proctor.workspaces import patch_sha256
from x07_schema import X07_REPORT
from x07_world import PROGRAMS, STANDIN, SUITES

INVOCATION = Invocation(
    argv=("proctor", "bench", "eval"),
    cwd="/home/me",
    started_at="2026-01-02T03:04:05.678+00:00",
    predictions=None,
    oracle=True,
    runner="local",
    image=None,
    filter=None,
    exact=False,
    limit=None,
    jobs=1,
    repair_mode="write",
    keep_artifacts=False,
    artifact_dir="art",
)


def verdict(cause: Cause, reason: str = "", status: Status | None = None, **more: Any) -> Verdict:
    decided = status or CONSEQUENCES[cause].status or Status.UNRESOLVED
    return Verdict(task_id="t", status=decided, cause=cause, reason=reason, **more)


def evaluated(cause: Cause, reason: str = "", *, task_id: str = "t", **more: Any) -> TaskEvaluation:
    inner = {key: more.pop(key) for key in ("tests", "flaky") if key in more}
    return TaskEvaluation(task_id=task_id, verdict=verdict(cause, reason, **inner), **more)


def report_of(*tasks: TaskEvaluation, invocation: Invocation = INVOCATION, **changes: Any) -> EvaluationReport:
    fields: dict[str, Any] = {
        "benchmark": "s",
        "source": "/s/suite.json",
        "data_digest": "d",
        "tool_version": "9.9.9",
        "platform": "linux-x86_64",
        "environment": "local",
        "invocation": invocation,
        "summary": EvaluationSummary(total=len(tasks), resolved=0, unresolved=0, errors=0, skipped=0, seconds=1.5),
        "tasks": tasks,
        **changes,
    }
    return EvaluationReport(**fields)


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(X07_REPORT)


def projected(*tasks: TaskEvaluation, **changes: Any) -> dict[str, Any]:
    document = x07_report(report_of(*tasks, **changes))
    validator().validate(document)
    return document


def only(*tasks: TaskEvaluation, **changes: Any) -> dict[str, Any]:
    (instance,) = projected(*tasks, **changes)["instances"]
    assert isinstance(instance, dict)
    return instance


# Statuses and texts.


@pytest.mark.parametrize("cause", list(Cause))
def test_every_cause_has_a_place(cause: Cause) -> None:
    instance = only(evaluated(cause, "because"))
    unfit = {Cause.DOES_NOT_APPLY, Cause.UNSAFE_SUBMISSION, Cause.MALFORMED_SUBMISSION, Cause.TOO_LARGE}
    status = CONSEQUENCES[cause].status or Status.UNRESOLVED
    assert instance["status"] == ("error" if cause in unfit else status)
    assert ("error" in instance) == (instance["status"] == "error")


@pytest.mark.parametrize(
    ("task", "error", "notes"),
    [
        (evaluated(Cause.DOES_NOT_APPLY, "hunk 1 fails"), "hunk 1 fails", None),
        (evaluated(Cause.MISSING_PROGRAM, "no x07"), "no x07", None),
        (evaluated(Cause.GRADER_FAILED, ""), None, None),
        (
            evaluated(Cause.FLAKY, "ours", flaky=("a", "b")),
            "nondeterministic instance: repeated post-patch run diverged",
            ["nondeterministic after-patch run detected", "tests that flipped: a, b"],
        ),
        (
            evaluated(Cause.INVALID_TASK, "ours", pre_patch=TestSummary(ok=True, exit_code=0)),
            "baseline run is already green; instance is invalid",
            None,
        ),
        (evaluated(Cause.INVALID_TASK, "ours"), "ours", None),
        (evaluated(Cause.NO_SUBMISSION, "ours", notes=("n",)), None, ["n", "no prediction for this instance"]),
        (evaluated(Cause.EXCLUDED, "on the list"), None, ["on the list"]),
        (evaluated(Cause.TESTS_FAILED, "ours"), None, None),
    ],
)
def test_errors_and_notes_are_x07s_own_where_it_has_some(
    task: TaskEvaluation, error: str | None, notes: list[str] | None
) -> None:
    instance = only(task)
    assert (instance.get("error"), instance.get("notes")) == (error, notes)


def test_notes_on_labels_are_x07s_own() -> None:
    outcomes = {
        "fixed": ("fail", "pass"),
        "still": ("fail", "xfail_fail"),
        "green": ("pass", "pass"),
        "lost": ("fail", None),
        "kept": ("pass", "pass"),
        "broken": ("pass", "error"),
        "red": ("skip", "skip"),
    }
    assert label_notes(["fixed", "still", "green", "lost"], ["kept", "broken", "red", "nowhere"], outcomes) == [
        "fail_to_pass not satisfied for still (after_patch status=xfail_fail)",
        "fail_to_pass baseline is pass for green (expected failing baseline)",
        "fail_to_pass test id missing in reports: lost",
        "pass_to_pass not satisfied for broken (after_patch status=error)",
        "pass_to_pass baseline is not pass for red (status=skip)",
        "pass_to_pass not satisfied for red (after_patch status=skip)",
        "pass_to_pass test id missing in reports: nowhere",
    ]


def test_absent_things_are_left_out_but_a_baseline_is_always_there() -> None:
    assert only(evaluated(Cause.MISSING_PROGRAM)) == {
        "instance_id": "t",
        "status": "error",
        "baseline": {
            "ok": False,
            "exit_code": None,
            "report_path": None,
            "passed": 0,
            "failed": 0,
            "skipped": 0,
            "errors": 0,
            "duration_ms": 0,
            "compile_failures": 0,
            "run_failures": 0,
        },
    }


def test_averages_are_over_the_instances_that_were_repaired() -> None:
    def repaired(iterations: int, ops: int) -> TaskEvaluation:
        summary = RepairSummary(mode="write", iterations=iterations, applied_ops=ops, last_lint_ok=True)
        return evaluated(Cause.SOLVED, repair=summary)

    assert "avg_repair_iterations" not in projected(evaluated(Cause.SOLVED))["summary"]
    summary = projected(evaluated(Cause.SOLVED), repaired(1, 0), repaired(2, 3))["summary"]
    assert (summary["avg_repair_iterations"], summary["avg_repair_applied_ops"]) == (1.5, 1.5)
    assert (summary["instances_total"], summary["resolved"], summary["duration_ms"]) == (3, 3, 1500)


def test_the_tool_is_the_x07_that_ran_the_tests_and_without_one_ours() -> None:
    assert projected()["tool"] == {"name": "x07", "version": "9.9.9", "build": "proctor"}
    assert x07_report(report_of(), x07_version="0.2.17")["tool"] == {"name": "x07", "version": "0.2.17"}


# Bounds.


def test_long_texts_are_truncated_and_the_report_stays_valid() -> None:
    long = evaluated(Cause.GRADER_FAILED, "e" * 9000, task_id="i" * 300, model="m" * 300, notes=("n" * 5000,))
    instance = only(long)
    assert [len(instance[key]) for key in ("instance_id", "model_name_or_path", "error")] == [128, 256, 8192]
    assert instance["notes"][1:] == ["instance_id=" + "i" * 300, "model_name_or_path=" + "m" * 300]
    assert len(instance["notes"][0]) == 4096


def test_two_long_ids_stay_two() -> None:
    first, second = projected(*(evaluated(Cause.SOLVED, task_id="i" * 200 + tail) for tail in "ab"))["instances"]
    assert first["instance_id"] != second["instance_id"]


def test_odd_invocations_stay_valid() -> None:
    odd = msgspec.structs.replace(
        INVOCATION,
        jobs=0,
        limit=-1,
        repair_mode="perhaps",
        runner="my-cluster",
        started_at="yesterday",
        image="i:1",
        filter="f",
        predictions="p.jsonl",
    )
    document = projected(invocation=odd, platform="", benchmark="", source="")
    asked = document["invocation"]
    assert (asked["jobs"], asked["limit"], asked["repair_mode"], asked["runner"]) == (1, 0, "off", "local")
    assert asked["started_at_unix_ms"] == 0
    assert (asked["filter"], asked["predictions_path"], document["env"]["docker_image"]) == ("f", "p.jsonl", "i:1")


TEXT = st.text(max_size=20) | st.integers(120, 9000).map(lambda length: "x" * length)
SUMMARIES = st.builds(
    TestSummary,
    ok=st.booleans(),
    exit_code=st.none() | st.integers(-9, 255),
    passed=st.integers(-1, 5),
    seconds=st.floats(),
    report=st.none() | TEXT,
)
TASKS = st.builds(
    TaskEvaluation,
    task_id=TEXT,
    verdict=st.builds(
        Verdict,
        task_id=TEXT,
        status=st.sampled_from(list(Status)),
        cause=st.sampled_from(list(Cause)),
        reason=TEXT,
        flaky=st.lists(TEXT, max_size=2).map(tuple),
    ),
    notes=st.lists(TEXT, max_size=2).map(tuple),
    model=st.none() | TEXT,
    patch_kind=st.none() | st.sampled_from(list(PatchKind)),
    patch_sha256=st.none() | TEXT | st.just("0" * 64),
    pre_patch=st.none() | SUMMARIES,
    post_patch=st.none() | SUMMARIES,
    repair=st.none()
    | st.builds(
        RepairSummary,
        mode=st.sampled_from(["memory", "write"]),
        iterations=st.integers(-1, 9),
        applied_ops=st.integers(-1, 9),
        last_lint_ok=st.booleans(),
    ),
    artifacts=st.none() | TEXT,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    tasks=st.lists(TASKS, max_size=3),
    changes=st.fixed_dictionaries({"benchmark": TEXT, "source": TEXT, "platform": TEXT, "tool_version": TEXT}),
    asked=st.fixed_dictionaries({"started_at": TEXT, "jobs": st.integers(-1, 3), "cwd": TEXT, "artifact_dir": TEXT}),
)
def test_any_report_of_ours_projects_to_a_valid_one(
    tasks: list[TaskEvaluation], changes: dict[str, str], asked: dict[str, Any]
) -> None:
    document = projected(*tasks, invocation=msgspec.structs.replace(INVOCATION, **asked), **changes)
    validator().validate(json.loads(x07_json(document)))


# Forms.


def test_json_is_sorted_indented_and_ends_in_a_newline() -> None:
    assert (
        x07_json({"b": [], "a": {"d": 1.0, "c": "é"}})
        == '{\n  "a": {\n    "c": "é",\n    "d": 1.0\n  },\n  "b": []\n}\n'.encode()
    )
    assert b"?" in x07_json({"lone": "\udc80"})


def test_list_names_the_instances() -> None:
    assert x07_list_report("/s.json", "s", ["a", "b"]) == {
        "ok": True,
        "suite_path": "/s.json",
        "suite_id": "s",
        "instances": ["a", "b"],
    }


def health(task_id: str, *problems: str, baseline_ok: bool = True, determinism_ok: bool = True) -> TaskHealth:
    return TaskHealth(
        task_id=task_id,
        environment="e",
        healthy=not problems,
        pre_patch_ok=baseline_ok,
        oracle_ok=True,
        determinism_ok=determinism_ok,
        problems=problems,
    )


def test_validate_says_of_each_instance_what_holds() -> None:
    healths = [
        health("good"),
        health("green", "passes already", baseline_ok=False),
        health("flaky", "flips", determinism_ok=False),
    ]
    document = x07_validate_report(healths, suite_path="/s.json", suite_id="s", seconds=1.5)
    assert (document["ok"], document["suite_id"]) == (False, "s")
    assert document["summary"] == {"instances_total": 3, "valid": 1, "invalid": 2, "duration_ms": 1500}
    keys = ("status", "baseline_ok", "oracle_ok", "determinism_ok")
    assert {one["instance_id"]: tuple(one[key] for key in keys) for one in document["instances"]} == {
        "good": ("resolved", True, True, True),
        "green": ("error", False, True, True),
        "flaky": ("error", True, True, False),
    }
    assert document["instances"][1]["error"] == "passes already"
    assert x07_validate_report(healths[:1], suite_path="/s.json", suite_id="s")["ok"]


def test_validate_has_the_notes_of_an_instance_and_of_its_labels() -> None:
    suite = load_suite(sample_data("x07", "tally_v0", "suite.json"))
    wrong = msgspec.structs.replace(
        health("tally_sum_0002", "with the oracle: tally/sum fails"),
        oracle_status=Status.UNRESOLVED,
        label_deviations=(
            TestOutcome(id="tally/sum", before=TestStatus.FAILED, after=TestStatus.FAILED),
            TestOutcome(id="tally/one_coin", before=None, after=TestStatus.PASSED),
        ),
        leaks=("README: the answer",),
    )
    (instance,) = x07_validate_report([wrong], suite_path="/s.json", suite_id="s", suite=suite)["instances"]
    assert instance["status"] == "unresolved"
    assert instance["notes"] == [
        "tags=coins,sum",
        "Seven coins of three are twenty-one.",
        "fail_to_pass not satisfied for tally/sum (after_patch status=fail)",
        "pass_to_pass test id missing in reports: tally/one_coin",
        "leak: README: the answer",
    ]


def test_patch_digests_are_x07s() -> None:
    assert patch_sha256(b"{ }", PatchKind.UNIFIED_DIFF) == hashlib.sha256(b"{ }").hexdigest()
    assert patch_sha256(b'{ "b": 1, "a": [] }', PatchKind.PATCH_SET) == hashlib.sha256(b'{"a":[],"b":1}').hexdigest()


# The real thing: x07's own suite, from the baseline to the report.


async def evaluate_oracle(program: Path, instance: Instance, folder: Path, cwd: Path) -> TaskEvaluation:
    """What grading does with one instance, in its plainest form."""
    assert isinstance(instance, X07Instance)
    tests = instance.file.eval
    workspace = folder / "repo"
    shutil.copytree(instance.repo, workspace)
    for path in workspace.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    environment, x07 = environment_at(workspace), make_toolchain(program)
    common: dict[str, Any] = {"pristine": instance.repo, "artifacts": folder, "scratch": str(folder / "scratch")}
    before = await run_x07_test(environment, x07, tests, name="baseline", patched=False, timeout=60, **common)
    assert instance.oracle is not None
    content = instance.oracle.read_bytes()
    patch_set = json.loads(content)
    touched = [target["path"] for target in patch_set["patches"]]
    for target in patch_set["patches"]:
        file = workspace / target["path"]
        document = json.loads(file.read_text())
        for op in target["patch"]:
            *way, last = (int(step) if step.isdigit() else step for step in op["path"].split("/")[1:])
            place: Any = document
            for step in way:
                place = place[step]
            place[last] = op["value"]
        file.write_text(json.dumps(document))
    repaired = await repair(environment, x07, tests, touched, mode="write", world=instance.file.world, **common)
    after = await run_x07_test(environment, x07, tests, name="after_patch", patched=True, timeout=60, **common)
    assert isinstance(before, X07Run)
    assert isinstance(after, X07Run)
    outcomes = tuple(
        TestOutcome(id=test, before=before.statuses.get(test), after=status) for test, status in after.statuses.items()
    )
    solved = after.exit_code == 0 and all(after.statuses[test] is TestStatus.PASSED for test in tests.fail_to_pass)
    return evaluated(
        Cause.SOLVED if solved else Cause.TESTS_FAILED,
        task_id=instance.id,
        tests=outcomes,
        notes=instance.notes,
        model="oracle",
        patch_kind=PatchKind.PATCH_SET,
        patch_sha256=patch_sha256(content, PatchKind.PATCH_SET),
        pre_patch=before.summary,
        post_patch=after.summary,
        repair=with_first_pass(repaired, after.summary),
        artifacts=str(folder.relative_to(cwd / "art")),
    )


def hashed(name: str) -> str:
    return "id_" + hashlib.sha256(name.encode()).hexdigest()


async def evaluate_core(program: Path, suite: Suite, cwd: Path) -> EvaluationReport:
    instances = cwd / "art" / "suites" / hashed(suite.id) / "instances"
    tasks = [await evaluate_oracle(program, one, instances / hashed(one.id), cwd) for one in suite.instances]
    invocation = msgspec.structs.replace(INVOCATION, cwd=str(cwd))
    return report_of(*tasks, invocation=invocation, benchmark=suite.id, source=str(suite.path))


def without_paths_and_times(document: dict[str, Any], root: str) -> dict[str, Any]:
    """What must be equal: times are zeroed, and of paths only the part that is not the machine's is kept."""

    def clean(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: clean(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [clean(inner) for inner in value]
        if key in {"duration_ms", "started_at_unix_ms"}:
            return 0
        if key in {"report_path", "artifacts_dir"}:
            return str(value).removeprefix(root)
        return value

    cleaned: dict[str, Any] = clean(document)
    for key in ("argv", "cwd", "artifact_dir", "suite_path"):
        cleaned["invocation"].pop(key)
    cleaned["suite"].pop("suite_path")
    return cleaned


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: "stand-in" if program == STANDIN else "real")
@pytest.mark.parametrize(("data", "name"), SUITES)
async def test_the_published_suite_gives_the_published_report(
    program: Path, data: Callable[..., Path], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("X07_BIN", str(program))
    suite = load_suite(data("x07", name, "suite.json"))
    report = await evaluate_core(program, suite, tmp_path)
    document = json.loads(x07_json(x07_report(report, suite=suite, x07_version=x07_version())))
    validator().validate(document)
    published = json.loads(data("x07", f"report_{name}_oracle.json").read_text())
    assert without_paths_and_times(document, str(tmp_path / "art")) == without_paths_and_times(
        published, "/bench/art_eval"
    )
    assert from_json(to_json(report), EvaluationReport) == report


def test_labels_that_do_not_hold_are_noted_when_the_suite_is_given() -> None:
    suite = load_suite(sample_data("x07", "tally_v0", "suite.json"))
    task = evaluated(
        Cause.TESTS_FAILED,
        task_id="tally_sum_0002",
        post_patch=TestSummary(ok=False, exit_code=10, failed=1),
        tests=(
            TestOutcome(id="tally/sum", before=TestStatus.FAILED, after=TestStatus.FAILED),
            TestOutcome(id="tally/one_coin", before=TestStatus.PASSED, after=TestStatus.PASSED),
        ),
    )
    (instance,) = x07_report(report_of(task), suite=suite)["instances"]
    assert instance["notes"] == ["fail_to_pass not satisfied for tally/sum (after_patch status=fail)"]


def spelled_out(schema: Any, parts: dict[str, Any]) -> Any:
    """A schema with its parts in their places, and without what decides nothing."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            return spelled_out(parts[schema["$ref"].rpartition("/")[2]], parts)
        ignored = {"$id", "$defs", "title", "description", "default"}
        kept = {key: spelled_out(value, parts) for key, value in schema.items() if key not in ignored}
        return {**kept, "required": sorted(kept["required"])} if isinstance(kept.get("required"), list) else kept
    return [spelled_out(value, parts) for value in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("data", [pytest.param(shared_data, id="real-sample")])
def test_our_schema_of_x07s_reports_is_x07s_own(data: Callable[..., Path]) -> None:
    real = json.loads(data("x07", "x07-bench.report.schema.json").read_text())
    assert spelled_out(X07_REPORT, {}) == spelled_out(real, real["$defs"])
