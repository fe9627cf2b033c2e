"""Results for people and programs: tables, JSON, CSV."""

from proctor.report.runs import RunRow, differences, money, run_row, runs_csv, runs_text

__all__ = ["RunRow", "differences", "money", "run_row", "runs_csv", "runs_text"]
