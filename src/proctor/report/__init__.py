"""Results for people and programs: tables, JSON, CSV, Markdown, HTML.

`stored_runs` reads runs; `runs`, `comparison`, `pareto` and `breakdown` make documents of them; `document` and `page`
write those. Other names are imported from their modules, so that a report over many runs needs little memory.
"""

from proctor.analysis.comparability import differences
from proctor.analysis.runs import RunRow, run_row
from proctor.report.stored_runs import run_names, run_rows

__all__ = ["RunRow", "differences", "run_names", "run_row", "run_rows"]
