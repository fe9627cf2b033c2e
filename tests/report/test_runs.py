import csv
import io
from typing import Any

import msgspec
import pytest

from observations import config, task_result
from proctor.analysis.intervals import wilson
from proctor.core.causes import Cause, Status
from proctor.core.formatting import money
from proctor.core.machine import Machine
from proctor.core.result import Attempt, TaskResult
from proctor.core.verdict import Finding, Verdict
from proctor.report import run_row
from proctor.report.runs import error_notes, run_tables, runs_csv, runs_document, runs_table
from proctor.report.tables import as_text


def result(task: str, cause: Cause, cost: float | None = 0.5, **changes: Any) -> TaskResult:
    made = task_result(task, cause, cost, agent_seconds=90.0)
    verdict = Verdict(task_id=task, status=made.status, cause=cause, reason="so it is")
    return msgspec.structs.replace(made, **{"verdict": verdict, **changes})


SOLVED = result("a", Cause.SOLVED)
FAILED = result("b", Cause.TESTS_FAILED, cost=0.1)
TIMEOUT = result("c", Cause.AGENT_TIMEOUT, agent_seconds=600.0)
ERROR = result("d", Cause.PROVIDER_ERROR, cost=9.0, agent_seconds=9000.0)
SKIPPED = result("e", Cause.NO_SUBMISSION, cost=0.0)


def test_errors_and_skipped_trials_are_counted_separately_and_in_no_average() -> None:
    row = run_row(config(), [SOLVED, FAILED, TIMEOUT, ERROR, SKIPPED])
    assert (row.resolved, row.counted, row.errors, row.skipped, row.missing) == (1, 3, 1, 1, 1)
    assert row.avg_cost_usd == pytest.approx((0.5 + 0.1 + 0.5) / 3)
    assert row.avg_seconds == pytest.approx(260)
    interval = wilson(1, 3)
    assert interval is not None
    assert (row.low, row.high) == (interval.low, interval.high)


def test_the_first_table_has_intervals() -> None:
    text = as_text(runs_table("core Results", [run_row(config(), [SOLVED, FAILED, TIMEOUT, ERROR])]))
    lines = text.splitlines()
    assert lines[:2] == ["core Results", "============"]
    assert lines[2].split("   ")[0].strip() == "Run ID"
    headings = [heading.strip() for heading in lines[2].split("   ") if heading.strip()]
    assert headings == [
        *("Run ID", "Agent", "Model", "Resolved", "Avg Cost", "Avg Time", "Agents", "95 % interval", "Errors")
    ]
    cells = [cell.strip() for cell in lines[4].split("   ") if cell.strip()]
    assert cells == [
        "run-001",
        "claude_code",
        "claude-x",
        "1/3",
        "$0.37",
        "4m 20s",
        "1",
        "6.1% to 79.2%",
        "1 (2 missing)",
    ]


def test_a_run_without_graded_trials_has_no_rate() -> None:
    row = run_row(config(), [ERROR])
    assert (row.counted, row.low, row.high, row.avg_cost_usd, row.avg_seconds) == (0, None, None, None, None)
    assert "0/0" in as_text(runs_table("x", [row]))


def test_an_unknown_price_is_unknown_in_the_average_too() -> None:
    row = run_row(config(), [SOLVED, result("b", Cause.TESTS_FAILED, cost=None)])
    assert row.avg_cost_usd is None
    assert "unknown" in as_text(runs_table("x", [row]))


def test_findings_are_counted_by_trial() -> None:
    finding = Finding(code="tests_touched", path="t.py", detail="…")
    assert SOLVED.verdict is not None
    verdict = msgspec.structs.replace(SOLVED.verdict, findings=(finding, finding))
    row = run_row(config(), [msgspec.structs.replace(SOLVED, verdict=verdict), FAILED])
    assert row.findings == 1


def test_csv_has_every_number_unrounded() -> None:
    row = run_row(config(), [SOLVED, FAILED, TIMEOUT])
    (read,) = csv.DictReader(io.StringIO(runs_csv([row])))
    assert read["run_id"] == "run-001"
    assert float(read["avg_cost_usd"]) == row.avg_cost_usd
    assert float(read["low"]) == row.low


@pytest.mark.parametrize(
    ("usd", "shown"), [(None, "unknown"), (0.0, "$0.00"), (1.234, "$1.23"), (0.0123, "$0.0123"), (0.1, "$0.10")]
)
def test_small_amounts_have_more_digits(usd: float | None, shown: str) -> None:
    assert money(usd) == shown


@pytest.mark.parametrize(("scores", "mean"), [((0.5, 0.7), 0.6), ((0.5, 1.7), 1.1), ((-0.2, 0.4), 0.1)])
def test_scores_have_a_mean_even_where_some_are_outside_0_to_1(scores: tuple[float, float], mean: float) -> None:
    results = []
    for task, score in zip("ab", scores, strict=True):
        made = result(task, Cause.SCORED)
        assert made.verdict is not None
        results.append(msgspec.structs.replace(made, verdict=msgspec.structs.replace(made.verdict, score=score)))
    row = run_row(config(), results)
    assert row.score is not None
    assert row.score.value == pytest.approx(mean)
    assert (row.score.low or 0) < mean < (row.score.high or 0)


