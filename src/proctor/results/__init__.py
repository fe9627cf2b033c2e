"""Results on disk: runs, their journals, sweeps, and caches.

Files are written whole or not at all; readers read only what they need.
"""

from typing import TYPE_CHECKING

from proctor.core import lazy_names
from proctor.core.result import usage_cost
from proctor.results.run_names import find_run, new_run
from proctor.results.store import RunStore, list_runs, summarise

if TYPE_CHECKING:
    from proctor.results.cache import RecordCache
    from proctor.results.journal import Journal, read_journal
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
    "usage_cost",
]

if not TYPE_CHECKING:  # a type checker would take every name for exported
    # Reports do not need the writing side, which imports asyncio and OpenSSL.
    __getattr__ = lazy_names(
        __name__,
        {
            "cache": ["RecordCache"],
            "journal": ["Journal", "read_journal"],
            "sweeps": ["SweepStore", "find_sweep", "new_sweep"],
        },
    )
