"""Rate, cost and time together, in words and pictures."""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from proctor.analysis.observation import Observation
from proctor.analysis.pareto import Objective, ParetoResult, TaskSums, pareto_results
from proctor.analysis.runs import run_row
from proctor.core.record import Record
from proctor.report.charts import pareto_chart
from proctor.report.document import Chart, Document, Section
from proctor.report.formatting import NO_VALUE, duration, interval, money_interval, percent
from proctor.report.runs import pareto_point
from proctor.report.stored_runs import display_name
from proctor.report.tables import Table
from proctor.results import RunStore


class ParetoReport(Record):
    """What `bench pareto` says, for programs."""

    benchmark: str
    objectives: tuple[Objective, ...]
    runs: tuple[ParetoResult, ...]
    schema_version: Literal["proctor.pareto@1"] = "proctor.pareto@1"


def pareto_of_runs(stores: Sequence[RunStore], objectives: Sequence[Objective]) -> tuple[ParetoResult, ...]:
    """Where each run stands among these."""
    points, sums = [], {}
    for store in stores:
        name = display_name(store)
        counted = sums[name] = TaskSums()
        row = run_row(store.config(), counted.accumulate(store.results_as(Observation)))
        points.append(pareto_point(replace(row, run_id=name)))
    return pareto_results(points, sums, objectives=objectives)


def pareto_document(
    title: str, results: Sequence[ParetoResult], objectives: Sequence[Objective], warnings: Sequence[str] = ()
) -> Document:
    """What `pareto` says."""
    table = Table(
        title=title,
        headings=("Run ID", "Rate", "95 % interval", "Cost (95 % interval)", "Time", "Front", "How sure", "Beaten by"),
        rows=tuple(_row(standing) for standing in results),
    )
    charts: tuple[tuple[str, Chart], ...] = ()
    if any(standing.point.rate and standing.point.cost for standing in results):
        charts = (("Cost against rate, with the front", pareto_chart(results)),)
    section = Section(table=table, charts=charts, sentences=_sentences(results, objectives))
    return Document(title=title, sections=(section,), warnings=tuple(warnings))


def _row(result: ParetoResult) -> tuple[str, ...]:
    point = result.point
    return (
        point.run,
        percent(point.rate.value if point.rate else None),
        interval(point.rate.low, point.rate.high) if point.rate else NO_VALUE,
        money_interval(point.cost),
        duration(point.seconds.value if point.seconds else None),
        {True: "yes", False: "no", None: "not known"}[result.on_frontier],
        percent(result.bootstrap_frequency),
        ", ".join(result.dominated_by),
    )


def _sentences(results: Sequence[ParetoResult], objectives: Sequence[Objective]) -> tuple[str, ...]:
    names = {"rate": "rate", "cost": "cost", "seconds": "time"}
    front = [standing.point.run for standing in results if standing.on_frontier]
    beaten = [standing.point.run for standing in results if standing.on_frontier is False]
    lacking = [standing.point.run for standing in results if standing.on_frontier is None]
    told = f"On the front of {', '.join(names[one] for one in objectives)}: {', '.join(front) or 'none'}."
    return (
        told,
        *([f"Beaten by another run: {', '.join(beaten)}."] if beaten else []),
        *([f"Without a place, for want of a number: {', '.join(lacking)}."] if lacking else []),
        "How sure: how often a run is on the front when the tasks are drawn again.",
    )
