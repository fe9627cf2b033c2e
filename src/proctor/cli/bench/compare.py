"""What `compare`, `pareto` and `breakdown` do: runs held against each other."""

from collections.abc import Iterable
from typing import Any, Final

from proctor.analysis import Comparison, ParetoResult, parse_rule
from proctor.cli.bench.report import benchmark_runs
from proctor.cli.bench.report_output import check_formats, log_unreadable, print_report
from proctor.cli.output import log
from proctor.core.errors import UsageError
from proctor.report.breakdown import break_down, breakdown_csv, breakdown_document, breakdown_report
from proctor.report.comparison import compare_runs, comparison_document, comparison_report
from proctor.report.pareto import ParetoReport, pareto_document, pareto_of_runs
from proctor.report.stored_runs import condition_warnings, import_notes, run_names
from proctor.report.tables import records_csv
from proctor.results import find_run

GATE_FAILED: Final = 10  # the exit code of a gate that does not hold
_MIN_COMPARED: Final = 2
_MAX_BROKEN_DOWN: Final = 2
_OBJECTIVES: Final = {"rate": "rate", "cost": "cost", "time": "seconds"}


def print_comparison(runs: tuple[str, ...], *, rule: str | None, **given: Any) -> int:
    """``proctor bench compare``."""
    check_formats(given)
    gate = parse_rule(rule) if rule is not None else None
    if len(runs) < _MIN_COMPARED:
        raise UsageError("a comparison needs two runs", fix="name two or more")
    stores = [find_run(name) for name in runs]
    rows, comparisons = compare_runs(stores, gate)
    print_report(
        lambda: comparison_document(rows, comparisons),
        given,
        as_json=lambda: comparison_report(rows, comparisons),
        as_csv=lambda: records_csv(Comparison, [one.comparison for one in comparisons]),
    )
    log_unreadable(stores)
    failed = [one.decision for one in comparisons if one.decision is not None and not one.decision.passed]
    warnings = [warning for one in comparisons for warning in one.warnings]
    _log_for_programs((*warnings, *(one.sentence for one in failed)), given)
    return GATE_FAILED if failed else 0


def print_pareto(bench: str, *, names: tuple[str, ...], **given: Any) -> None:
    """``proctor bench pareto``."""
    check_formats(given)
    runs = benchmark_runs(bench)
    chosen = dict.fromkeys(names or _OBJECTIVES)
    objectives: Any = tuple(_OBJECTIVES[name] for name in chosen)
    results, warnings = pareto_of_runs(runs, objectives), condition_warnings(runs)
    print_report(
        lambda: pareto_document(f"{bench}: {', '.join(chosen)}", results, objectives, warnings, import_notes(runs)),
        given,
        as_json=lambda: ParetoReport(benchmark=bench, objectives=objectives, runs=results),
        as_csv=lambda: records_csv(ParetoResult, results),
    )
    log_unreadable(runs)
    _log_for_programs(warnings, given)


def print_breakdown(runs: tuple[str, ...], *, fields: tuple[str, ...], **given: Any) -> None:
    """``proctor bench breakdown``."""
    check_formats(given)
    if len(runs) > _MAX_BROKEN_DOWN:
        raise UsageError(f"a breakdown takes one run or two, not {len(runs)}", fix="leave some out")
    stores = [find_run(name) for name in runs]
    found = break_down(stores, fields)
    print_report(
        lambda: breakdown_document(" against ".join(reversed(run_names(stores))), found, import_notes(stores)),
        given,
        as_json=lambda: breakdown_report(found),
        as_csv=lambda: breakdown_csv(found),
    )
    log_unreadable(stores)


def _log_for_programs(sentences: Iterable[str], given: dict[str, Any]) -> None:
    """Where a program reads the results, warnings and failed gates go to stderr; people see them in the document."""
    if given["as_json"] or given["as_csv"]:
        for sentence in sentences:
            log(sentence)
