"""Charts as Vega-Lite specifications, and their rendering as SVG.

`vl-convert-python` contains Vega-Lite and renders static SVG from a specification: no browser, no script in the page,
no network, one wheel without dependencies. Colours are CSS variables of the page, so that a chart fits a dark page, a
light page and paper.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from proctor.analysis.breakdowns import Breakdown
from proctor.analysis.paired import Comparison
from proctor.analysis.pareto import ParetoResult, dominates
from proctor.analysis.runs import RunRow
from proctor.core.errors import UsageError
from proctor.core.formatting import truncate_line
from proctor.core.published_result import PublishedResult
from proctor.report.document import Chart
from proctor.report.label_layout import LabelPlace, place_labels

_INK, _MUTED, _LINE, _MARK, _OTHER = "var(--ink)", "var(--muted)", "var(--line)", "var(--mark)", "var(--other)"
_WIDTH: Final = 320
_HEIGHT: Final = 260
_ROW: Final = 26
_MAX_PUBLISHED: Final = 8
_MAX_INTEGER_TICKS: Final = 10
_MAX_LABEL: Final = 24
_WIDE: Final = 30
_FRONTIER: Final = "Pareto frontier"
_DOMINATED: Final = "dominated"
_MINUTE: Final = 60
_TWO_MINUTES: Final = 120
_STYLE: Final[Mapping[str, Any]] = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "domainColor": _LINE,
        "gridColor": _LINE,
        "tickColor": _LINE,
        "labelColor": _INK,
        "titleColor": _MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 170,
    },
    "legend": {
        "columnPadding": 18,
        "labelColor": _INK,
        "labelFontSize": 12,
        "title": None,
        "orient": "top",
        "labelLimit": 220,
    },
    "rule": {"color": _MARK, "strokeWidth": 2},
    "point": {"color": _MARK, "filled": True, "size": 70, "opacity": 1},
    "tick": {"color": _INK, "thickness": 2, "size": 16},
    "bar": {"color": _MARK},
    "text": {"color": _INK, "fontSize": 12},
}
_PERCENT: Final = {"format": "%", "tickCount": 5}


def render_svg(chart: Chart) -> str:
    """The chart as SVG for a page.

    Raises:
        UsageError: the rendering library is not installed.
    """
    try:
        import vl_convert  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise UsageError("charts need vl-convert-python", fix="pip install 'proctor[charts]'") from error

    specification = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _STYLE, **chart}
    picture: str = vl_convert.vegalite_to_svg(specification, allowed_base_urls=[])
    return picture


def rates_chart(rows: Sequence[RunRow], published: Sequence[PublishedResult] = ()) -> Chart:
    """Every run's rate with its interval; published results below, hollow and without one."""
    ours = [
        {"name": row.title, "rate": row.rate, "low": row.low, "high": row.high, "source": "run"}
        for row in rows
        if row.rate is not None
    ]
    theirs = [
        {"name": f"{one.model} + {one.agent}", "rate": one.rate, "source": "published"}
        for one in published[:_MAX_PUBLISHED]
        if one.rate is not None
    ]
    values: list[dict[str, Any]] = [*ours, *theirs]
    across = _rate_axis(values)
    return {
        "width": _WIDTH,
        "height": _ROW * len(values),
        "data": {"values": values},
        "encoding": {"y": _row_axis("name", [str(value["name"]) for value in values])},
        "layer": [
            {"mark": "rule", "encoding": {"x": {**across, "field": "low"}, "x2": {"field": "high"}}},
            {
                "transform": [{"filter": "datum.source == 'run'"}],
                "mark": "point",
                "encoding": {"x": across},
            },
            {
                "transform": [{"filter": "datum.source != 'run'"}],
                "mark": {"type": "point", "filled": False, "color": _MUTED, "strokeWidth": 2},
                "encoding": {"x": across},
            },
        ],
    }


