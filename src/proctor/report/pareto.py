"""The report on the Pareto frontier of rate, cost and time."""

from collections.abc import Sequence
from typing import Literal

from proctor.analysis.intervals import Estimate
from proctor.analysis.observation import Observation
from proctor.analysis.pareto import Objective, ParetoResult, TaskSums, pareto_results
from proctor.analysis.runs import run_row
from proctor.core.formatting import NO_VALUE, duration, money, percent, percent_interval
from proctor.core.record import Record
from proctor.report.charts import pareto_chart
from proctor.report.document import Chart, Document, Section
from proctor.report.runs import pareto_point
from proctor.report.stored_runs import called, display_name
from proctor.report.tables import Table
from proctor.results import RunStore


class ParetoReport(Record):
    """`bench pareto` as JSON."""

    benchmark: str
    objectives: tuple[Objective, ...]
    runs: tuple[ParetoResult, ...]
    schema_version: Literal["proctor.pareto@2"] = "proctor.pareto@2"


def pareto_of_runs(stores: Sequence[RunStore], objectives: Sequence[Objective]) -> tuple[ParetoResult, ...]:
    """Which of these runs are on the Pareto frontier."""
    points, sums = [], {}
    for store in stores:
        name = display_name(store)
        counted = sums[name] = TaskSums()
        row = run_row(store.config(), counted.accumulate(store.results_as(Observation)))
        points.append(pareto_point(called(row, store)))
    return pareto_results(points, sums, objectives=objectives)


def pareto_document(
    title: str,
    results: Sequence[ParetoResult],
    objectives: Sequence[Objective],
    warnings: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Document:
    """The report of `pareto`; `notes` are on its runs."""
    table = Table(
        title=title,
        headings=(
            *("Run ID", "Rate", "95 % interval", "Cost (95 % interval)", "Time"),
            *("On frontier", "Bootstrap frequency", "Dominated by"),
        ),
        rows=tuple(_row(result) for result in results),
        notes=tuple(notes),
    )
    charts: tuple[tuple[str, Chart], ...] = ()
    if any(result.point.rate and result.point.cost for result in results):
        charts = (("Cost against rate, with the Pareto frontier", pareto_chart(results)),)
    section = Section(table=table, charts=charts, sentences=_sentences(results, objectives))
    return Document(title=title, sections=(section,), warnings=tuple(warnings))


def _row(result: ParetoResult) -> tuple[str, ...]:
    point = result.point
    return (
        point.run,
        percent(point.rate.value if point.rate else None),
        percent_interval(point.rate.low, point.rate.high) if point.rate else NO_VALUE,
        _cost(point.cost),
        duration(point.seconds.value if point.seconds else None),
        {True: "yes", False: "no", None: "unknown"}[result.on_frontier],
        percent(result.bootstrap_frequency),
        ", ".join(result.dominated_by),
    )


def _cost(estimate: Estimate | None) -> str:
    if estimate is None:
        return NO_VALUE
    ends = "" if estimate.low is None else f" ({money(estimate.low)} to {money(estimate.high)})"
    return f"{money(estimate.value)}{ends}"


def _sentences(results: Sequence[ParetoResult], objectives: Sequence[Objective]) -> tuple[str, ...]:
    names = {"rate": "rate", "cost": "cost", "seconds": "time"}
    runs = {
        state: ", ".join(result.point.run for result in results if result.on_frontier is state)
        for state in (True, False, None)
    }
    return (
        f"On the Pareto frontier of {', '.join(names[one] for one in objectives)}: {runs[True] or 'none'}.",
        *([f"Dominated: {runs[False]}."] if runs[False] else []),
        *([f"Not placed, a value is missing: {runs[None]}."] if runs[None] else []),
        "Bootstrap frequency: how often a run is on the frontier when the tasks are resampled.",
    )
