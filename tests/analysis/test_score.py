import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paths import sample_data, shared_data
from proctor.analysis.score import Rate, ScoreSummary, score_file, score_report, score_table
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import UsageError
from proctor.core.evaluation import (
    EvaluationReport,
    EvaluationSummary,
    Invocation,
    RepairSummary,
    TaskEvaluation,
    TestSummary,
)
from proctor.core.record import from_json, to_json
from proctor.core.verdict import Verdict

PASSED = TestSummary(ok=True, exit_code=0, passed=1, compiled=True)
BROKEN = TestSummary(ok=False, exit_code=11, errors=1, compile_failures=1, compiled=False)


def task(cause: Cause, *tags: str, applied_with: str | None = None, **more: Any) -> TaskEvaluation:
    status = CONSEQUENCES[cause].status
    assert status is not None
    verdict = Verdict(task_id="t", status=status, cause=cause, reason="", applied_with=applied_with)
    return TaskEvaluation(task_id="t", verdict=verdict, tags=tags, **more)


def repaired(
    ops: int, *, iterations: int = 1, lint_ok: bool = True, mode: Any = "write", first: bool | None = None
) -> Any:
    return RepairSummary(mode=mode, iterations=iterations, applied_ops=ops, last_lint_ok=lint_ok, first_pass_ok=first)


def scored(*tasks: TaskEvaluation) -> ScoreSummary:
    invocation = Invocation(
        argv=(),
        cwd="/",
        started_at="",
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
        artifact_dir="",
    )
    report = EvaluationReport(
        benchmark="s",
        source="s.json",
        data_digest="",
        tool_version="1",
        platform="",
        environment="",
        invocation=invocation,
        summary=EvaluationSummary(total=0, resolved=0, unresolved=0, errors=0, skipped=0, seconds=6.0),
        tasks=tasks,
    )
    return score_report(to_json(report), where="r.json")


def x07_report(*instances: dict[str, Any], **changes: Any) -> dict[str, Any]:
    defaults = {"instance_id": "i", "status": "resolved"}
    return {
        "schema_version": "x07.bench.report@0.1.0",
        "tool": {"name": "x07", "version": "0.2.17"},
        "suite": {"suite_id": "s", "suite_path": "s.json"},
        "summary": {"duration_ms": 3000},
        "instances": [{**defaults, **instance} for instance in instances],
        **changes,
    }


def x07_scored(*instances: dict[str, Any]) -> ScoreSummary:
    return score_report(json.dumps(x07_report(*instances)).encode(), where="r.json")


def of(rate: Rate) -> tuple[int, int]:
    return rate.count, rate.total


def test_every_rate_names_its_denominator() -> None:
    causes = [Cause.SOLVED, Cause.SOLVED, Cause.TESTS_FAILED, Cause.GRADER_FAILED, Cause.NO_SUBMISSION]
    score = scored(*(task(cause) for cause in causes))
    assert of(score.resolved) == (2, 5)
    assert of(score.resolved_of_graded) == (2, 3)
    assert (score.total, score.unresolved, score.errors, score.skipped) == (5, 1, 1, 1)
    assert score.resolved.rate == 0.4
    assert score.resolved.low == pytest.approx(0.1176, abs=1e-4)
    assert score.resolved.high == pytest.approx(0.7693, abs=1e-4)
    assert (score.seconds, score.seconds_per_task.mean, score.seconds_per_task.total) == (6.0, 1.2, 5)


@pytest.mark.parametrize(
    ("one", "clean"),
    [
        (task(Cause.SOLVED, post_patch=PASSED, repair=repaired(0)), True),
        (task(Cause.SOLVED), True),
        (task(Cause.SOLVED, applied_with="3way"), False),
        (task(Cause.SOLVED, post_patch=PASSED, repair=repaired(1)), False),
        (task(Cause.SOLVED, post_patch=PASSED, repair=repaired(1, mode="memory")), False),
        (task(Cause.SOLVED, post_patch=PASSED, repair=repaired(0, lint_ok=False)), False),
        (task(Cause.SOLVED, post_patch=TestSummary(ok=True, exit_code=0, errors=1)), False),
        (task(Cause.TESTS_FAILED, post_patch=PASSED, repair=repaired(0)), False),
    ],
)
def test_resolved_without_errors_means_that_nothing_was_repaired(one: TaskEvaluation, clean: bool) -> None:
    assert of(scored(one).resolved_without_errors) == (int(clean), 1)


