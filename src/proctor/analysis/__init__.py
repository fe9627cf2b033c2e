"""What results mean: intervals, tests, comparisons, scores. Pure functions over records; nothing here runs anything."""

from proctor.analysis.gate import Decision, Rule, decide, parse_rule
from proctor.analysis.intervals import Estimate, Interval, wilson
from proctor.analysis.observation import Observation, observe
from proctor.analysis.paired import Comparison, compare, corrected
from proctor.analysis.score import Score, score_file, score_report, score_table

__all__ = [
    "Comparison",
    "Decision",
    "Estimate",
    "Interval",
    "Observation",
    "Rule",
    "Score",
    "compare",
    "corrected",
    "decide",
    "observe",
    "parse_rule",
    "score_file",
    "score_report",
    "score_table",
    "wilson",
]