def test_a_benchmark_that_grades_by_degree_has_scores_and_the_best_of_several_trials() -> None:
    def scored(task: str, trial: int, reached: float) -> TaskResult:
        verdict = Verdict(
            task_id=task,
            status=Status.UNRESOLVED,
            cause=Cause.SCORED,
            reason="scored",
            score=min(reached, 1.0),
            scores={"normalised": reached, "within_2h": reached / 2},
        )
        return result(task, Cause.SCORED, trial=trial, verdict=verdict)

    row = run_row(config(), [scored("a", 1, 0.2), scored("a", 2, 1.4), scored("b", 1, 0.6), scored("b", 2, 0.6)])
    assert row.score is not None
    assert row.score.value == pytest.approx(0.6)
    assert row.scores == pytest.approx({"normalised": 0.7, "within_2h": 0.35})
    assert row.best_of["score"] == pytest.approx((0.7, 1.0))
    assert row.best_of["within_2h"] == pytest.approx((0.35, 0.5))
    table = next(table for table in run_tables("scored", [row]) if table.title == "Scores")
    cells = {name: value for name, value in table.rows}  # noqa: C416 - rows are tuples of any length to mypy
    assert cells["mean score"].startswith("0.600 (0.")
    assert (cells["normalised"], cells["best of 2, score"], cells["best of 2, within_2h"]) == (
        "0.700",
        "1.000",
        "0.500",
    )
    assert run_row(config(), [SOLVED, FAILED]).best_of == {}
    assert "Scores" not in [table.title for table in run_tables("graded", [run_row(config(), [SOLVED, FAILED])])]


def test_the_first_table_leads_with_agent_model_and_what_differs() -> None:
    rows = [
        run_row(config(run_id="run-001", model="sonnet", max_turns=50, web=True), [SOLVED]),
        run_row(config(run_id="run-002", agent="nop", model=None, web=True, system_prompt="x" * 99), [FAILED]),
    ]
    table = runs_table("x", rows)
    assert table.headings[:6] == ("Run ID", "Agent", "Model", "System prompt", "Max turns", "Resolved")
    assert table.rows[0][:5] == ("run-001", "claude_code", "sonnet", "-", "50")
    assert table.rows[1][:5] == ("run-002", "nop", "-", f"{'x' * 31}…", "100")
    assert any(note.startswith("All runs: ") and "web True" in note and "mode baseline" in note for note in table.notes)


def test_runs_that_differ_in_much_name_the_rest_below_the_table() -> None:
    many = {
        "max_turns": 5,
        "trials": 2,
        "timeout": 9.0,
        "concurrency": 3,
        "memory": 1 << 30,
        "disk": 1 << 30,
        "web": True,
    }
    table = runs_table("x", [run_row(config(), [SOLVED]), run_row(config(run_id="run-002", **many), [SOLVED])])
    assert len(table.headings) == 3 + 6 + 6
    assert any(note.startswith("Also different: ") for note in table.notes)


def test_names_and_imports_are_marked_wherever_a_run_is_named() -> None:
    rows = [
        run_row(config(name="nightly"), [SOLVED]),
        run_row(config(run_id="run-002", label="model=a", sweep="core/sweep-001", origin="harbor jobs/1"), [FAILED]),
    ]
    table = runs_table("x", rows)
    assert [row[0] for row in table.rows] == ["run-001 (nightly)", "run-002 (model=a) [imported]"]
    assert "run-002 (model=a) is imported from harbor jobs/1: its verdicts were made there." in table.notes
    assert all("run-001 (nightly)" in as_text(one) for one in run_tables("x", rows))


def test_reports_warn_where_the_nodes_of_a_run_differ() -> None:
    def made_on(node: str, kernel: str) -> TaskResult:
        machine = Machine(platform="linux", python="3.11", cpus=2, memory_mb=1000, kernel=kernel)
        attempt = Attempt(
            number=1,
            started_at="then",
            ended_at="later",
            cause=Cause.SOLVED,
            detail="",
            logs="logs",
            node=node,
            machine=machine,
        )
        return msgspec.structs.replace(SOLVED, attempts=(attempt,))

    alike = runs_document("x", [run_row(config(), [made_on("one", "6.1"), made_on("two", "6.1")])])
    assert alike.warnings == ()
    differing = runs_document("x", [run_row(config(), [made_on("one", "6.1"), made_on("two", "6.8")])])
    (warning,) = differing.warnings
    assert warning.startswith("run-001: its 2 nodes differ in kernel; ")


def test_unexpected_results_are_named() -> None:
    row = run_row(config(tasks=("a",)), [SOLVED, FAILED])
    assert runs_table("x", [row]).rows[0][-1] == "0 (1 unexpected)"


def test_excluded_errors_have_a_note() -> None:
    row = run_row(config(), [SOLVED, ERROR])
    assert error_notes([row]) == ("1 infrastructure error is excluded from the rates.",)
    assert error_notes([row, row]) == ("2 infrastructure errors are excluded from the rates.",)
    assert error_notes([]) == ()