def pareto_chart(results: Sequence[ParetoResult]) -> Chart:
    """Cost against rate, each with its interval; the runs on the Pareto frontier of the two are joined."""
    values: list[dict[str, Any]] = [
        {
            "run": point.run,
            "rate": point.rate.value,
            "low": point.rate.low,
            "high": point.rate.high,
            "cost": point.cost.value,
            "cost_low": point.cost.low if point.cost.low is not None else point.cost.value,
            "cost_high": point.cost.high if point.cost.high is not None else point.cost.value,
        }
        for point in (result.point for result in results)
        if point.rate is not None and point.cost is not None
    ]
    objectives = [(value["rate"], -value["cost"]) for value in values]
    for value in values:
        own = (value["rate"], -value["cost"])
        value["frontier"] = _DOMINATED if any(dominates(other, own) for other in objectives) else _FRONTIER
    costs = _cost_scale(values)
    across = {
        "field": "cost",
        "type": "quantitative",
        "title": "dollars per trial",
        "axis": {"format": "$~r", "tickCount": 5},
        "scale": costs,
    }
    up = _rate_axis(values)
    colour = {
        "field": "frontier",
        "type": "nominal",
        "scale": {"domain": [_FRONTIER, _DOMINATED], "range": [_MARK, _OTHER]},
        "legend": {"title": None},
    }
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "data": {"values": values},
        "layer": [
            {
                "transform": [{"filter": f"datum.frontier == '{_FRONTIER}'"}],
                "mark": {"type": "line", "interpolate": "step-after", "color": _MARK, "strokeDash": [4, 3]},
                "encoding": {"x": across, "y": up, "order": {"field": "cost", "type": "quantitative"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {"x": across, "y": {**up, "field": "low"}, "y2": {"field": "high"}, "color": colour},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {
                    "x": {**across, "field": "cost_low"},
                    "x2": {"field": "cost_high"},
                    "y": up,
                    "color": colour,
                },
            },
            {"mark": "point", "encoding": {"x": across, "y": up, "color": colour}},
            *(
                {
                    "data": {"values": [value]},
                    "mark": {"type": "text", **place._asdict()},
                    "encoding": {"x": across, "y": up, "text": {"value": label}},
                }
                for value, label, place in _labels(values, costs, up["scale"])
            ),
        ],
    }


def _labels(
    values: Sequence[dict[str, Any]], costs: Mapping[str, Any], rates: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], str, LabelPlace]]:
    """The names of runs beside their points: of those on the frontier first, and of others where there is space.

    The table has all names.
    """
    ordered = sorted(values, key=lambda value: (value["frontier"] != _FRONTIER, value["cost"], value["rate"]))
    points = [
        (_WIDTH * _position(costs, value["cost"]), _HEIGHT * (1 - _position(rates, value["rate"]))) for value in ordered
    ]
    labels = [truncate_line(str(value["run"]), _MAX_LABEL) for value in ordered]
    places = place_labels(points, labels, width=_WIDTH, height=_HEIGHT)
    yield from ((value, label, place) for value, label, place in zip(ordered, labels, places, strict=True) if place)


