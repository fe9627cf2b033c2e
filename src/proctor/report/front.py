"""Rate, cost and time together, in words and pictures."""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from proctor.analysis.observation import Observation
from proctor.analysis.pareto import Objective, Standing, TaskSums, standings
from proctor.analysis.runs import run_row
from proctor.core.record import Record
from proctor.report.charts import front_chart
from proctor.report.document import Chart, Document, Section
from proctor.report.reading import shown_name
from proctor.report.runs import point_of
from proctor.report.tables import Table
from proctor.report.words import NOTHING, duration, interval, money_interval, percent
from proctor.results import RunStore


class ParetoReport(Record):
    """What `bench pareto` says, for programs."""

    benchmark: str
    objectives: tuple[Objective, ...]
    runs: tuple[Standing, ...]
    schema_version: Literal["proctor.pareto@1"] = "proctor.pareto@1"


def front_of(stores: Sequence[RunStore], objectives: Sequence[Objective]) -> tuple[Standing, ...]:
    """Where each run stands among these."""
    points, sums = [], {}
    for store in stores:
        name = shown_name(store)
        counted = sums[name] = TaskSums()
        row = run_row(store.config(), counted.counting(store.results_as(Observation)))
        points.append(point_of(replace(row, run_id=name)))
    return standings(points, sums, objectives=objectives)


def front_document(
    title: str, places: Sequence[Standing], objectives: Sequence[Objective], warnings: Sequence[str] = ()
) -> Document:
    """What `pareto` says."""
    table = Table(
        title=title,
        headings=("Run ID", "Rate", "95 % interval", "Cost (95 % interval)", "Time", "Front", "How sure", "Beaten by"),
        rows=tuple(_row(standing) for standing in places),
    )
    charts: tuple[tuple[str, Chart], ...] = ()
    if any(standing.point.rate and standing.point.cost for standing in places):
        charts = (("Cost against rate, with the front", front_chart(places)),)
    section = Section(table=table, charts=charts, sentences=_sentences(places, objectives))
    return Document(title=title, sections=(section,), warnings=tuple(warnings))


def _row(standing: Standing) -> tuple[str, ...]:
    point = standing.point
    return (
        point.run,
        percent(point.rate.value if point.rate else None),
        interval(point.rate.low, point.rate.high) if point.rate else NOTHING,
        money_interval(point.cost),
        duration(point.seconds.value if point.seconds else None),
        {True: "yes", False: "no", None: "not known"}[standing.on_front],
        percent(standing.share),
        ", ".join(standing.dominated_by),
    )


def _sentences(places: Sequence[Standing], objectives: Sequence[Objective]) -> tuple[str, ...]:
    names = {"rate": "rate", "cost": "cost", "seconds": "time"}
    front = [standing.point.run for standing in places if standing.on_front]
    beaten = [standing.point.run for standing in places if standing.on_front is False]
    lacking = [standing.point.run for standing in places if standing.on_front is None]
    told = f"On the front of {', '.join(names[one] for one in objectives)}: {', '.join(front) or 'none'}."
    return (
        told,
        *([f"Beaten by another run: {', '.join(beaten)}."] if beaten else []),
        *([f"Without a place, for want of a number: {', '.join(lacking)}."] if lacking else []),
        "How sure: how often a run is on the front when the tasks are drawn again.",
    )
