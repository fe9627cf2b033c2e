"""Results for people and programs: tables, JSON, CSV, Markdown, HTML."""

from proctor.analysis.comparability import differences
from proctor.analysis.runs import RunRow, run_row
from proctor.report.runs import run_tables, runs_csv, runs_table, runs_text
from proctor.report.tables import Table, as_markdown, as_text
from proctor.report.words import money

__all__ = [
    "RunRow",
    "Table",
    "as_markdown",
    "as_text",
    "differences",
    "money",
    "run_row",
    "run_tables",
    "runs_csv",
    "runs_table",
    "runs_text",
]
