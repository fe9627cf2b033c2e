"""Results on disk: runs, their journals, and what can be known again without paying twice.

Files are the truth. Everything is written whole or not at all, and nothing here reads more than it is asked about.
"""

from typing import TYPE_CHECKING, Any

from proctor.results.store import RunStore, find_run, list_runs, new_run, summarise, total_cost
from proctor.results.sweeps import SweepStore, find_sweep, new_sweep

if TYPE_CHECKING:
    from proctor.results.cache import RecordCache
    from proctor.results.journal import Journal, read_journal

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


def __getattr__(name: str) -> Any:
    """The writing side, when it is asked for: it brings asyncio and OpenSSL, half of what a report would hold."""
    if name == "RecordCache":
        from proctor.results.cache import RecordCache  # noqa: PLC0415 - as said

        return RecordCache
    if name in {"Journal", "read_journal"}:
        from proctor.results import journal  # noqa: PLC0415

        return getattr(journal, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
