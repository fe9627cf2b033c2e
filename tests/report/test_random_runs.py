"""Every number of a report, made again from the raw files by another way: plain Python, numpy, scipy, statsmodels."""

import csv
import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from large_libraries import scipy_stats, statsmodels_tables
from proctor.analysis.runs import RunRow
from proctor.core.published_result import PublishedResult
from proctor.core.request import Mode
from proctor.report import run_rows
from proctor.report.breakdown import break_down, breakdown_csv
from proctor.report.comparison import RunComparison, compare_runs, comparison_document, comparison_report
from proctor.report.document import document_markdown, document_text
from proctor.report.pareto import pareto_document, pareto_of_runs
from proctor.report.runs import runs_csv, runs_document
from proctor.results import RunStore
from random_runs import raw, store_run

GRADED = {"resolved", "unresolved"}
PUBLISHED = PublishedResult(
    benchmark="core", agent="Claude Code", model="Claude", date="2026-01", source="https://example.org/x", rate=0.23
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[RunStore]:
    root = tmp_path_factory.mktemp("results")
    return [
        store_run(root, "run-001", tasks=100, seed=1, odds={"rate": 0.25, "dollars": 0.45}),
        store_run(root, "run-002", tasks=100, seed=2, odds={"rate": 0.6, "dollars": 1.2}, mode=Mode.H2, preset="opus"),
        store_run(root, "run-003", tasks=60, seed=3, trials=3, concurrency=4),
    ]


@pytest.fixture(scope="module")
def rows(stores: list[RunStore]) -> list[RunRow]:
    return run_rows(stores)


@pytest.fixture(scope="module")
def comparisons(stores: list[RunStore]) -> list[RunComparison]:
    return compare_runs(stores)[1]


def graded(store: RunStore) -> list[dict[str, Any]]:
    return [one for one in raw(store) if one["status"] in GRADED]


def cost(result: dict[str, Any]) -> float:
    return float(sum(usage["cost_usd"] for usage in result["usage"]))


def test_the_first_table_has_every_run_with_its_interval_and_errors(stores: list[RunStore], rows: list[RunRow]) -> None:
    lines = document_text(runs_document("core Results", rows, (PUBLISHED,))).splitlines()
    assert lines[:2] == ["core Results", "============"]
    assert re.split(r"\s{2,}", lines[2]) == [
        *("Run ID", "Agent", "Model", "Mode", "Preset", "Trials", "Concurrency"),
        *("Resolved", "Avg Cost", "Avg Time", "Agents", "95 % interval", "Errors"),
    ]
    for line, store, mode, preset, agents in zip(
        lines[4:7], stores, ("baseline", "h2", "baseline"), ("empty", "opus", "empty"), "131", strict=True
    ):
        results, counted = raw(store), graded(store)
        resolved = [one["status"] == "resolved" for one in counted]
        seconds = round(np.mean([one["agent_seconds"] for one in counted]))
        run, agent, model, *settings = re.split(r"\s{2,}", line)
        configured = store.config()
        assert [run, agent, model] == [store.run_id, configured.agent, configured.model]
        assert settings[:3] == [mode, preset, str(configured.trials)]
        cells = [run, mode, settings[2], *settings[4:]]
        assert cells[3] == f"{sum(resolved)}/{len(counted)}"
        if store is not stores[2]:  # with several trials of each task it is clustered, which has a test of its own
            ends = scipy_stats.binomtest(sum(resolved), len(counted)).proportion_ci(method="wilson")
            assert cells[7] == f"{ends.low:.1%} to {ends.high:.1%}"
        assert cells[4] == f"${np.mean([cost(one) for one in counted]):.2f}"
        assert cells[5:7] == [f"{seconds // 60}m {seconds % 60:02}s", agents]
        assert cells[8] == str(sum(one["status"] == "error" for one in results))
    assert lines[8] == "Published result (Claude + Claude Code): 23.0% (2026-01, https://example.org/x)"


def test_many_published_results_have_a_table_of_their_own(stores: list[RunStore], rows: list[RunRow]) -> None:
    tasks = {task for store in stores for task in store.config().tasks}
    some = ("task-1", "task-2", "not-ours")
    published = [
        msgspec.structs.replace(PUBLISHED, model=f"M{number}", rate=number / 20, resolved=some) for number in range(8)
    ]
    document = runs_document("core Results", rows, published, tasks=tasks)
    text = document_text(document)
    lines = [line for line in text.splitlines() if line.startswith("Published result")]
    assert [re.findall(r"M\d", line)[0] for line in lines] == ["M3", "M4", "M5", "M6", "M7"]
    assert lines[-1] == "Published result (M7 + Claude Code): 35.0% (2/100 of ours, 2026-01, https://example.org/x)"
    assert "\n3 more published results: --html, --markdown and --json have the whole list.\n" in text
    assert "Published results" not in text  # ninety lines would hide the rest of the report
    assert len(re.findall(r"^\| M\d \| Claude Code \|", document_markdown(document), re.MULTILINE)) == 8


def test_human_results_have_no_model_and_results_without_a_number_are_in_the_whole_list_only(
    rows: list[RunRow],
) -> None:
    human = msgspec.structs.replace(PUBLISHED, agent="experts", model="none", tasks=1)
    without_rate = msgspec.structs.replace(PUBLISHED, agent="somebody", rate=None)
    document = runs_document("core Results", rows, [human, without_rate])
    text = document_text(document)
    assert (
        "Published result (experts): 23.0% (1 task, 2026-01, https://example.org/x)\n1 more published result:" in text
    )
    assert "somebody" not in text
    assert "| Claude | somebody | - |" in document_markdown(document)


def test_cost_and_time_are_those_of_the_files(stores: list[RunStore], rows: list[RunRow]) -> None:
    for store, row in zip(stores, rows, strict=True):
        results, counted = raw(store), graded(store)
        resolved = sum(one["status"] == "resolved" for one in counted)
        seconds = [one["agent_seconds"] for one in counted]
        tokens = [sum(sum(usage["tokens"].values()) for usage in one["usage"]) for one in counted]
        metrics = [one["metrics"] for one in counted]
        assert row.cost_per_resolved_usd is not None
        assert row.seconds_per_resolved is not None
        assert row.tokens_per_resolved is not None
        assert row.time_distribution is not None
        assert row.cost_distribution is not None
        ours = [
            row.rate,
            row.rate_with_errors,
            row.cost_per_resolved_usd.value,
            row.seconds_per_resolved.value,
            row.tokens_per_resolved.value,
            row.total_usd,
            row.time_distribution.p50,
            row.time_distribution.p90,
            row.cost_distribution.p75,
            row.turns,
            row.steps,
            row.active_share,
            row.compactions,
        ]
        theirs = [
            resolved / len(counted),
            resolved / len(results),
            sum(map(cost, counted)) / resolved,
            sum(seconds) / resolved,
            sum(tokens) / resolved,
            sum(map(cost, results)),
            np.median(seconds),
            np.percentile(seconds, 90),
            np.percentile(list(map(cost, counted)), 75),
            np.mean([one["turns"] for one in metrics]),
            np.mean([one["steps"] for one in metrics]),
            np.mean([one["active_share"] for one in metrics]),
            np.mean([one["compactions"] for one in metrics]),
        ]
        assert ours == pytest.approx(theirs)
        assert row.tokens == sum(sum(usage["tokens"].values()) for one in results for usage in one["usage"])
        assert row.findings == sum(bool(one["verdict"]["findings"]) for one in counted)


def test_failure_reasons_are_counted_from_the_causes(stores: list[RunStore], rows: list[RunRow]) -> None:
    for store, row in zip(stores, rows, strict=True):
        causes = Counter(one["cause"] for one in graded(store) if one["status"] == "unresolved")
        assert sorted(row.failure_reasons.values()) == sorted(causes.values())
        assert row.failure_reasons["tests failed"] == causes["tests_failed"]
        assert row.failure_reasons["agent timeout"] == causes["agent_timeout"]


def test_several_trials_give_pass_at_k(stores: list[RunStore], rows: list[RunRow]) -> None:
    tasks: dict[str, list[bool]] = {}
    for one in graded(stores[2]):
        tasks.setdefault(one["task_id"], []).append(one["status"] == "resolved")
    assert min(map(len, tasks.values())) < 3  # of some task a trial is an error; the others have three
    assert [(one.k, one.tasks) for one in rows[2].pass_at_k] == [
        (k, sum(len(marks) >= k for marks in tasks.values())) for k in (1, 2, 3)
    ]
    whole = [marks for marks in tasks.values() if len(marks) == 3]
    assert rows[2].pass_at_k[2].pass_at_k.value == pytest.approx(np.mean([any(marks) for marks in whole]))
    assert rows[2].pass_at_k[2].pass_hat_k.value == pytest.approx(np.mean([all(marks) for marks in whole]))
    pairs = [
        [(a, b) for i, a in enumerate(marks) for b in marks[i + 1 :]] for marks in tasks.values() if len(marks) > 1
    ]
    assert rows[2].pass_at_k[1].pass_at_k.value == pytest.approx(
        np.mean([np.mean([a or b for a, b in some]) for some in pairs])
    )
    assert rows[2].pass_at_k[1].pass_hat_k.value == pytest.approx(
        np.mean([np.mean([a and b for a, b in some]) for some in pairs])
    )
    assert rows[0].pass_at_k == ()


def test_roles_add_up_to_what_their_members_did(stores: list[RunStore], rows: list[RunRow]) -> None:
    members = [member for one in graded(stores[1]) for member in one["metrics"]["members"]]
    for role in rows[1].roles:
        mine = [member for member in members if member["role"] == role.role]
        assert role.cost_usd == pytest.approx(sum(map(cost, mine)))
        idle, active = (sum(member[name] for member in mine) for name in ("idle_seconds", "active_seconds"))
        assert role.idle_share == pytest.approx(idle / (idle + active))


def test_the_comparison_is_that_of_the_files(stores: list[RunStore], comparisons: list[RunComparison]) -> None:
    first, second = ({one["task_id"]: one for one in graded(store)} for store in stores[:2])
    common = first.keys() & second.keys()
    table = np.zeros((2, 2), int)
    for task in common:
        table[int(first[task]["status"] == "resolved"), int(second[task]["status"] == "resolved")] += 1
    comparison = comparisons[0].comparison
    assert (comparison.common, comparison.both, comparison.neither) == (len(common), table[1, 1], table[0, 0])
    assert (len(comparison.gained), len(comparison.lost)) == (table[0, 1], table[1, 0])
    assert comparison.p_value == pytest.approx(statsmodels_tables.mcnemar(table, exact=True).pvalue)
    assert comparison.cost is not None
    differences = [cost(second[task]) - cost(first[task]) for task in common]
    student = scipy_stats.ttest_1samp(differences, 0).confidence_interval()
    assert comparison.cost.difference.value == pytest.approx(np.mean(differences))
    assert comparison.cost.difference.low == pytest.approx(student.low, abs=0.05)
    assert comparison.cost.difference.high == pytest.approx(student.high, abs=0.05)
    assert comparison.seconds is not None
    assert comparison.seconds.first == pytest.approx(np.mean([first[task]["agent_seconds"] for task in common]))
    assert comparison.adjusted_p == pytest.approx(min(1, 2 * comparison.p_value))
    assert comparison.conclusion == 1


def test_a_comparison_names_differences_and_whether_a_team_is_worth_it(comparisons: list[RunComparison]) -> None:
    assert [str(one) for one in comparisons[0].differences] == ["mode: baseline and h2", "preset: empty and opus"]
    assert comparisons[0].warnings == ()
    assert comparisons[1].warnings == (
        "run-001 and run-003 differ: tasks: 100 and 60, 60 in common",
        "run-001 and run-003 differ: trials: 1 and 3",
        "run-001 and run-003 differ: concurrency: 1 and 4",
    )
    assert comparisons[0].team is not None
    assert (comparisons[0].team.team, comparisons[0].team.single) == ("run-002", "run-001")
    assert comparisons[1].team is None


def test_a_comparison_reads_well_in_text_and_markdown(
    stores: list[RunStore], comparisons: list[RunComparison], rows: list[RunRow]
) -> None:
    document = comparison_document(rows, comparisons)
    text = document_text(document)
    assert text.startswith("run-002, run-003 against run-001\n====")
    assert text.splitlines()[-2:] == [one.comparison.sentence for one in comparisons]
    markdown = document_markdown(document)
    assert markdown.startswith("> run-001 and run-003 differ: tasks: 100 and 60, 60 in common\n")
    assert f"| {comparisons[0].comparison.gained[0]} | gained | run-002 |" in markdown
    assert comparison_report(rows, comparisons).comparisons[0].conclusion == 1


def test_a_run_is_not_compared_with_itself(stores: list[RunStore]) -> None:
    with pytest.raises(Exception, match="cannot be compared with itself"):
        compare_runs([stores[0], stores[0]])


def test_runs_of_the_same_name_are_named_by_their_folders(stores: list[RunStore], tmp_path: Path) -> None:
    twin = store_run(tmp_path, "run-001", tasks=30, seed=7)
    rows, comparisons = compare_runs([stores[0], twin])
    assert [row.run_id for row in rows] == [str(stores[0].folder), str(twin.folder)]
    assert comparisons[0].comparison.common > 20


def test_runs_of_two_benchmarks_are_not_compared(stores: list[RunStore], tmp_path: Path) -> None:
    stranger = store_run(tmp_path, "run-009", tasks=3, benchmark="other")
    with pytest.raises(Exception, match="runs of two benchmarks, core and other"):
        compare_runs([stores[0], stranger])
    with pytest.raises(Exception, match="runs of two benchmarks"):
        break_down([stores[0], stranger], ())


def test_the_frontier_is_reported_with_bootstrap_frequencies(stores: list[RunStore], rows: list[RunRow]) -> None:
    results = pareto_of_runs(stores, ("rate", "cost"))
    assert {result.point.run: result.on_frontier for result in results} == {
        row.run_id: not any(
            (other.rate or 0) >= (row.rate or 0) and (other.avg_cost_usd or 0) < (row.avg_cost_usd or 0)
            for other in rows
        )
        for row in rows
    }
    text = document_text(pareto_document("core", results, ("rate", "cost")))
    assert "On the Pareto frontier of rate, cost: " in text


def test_a_breakdown_counts_every_task_once(stores: list[RunStore]) -> None:
    language, difficulty = break_down(stores[:2], ())
    assert (language.field, difficulty.field) == ("language", "difficulty")
    second = {one["task_id"] for one in graded(stores[1])}
    tasks = Counter(one["categories"]["language"] for one in graded(stores[0]) if one["task_id"] in second)
    assert {group.value: group.tasks for group in language.groups} == tasks
    table = list(csv.DictReader(io.StringIO(breakdown_csv([language]))))
    assert [line["group_value"] for line in table] == [group.value for group in language.groups]
    with pytest.raises(Exception, match="have no field 'colour'; choose one of language, difficulty, tag"):
        break_down(stores[:1], ("colour",))


def test_csv_has_a_column_for_every_number(rows: list[RunRow]) -> None:
    read = list(csv.DictReader(io.StringIO(runs_csv(rows))))
    for line, row in zip(read, rows, strict=True):
        assert row.cost is not None
        assert row.cost.low is not None
        assert row.time_distribution is not None
        assert float(line["cost_low"]) == row.cost.low
        assert float(line["time_distribution_p90"]) == row.time_distribution.p90
        assert int(line["resolved"]) == row.resolved
    assert "failure_reasons" not in read[0]