def _position(scale: Mapping[str, Any], value: float) -> float:
    """Where a value is on an axis, from 0 to 1."""
    low, high = map(float, scale["domain"])
    if scale.get("type") == "log":
        low, high, value = math.log(low), math.log(high), math.log(max(value, low))
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _cost_scale(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From 0, or on a log scale where the costs differ by more than one axis shows."""
    costs = [float(value["cost"]) for value in values]
    highest = max((float(value["cost_high"]) for value in values), default=1.0)
    if len(costs) > 1 and min(costs) > 0 and max(costs) / min(costs) > _WIDE:
        lowest = min(float(value["cost_low"]) for value in values if value["cost_low"] > 0)
        return {"type": "log", "domain": [lowest / 1.2, highest * 1.2], "nice": False, "clamp": True}
    return {"domain": [0, _round_up(highest) if highest > 0 else 1.0], "nice": False, "clamp": True}


def _round_up(value: float) -> float:
    """The next number that ends an axis well."""
    magnitude = 10.0 ** math.floor(math.log10(value))
    return next(step * magnitude for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * magnitude >= value)


def times_chart(rows: Sequence[RunRow]) -> Chart:
    """The time per trial: the range as a line, p25 to p75 as a bar, p50 as a tick."""
    times = {row.title: row.time_distribution for row in rows if row.time_distribution is not None}
    short = all(time.maximum < _TWO_MINUTES for time in times.values())
    unit, name = (1, "seconds") if short else (_MINUTE, "minutes")
    values = [
        {
            "run": run,
            "minimum": time.minimum / unit,
            "p25": time.p25 / unit,
            "p50": time.p50 / unit,
            "p75": time.p75 / unit,
            "maximum": time.maximum / unit,
        }
        for run, time in times.items()
    ]
    across = {"type": "quantitative", "title": f"{name} per trial", "scale": {"zero": True}}
    return {
        "width": _WIDTH,
        "height": _ROW * len(values),
        "data": {"values": values},
        "encoding": {"y": _row_axis("run", [str(value["run"]) for value in values])},
        "layer": [
            {
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {"x": {**across, "field": "minimum"}, "x2": {"field": "maximum"}},
            },
            {
                "mark": {"type": "bar", "height": 12},
                "encoding": {"x": {**across, "field": "p25"}, "x2": {"field": "p75"}},
            },
            {"mark": "tick", "encoding": {"x": {**across, "field": "p50"}}},
        ],
    }


def flips_chart(comparisons: Sequence[Comparison]) -> Chart:
    """How many tasks were gained and lost compared with the first run."""
    most = max(1, *(max(len(one.gained), len(one.lost)) for one in comparisons))
    values = [
        value
        for one in comparisons
        for value in (
            {"run": one.second.run, "flip": "gained", "tasks": len(one.gained)},
            {"run": one.second.run, "flip": "lost", "tasks": -len(one.lost)},
        )
    ]
    return {
        "width": _WIDTH,
        "height": _ROW * len(comparisons),
        "data": {"values": values},
        "mark": {"type": "bar", "height": 14},
        "encoding": {
            "y": _row_axis("run", [one.second.run for one in comparisons]),
            "x": {
                "field": "tasks",
                "type": "quantitative",
                "title": f"tasks lost and gained compared with {comparisons[0].first.run}",
                "axis": {"format": "+d", **_integer_ticks(-most, most)},
                "scale": {"domain": [-most, most]},
            },
            "color": {
                "field": "flip",
                "type": "nominal",
                "scale": {"domain": ["lost", "gained"], "range": [_OTHER, _MARK]},
                "legend": {"title": None},
            },
        },
    }


def breakdown_chart(found: Breakdown) -> Chart:
    """The rate in every group with its interval, of one run or of two."""
    values = [
        {"group": group.value, "run": run, "rate": estimate.value, "low": estimate.low, "high": estimate.high}
        for group in found.groups
        for run, estimate in zip(found.runs, (group.rate, group.second), strict=False)
        if estimate is not None
    ]
    across = _rate_axis(values)
    groups = [group.value for group in found.groups]
    shared = {
        "y": _row_axis("group", groups),
        "yOffset": {"field": "run", "type": "nominal", "sort": list(found.runs)},
        "color": {
            "field": "run",
            "type": "nominal",
            "scale": {"domain": list(found.runs), "range": [_MARK, _OTHER][: len(found.runs)]},
            "legend": {"title": None} if len(found.runs) > 1 else None,
        },
    }
    return {
        "width": _WIDTH,
        "height": _ROW * len(groups) * len(found.runs),
        "data": {"values": values},
        "encoding": shared,
        "layer": [
            {"mark": "rule", "encoding": {"x": {**across, "field": "low"}, "x2": {"field": "high"}}},
            {"mark": "point", "encoding": {"x": across}},
        ],
    }


def _row_axis(field: str, order: Sequence[str]) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "title": None, "sort": list(order), "axis": {"ticks": False}}


def _rate_axis(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From 0 to a little above the highest rate, so that small rates can be distinguished."""
    highest = max((float(value.get("high") or value["rate"]) for value in values), default=1.0)
    scale = {"domain": [0, min(1.0, _round_up(max(0.1, highest * 1.02)))], "nice": False, "clamp": True}
    return {"field": "rate", "type": "quantitative", "title": "resolved", "axis": _PERCENT, "scale": scale}


def _integer_ticks(low: int, high: int) -> dict[str, Any]:
    """Ticks at whole numbers only, for an axis of few of them; few ticks, for one of many."""
    return {"values": list(range(low, high + 1))} if high - low < _MAX_INTEGER_TICKS else {"tickCount": 5}
