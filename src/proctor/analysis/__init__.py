"""What results mean: intervals, scores. Pure functions over records; nothing here runs anything."""

from proctor.analysis.intervals import Interval, wilson
from proctor.analysis.score import Score, score_file, score_report, score_table

__all__ = ["Interval", "Score", "score_file", "score_report", "score_table", "wilson"]
