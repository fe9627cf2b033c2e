"""Results for people and programs: tables, JSON, CSV, Markdown, HTML.

`reading` reads stored runs; `runs`, `comparison`, `front` and `groups` make documents of them; `document` and `page`
write those down. What is not named here is imported from where it is: a report over many runs counts its megabytes.
"""

from proctor.analysis.comparability import differences
from proctor.analysis.runs import RunRow, run_row
from proctor.report.formatting import money
from proctor.report.stored_runs import run_names, run_rows

__all__ = ["RunRow", "differences", "money", "run_names", "run_row", "run_rows"]
