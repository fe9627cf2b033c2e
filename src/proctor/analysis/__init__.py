"""What results mean: intervals, tests, comparisons, scores. Pure functions over records; nothing here runs anything.

`Observation` is what everything looks at: one answer to one task, read from a stored result. Each name is imported when
it is first used: a report over many runs counts its megabytes.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from proctor.analysis.comparability import Difference, differences
    from proctor.analysis.gate import Decision, Rule, decide, parse_rule
    from proctor.analysis.groups import Breakdown, breakdown
    from proctor.analysis.intervals import Estimate, Interval, wilson
    from proctor.analysis.observation import Observation, observe
    from proctor.analysis.paired import Comparison, compare, corrected
    from proctor.analysis.pareto import Point, Standing, standings
    from proctor.analysis.runs import RunRow, run_row
    from proctor.analysis.score import Score, score_file, score_report, score_table
    from proctor.analysis.team import TeamVerdict, team_verdict

__all__ = [
    "Breakdown",
    "Comparison",
    "Decision",
    "Difference",
    "Estimate",
    "Interval",
    "Observation",
    "Point",
    "Rule",
    "RunRow",
    "Score",
    "Standing",
    "TeamVerdict",
    "breakdown",
    "compare",
    "corrected",
    "decide",
    "differences",
    "observe",
    "parse_rule",
    "run_row",
    "score_file",
    "score_report",
    "score_table",
    "standings",
    "team_verdict",
    "wilson",
]

_HOMES: Final = {
    "comparability": ("Difference", "differences"),
    "gate": ("Decision", "Rule", "decide", "parse_rule"),
    "groups": ("Breakdown", "breakdown"),
    "intervals": ("Estimate", "Interval", "wilson"),
    "observation": ("Observation", "observe"),
    "paired": ("Comparison", "compare", "corrected"),
    "pareto": ("Point", "Standing", "standings"),
    "runs": ("RunRow", "run_row"),
    "score": ("Score", "score_file", "score_report", "score_table"),
    "team": ("TeamVerdict", "team_verdict"),
}


if not TYPE_CHECKING:  # a type checker would take every name for exported

    def __getattr__(name: str) -> object:
        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        return value
