"""Charts, as specifications in Vega-Lite's grammar, and how they become pictures.

`vl-convert-python` carries Vega-Lite and draws static SVG from a specification: no browser, no script in the page, no
request to anybody, one wheel without dependencies. Colours are CSS variables of the page, so that one picture is right
in the dark, in the light and on paper.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from proctor.analysis.breakdowns import Breakdown
from proctor.analysis.paired import Comparison
from proctor.analysis.pareto import ParetoResult
from proctor.analysis.runs import RunRow
from proctor.core.errors import UsageError
from proctor.core.published_result import PublishedResult
from proctor.report.document import Chart

_INK, _MUTED, _LINE, _MARK, _OTHER = "var(--ink)", "var(--muted)", "var(--line)", "var(--mark)", "var(--other)"
_WIDTH: Final = 320
_ROW: Final = 26
_MAX_PUBLISHED: Final = 8
_MAX_INTEGER_TICKS: Final = 10
_MAX_LABELS: Final = 6
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
    """The picture, as SVG to be put into a page.

    Raises:
        UsageError: the library that draws is not installed.
    """
    try:
        import vl_convert  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415 - only here
    except ImportError as error:
        raise UsageError("charts are drawn by vl-convert-python", fix="pip install 'proctor[charts]'") from error

    specification = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _STYLE, **chart}
    picture: str = vl_convert.vegalite_to_svg(specification, allowed_base_urls=[])
    return picture


def rates_chart(rows: Sequence[RunRow], published: Sequence[PublishedResult] = ()) -> Chart:
    """Every run's rate with its interval; what others have published below, hollow and without one."""
    ours = [
        {"name": row.run_id, "rate": row.rate, "low": row.low, "high": row.high, "whose": "ours"}
        for row in rows
        if row.rate is not None
    ]
    theirs = [
        {"name": f"{one.model} + {one.agent}", "rate": one.rate, "whose": "published"}
        for one in published[:_MAX_PUBLISHED]
        if one.rate is not None
    ]
    values: list[dict[str, Any]] = [*ours, *theirs]
    across = {
        "field": "rate",
        "type": "quantitative",
        "title": "resolved",
        "axis": _PERCENT,
        "scale": _rate_scale(values),
    }
    return {
        "width": _WIDTH,
        "height": _ROW * len(values),
        "data": {"values": values},
        "encoding": {"y": _row_axis("name", [str(value["name"]) for value in values])},
        "layer": [
            {"mark": "rule", "encoding": {"x": {**across, "field": "low"}, "x2": {"field": "high"}}},
            {
                "transform": [{"filter": "datum.whose == 'ours'"}],
                "mark": "point",
                "encoding": {"x": across},
            },
            {
                "transform": [{"filter": "datum.whose != 'ours'"}],
                "mark": {"type": "point", "filled": False, "color": _MUTED, "strokeWidth": 2},
                "encoding": {"x": across},
            },
        ],
    }


