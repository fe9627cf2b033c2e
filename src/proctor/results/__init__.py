"""Results on disk: runs, their journals, and what can be known again without paying twice.

Files are the truth. Everything is written whole or not at all, and nothing here reads more than it is asked about.
"""

from proctor.results.cache import RecordCache
from proctor.results.journal import Journal, read_journal
from proctor.results.store import RunStore, find_run, list_runs, new_run, summarise, total_cost
from proctor.results.sweeps import SweepStore, find_sweep, new_sweep

__all__ = [
    "Journal",
    "RecordCache",
    "RunStore",
    "SweepStore",
    "find_run",
    "find_sweep",
    "list_runs",
    "new_run",
    "new_sweep",
    "read_journal",
    "summarise",
    "total_cost",
]