@pytest.mark.parametrize(
    ("one", "counted"),
    [
        (task(Cause.SOLVED, post_patch=PASSED), (1, 1)),
        (task(Cause.TESTS_FAILED, post_patch=BROKEN), (0, 1)),
        (task(Cause.SOLVED, post_patch=PASSED, repair=repaired(0)), (1, 1)),
        (task(Cause.SOLVED, post_patch=PASSED, repair=repaired(1, first=False)), (0, 1)),
        (task(Cause.SOLVED, post_patch=PASSED, repair=repaired(1, first=True)), (1, 1)),
        (task(Cause.TESTS_FAILED, post_patch=BROKEN, repair=repaired(1, mode="memory")), (0, 1)),
        (task(Cause.SOLVED, post_patch=TestSummary(ok=True, exit_code=0, report="junit.xml")), (0, 0)),
        (task(Cause.DOES_NOT_APPLY), (0, 0)),
        (task(Cause.DOES_NOT_APPLY, repair=repaired(0)), (0, 0)),
    ],
)
def test_first_pass_is_measured_before_repair(one: TaskEvaluation, counted: tuple[int, int]) -> None:
    score = scored(one)
    assert of(score.first_pass_compile) == counted
    assert score.first_pass_unknown == 0


def test_the_first_pass_is_reported_as_unknown_where_it_was_not_tried_before_repair() -> None:
    score = scored(task(Cause.SOLVED, post_patch=PASSED, repair=repaired(1)))
    assert of(score.first_pass_compile) == (0, 0)
    assert (score.first_pass_compile.rate, score.first_pass_unknown) == (None, 1)
    assert "1 more was repaired by a linter; whether it compiled before is unknown" in score_table(score)


def test_repair_is_averaged_over_what_was_repaired() -> None:
    score = scored(
        task(Cause.SOLVED, repair=repaired(0)), task(Cause.SOLVED, repair=repaired(3, iterations=2)), task(Cause.SOLVED)
    )
    assert (score.repair_iterations.mean, score.repair_operations.mean, score.repair_iterations.total) == (1.5, 1.5, 2)


def test_metrics_that_were_not_measured_have_no_line() -> None:
    table = score_table(scored(task(Cause.SOLVED)))
    assert "repair" not in table
    assert "first pass" not in table
    repaired_one = score_table(scored(task(Cause.SOLVED, post_patch=PASSED, repair=repaired(0))))
    assert "repair: 1.00 passes, 0.00 operations, mean of 1 task" in repaired_one
    assert "compiles at first pass" in repaired_one


def test_tags_have_scores_of_their_own() -> None:
    score = scored(task(Cause.SOLVED, "a", "b"), task(Cause.TESTS_FAILED, "b"), task(Cause.SOLVED))
    assert {tag.tag: of(tag.resolved) for tag in score.tags} == {"a": (1, 1), "b": (1, 2)}


def test_of_nothing_there_are_no_rates() -> None:
    score = scored()
    assert (score.total, score.resolved.rate, score.seconds_per_task.mean) == (0, None, None)
    assert "0 of 0" in score_table(score)


# x07's reports.


@pytest.mark.parametrize(
    ("data", "suite", "seconds", "tags"),
    [
        pytest.param(sample_data, "tally_v0", 0.25, {"coins": 2, "guard": 1, "sum": 1}, id="our-sample"),
        pytest.param(
            shared_data, "core_v0", 0.643, {"bugfix": 2, "logic": 1, "math": 1, "stdlib": 2}, id="real-sample"
        ),
    ],
)
def test_the_published_report_is_scored(
    data: Callable[..., Path], suite: str, seconds: float, tags: dict[str, int]
) -> None:
    score = score_file(data("x07", f"report_{suite}_oracle.json"))
    assert of(score.resolved) == of(score.resolved_without_errors) == of(score.first_pass_compile) == (2, 2)
    assert (score.benchmark, score.source, score.tool_version) == (suite, "x07.bench.report@0.1.0", "0.2.17")
    assert (score.repair_iterations.mean, score.repair_operations.mean, score.seconds) == (1.0, 0.0, seconds)
    assert {tag.tag: of(tag.resolved) for tag in score.tags} == {tag: (count, count) for tag, count in tags.items()}
    assert from_json(to_json(score), ScoreSummary) == score


