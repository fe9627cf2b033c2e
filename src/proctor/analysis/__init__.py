"""Statistics over results: intervals, tests, comparisons, scores. Pure functions over records.

`Observation` is the input of all of them: one trial of one task, read from a stored result. Each name is imported when
it is first used, so that a report over many runs needs little memory.
"""

from typing import TYPE_CHECKING

from proctor.core import lazy_names

if TYPE_CHECKING:
    from proctor.analysis.breakdowns import Breakdown, breakdown
    from proctor.analysis.comparability import Difference, differences
    from proctor.analysis.gate import GateDecision, GateRule, decide, parse_rule
    from proctor.analysis.intervals import Estimate, Interval, wilson
    from proctor.analysis.observation import Observation, to_observation
    from proctor.analysis.paired import Comparison, adjust_p_values, compare
    from proctor.analysis.pareto import ParetoPoint, ParetoResult, pareto_results
    from proctor.analysis.pod_vs_best_of_n import TeamComparison, compare_team
    from proctor.analysis.runs import RunRow, run_row
    from proctor.analysis.score import ScoreSummary, score_file, score_report, score_table

__all__ = [
    "Breakdown",
    "Comparison",
    "Difference",
    "Estimate",
    "GateDecision",
    "GateRule",
    "Interval",
    "Observation",
    "ParetoPoint",
    "ParetoResult",
    "RunRow",
    "ScoreSummary",
    "TeamComparison",
    "adjust_p_values",
    "breakdown",
    "compare",
    "compare_team",
    "decide",
    "differences",
    "pareto_results",
    "parse_rule",
    "run_row",
    "score_file",
    "score_report",
    "score_table",
    "to_observation",
    "wilson",
]


if not TYPE_CHECKING:  # a type checker would take every name for exported
    __getattr__ = lazy_names(
        __name__,
        {
            "comparability": ("Difference", "differences"),
            "gate": ("GateDecision", "GateRule", "decide", "parse_rule"),
            "breakdowns": ("Breakdown", "breakdown"),
            "intervals": ("Estimate", "Interval", "wilson"),
            "observation": ("Observation", "to_observation"),
            "paired": ("Comparison", "compare", "adjust_p_values"),
            "pareto": ("ParetoPoint", "ParetoResult", "pareto_results"),
            "runs": ("RunRow", "run_row"),
            "score": ("ScoreSummary", "score_file", "score_report", "score_table"),
            "pod_vs_best_of_n": ("TeamComparison", "compare_team"),
        },
    )