def pareto_chart(results: Sequence[ParetoResult]) -> Chart:
    """Cost against rate, each with its interval; the runs that no other beats in both are joined."""
    values: list[dict[str, Any]] = [
        {
            "run": standing.point.run,
            "rate": standing.point.rate.value,
            "low": standing.point.rate.low,
            "high": standing.point.rate.high,
            "cost": standing.point.cost.value,
            "least": standing.point.cost.low if standing.point.cost.low is not None else standing.point.cost.value,
            "most": standing.point.cost.high if standing.point.cost.high is not None else standing.point.cost.value,
        }
        for standing in results
        if standing.point.rate is not None and standing.point.cost is not None
    ]
    for place, value in enumerate(sorted(values, key=lambda value: (value["cost"], value["rate"]))):
        value["above"] = place % 2 == 0  # neighbours' names do not lie on each other
        value["front"] = "on the front" if _is_undominated(value, values) else "beaten in both"
        # Among many, the names of those that matter can be read; all of them would lie on each other.
        value["named"] = value["run"] if len(values) <= _MAX_LABELS or value["front"] == "on the front" else ""
    costs = [float(value["cost"]) for value in values]
    wide = len(costs) > 1 and min(costs) > 0 and max(costs) / min(costs) > 30  # noqa: PLR2004 - more than one axis shows
    across = {
        "field": "cost",
        "type": "quantitative",
        "title": "dollars per answer",
        "axis": {"format": "$~r", "tickCount": 5},
        "scale": {"type": "log"} if wide else {"zero": True, "nice": True},
    }
    up = {"field": "rate", "type": "quantitative", "title": "resolved", "axis": _PERCENT, "scale": _rate_scale(values)}
    colour = {
        "field": "front",
        "type": "nominal",
        "scale": {"domain": ["on the front", "beaten in both"], "range": [_MARK, _OTHER]},
        "legend": {"title": None},
    }
    return {
        "width": _WIDTH,
        "height": 260,
        "data": {"values": values},
        "layer": [
            {
                "transform": [{"filter": "datum.front == 'on the front'"}],
                "mark": {"type": "line", "interpolate": "step-after", "color": _MARK, "strokeDash": [4, 3]},
                "encoding": {"x": across, "y": up, "order": {"field": "cost", "type": "quantitative"}},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {"x": across, "y": {**up, "field": "low"}, "y2": {"field": "high"}, "color": colour},
            },
            {
                "mark": {"type": "rule", "strokeWidth": 1},
                "encoding": {"x": {**across, "field": "least"}, "x2": {"field": "most"}, "y": up, "color": colour},
            },
            {"mark": "point", "encoding": {"x": across, "y": up, "color": colour}},
            *(
                {
                    "transform": [{"filter": f"datum.above == {str(above).lower()}"}],
                    "mark": {"type": "text", "align": "left", "dx": 6, "dy": -8 if above else 12},
                    "encoding": {"x": across, "y": up, "text": {"field": "named", "type": "nominal"}},
                }
                for above in (True, False)
            ),
        ],
    }


def times_chart(rows: Sequence[RunRow]) -> Chart:
    """How long answers took: from the shortest to the longest, the middle half as a bar, the median as a tick."""
    times = {row.run_id: row.time_distribution for row in rows if row.time_distribution is not None}
    short = all(time.maximum < _TWO_MINUTES for time in times.values())
    unit, name = (1, "seconds") if short else (_MINUTE, "minutes")
    values = [
        {
            "run": run,
            "minimum": time.minimum / unit,
            "quarter": time.p25 / unit,
            "median": time.p50 / unit,
            "three_quarters": time.p75 / unit,
            "maximum": time.maximum / unit,
        }
        for run, time in times.items()
    ]
    across = {"type": "quantitative", "title": f"{name} per answer", "scale": {"zero": True}}
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
                "encoding": {"x": {**across, "field": "quarter"}, "x2": {"field": "three_quarters"}},
            },
            {"mark": "tick", "encoding": {"x": {**across, "field": "median"}}},
        ],
    }


def flips_chart(comparisons: Sequence[Comparison]) -> Chart:
    """How many tasks were gained, and how many lost, against the first run."""
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
                "title": f"tasks lost and gained against {comparisons[0].first.run}",
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
    across = {
        "field": "rate",
        "type": "quantitative",
        "title": "resolved",
        "axis": _PERCENT,
        "scale": _rate_scale(values),
    }
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


def _rate_scale(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From nothing to a little above the highest rate shown, so that small rates can be told apart."""
    highest = max((float(value.get("high") or value["rate"]) for value in values), default=1.0)
    return {"domain": [0, min(1.0, max(0.1, highest * 1.05))], "nice": True, "clamp": True}


def _integer_ticks(low: int, high: int) -> dict[str, Any]:
    """Where an axis of few whole numbers has its ticks: left alone, it would have some in between."""
    return {"values": list(range(low, high + 1))} if high - low < _MAX_INTEGER_TICKS else {}


def _is_undominated(point: Mapping[str, Any], values: Sequence[Mapping[str, Any]]) -> bool:
    return not any(
        other["rate"] >= point["rate"]
        and other["cost"] <= point["cost"]
        and (other["rate"], other["cost"]) != (point["rate"], point["cost"])
        for other in values
    )