def test_of_an_x07_report_the_first_pass_is_known_only_where_nothing_was_repaired() -> None:
    tests = {"ok": True, "exit_code": 0, "compile_failures": 0, "report_path": None, "duration_ms": 1}
    repair = {"mode": "write", "iterations": 2, "applied_ops_count": 1, "last_lint_ok": True}
    score = x07_scored(
        {"after_patch": tests, "repair": repair},
        {"after_patch": tests, "repair": {**repair, "applied_ops_count": 0}},
        {"after_patch": {**tests, "ok": False, "exit_code": 11, "compile_failures": 1}, "status": "unresolved"},
        {"status": "error", "error": "apply patch: m.x07.json"},
        {"status": "resolved", "error": "odd", "after_patch": tests},
    )
    assert of(score.first_pass_compile) == (2, 3)
    assert score.first_pass_unknown == 1
    assert of(score.resolved_without_errors) == (1, 5)
    assert (score.errors, score.repair_operations.mean) == (1, 0.5)


def test_tags_are_found_in_x07s_notes() -> None:
    score = x07_scored({"notes": ["a note", "tags=x,y", "tags=y"]}, {"notes": []})
    assert [tag.tag for tag in score.tags] == ["x", "y"]


def test_the_envelope_of_x07_json_is_opened() -> None:
    envelope = {
        "schema_version": "x07.tool.bench.eval.report@0.1.0",
        "exit_code": 0,
        "result": {"stdout_json": x07_report({})},
    }
    assert of(score_report(json.dumps(envelope).encode(), where="r").resolved) == (1, 1)


def test_a_report_is_read_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = SimpleNamespace(buffer=io.BytesIO(json.dumps(x07_report({})).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert score_file("-").total == 1


# Bad input.


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "r.json"),
        (b"{", "r.json"),
        (b"[]", "r.json"),
        (b"{}", "no schema_version"),
        (b'{"schema_version": "x07.bench.suite@0.1.0"}', "'x07.bench.suite@0.1.0' cannot be scored"),
        (b'{"schema_version": 7}', "schema_version"),
        (b'{"schema_version": "proctor.report@1"}', "benchmark"),
        (b'{"schema_version": "x07.bench.report@0.1.0", "instances": 3}', "instances"),
        (b'{"schema_version": "x07.tool.bench.eval.report@0.1.0", "exit_code": 20}', "exit code was 20"),
        (b'{"schema_version": "x07.tool.bench.eval.report@0.1.0", "result": {"stdout_json": []}}', "r.json"),
        (json.dumps(x07_report({"status": "fine"})).encode(), "status"),
        (
            json.dumps(x07_report({"instance_id": "<suite>", "error": "no file"})).encode(),
            "could not be loaded: no file",
        ),
        (b'{"schema_version": "proctor.report@1", "x": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_document_that_is_not_a_report_is_refused_in_one_sentence(data: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        score_report(data, where="r.json")
    assert said in str(caught.value)
    assert str(caught.value).startswith("r.json: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        score_file(tmp_path / "nope.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.binary(max_size=50)
    | st.fixed_dictionaries(
        {"schema_version": st.sampled_from(["proctor.report@1", "x07.bench.report@0.1.0"])},
        optional=dict.fromkeys(("tool", "suite", "summary", "instances", "tasks", "invocation"), JSON),
    ).map(lambda document: json.dumps(document).encode())
)
def test_no_bytes_make_scoring_raise_anything_but_its_own_error(data: bytes) -> None:
    with pytest.raises(UsageError):
        score_report(data, where="fuzz")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(Status)), st.integers(0, 3), st.booleans(), st.sampled_from(["write", "memory"])
        ),
        max_size=8,
    )
)
def test_no_rate_counts_more_than_its_denominator(rows: list[tuple[Status, int, bool, str]]) -> None:
    tests = {"ok": True, "exit_code": 0}
    score = x07_scored(
        *(
            {
                "status": status,
                "after_patch": tests if ran else None,
                "repair": {"mode": mode, "iterations": 1, "applied_ops_count": ops, "last_lint_ok": True},
            }
            for status, ops, ran, mode in rows
        )
    )
    rates = [score.resolved, score.resolved_of_graded, score.resolved_without_errors, score.first_pass_compile]
    for rate in rates:
        assert 0 <= rate.count <= rate.total <= score.total
    assert score.resolved_without_errors.count <= score.resolved.count
    assert score.resolved.count + score.unresolved + score.errors + score.skipped == score.total
    assert score.first_pass_compile.total + score.first_pass_unknown == sum(ran for _, _, ran, _ in rows)
    assert score_table(score).count("\n") >= 8
