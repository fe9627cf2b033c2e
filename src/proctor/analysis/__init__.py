"""What results mean: intervals, tests, comparisons, scores. Pure functions over records; nothing here runs anything.

`Observation` is what everything looks at: one answer to one task, read from a stored result.
"""

from proctor.analysis.breakdown import Breakdown, breakdown
from proctor.analysis.comparability import Difference, differences
from proctor.analysis.gate import Decision, Rule, decide, parse_rule
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
