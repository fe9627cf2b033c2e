"""Results on disk: runs, their journals, sweeps, and caches.

Files are written whole or not at all; readers read only what they need.
"""

import importlib
from typing import TYPE_CHECKING, Any, Final

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


_LAZY_MODULES: Final = {
    "cache": ("RecordCache",),
    "journal": ("Journal", "read_journal"),
    "sweeps": ("SweepStore", "find_sweep", "new_sweep"),
}


def __getattr__(name: str) -> Any:
    """Imports on first use what reports do not need: the writing side imports asyncio and OpenSSL."""
    found = next((module for module, names in _LAZY_MODULES.items() if name in names), None)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{found}"), name)
