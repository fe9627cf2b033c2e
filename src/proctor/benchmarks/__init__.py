"""One module or package per benchmark; nothing else knows a benchmark's name.

The registry is imported when one of its names is first used.
"""

from typing import TYPE_CHECKING

from proctor.benchmarks.plugins import published_rows
from proctor.core import lazy_names

if TYPE_CHECKING:
    from proctor.benchmarks.registry import (
        BenchmarkRow,
        benchmark,
        benchmark_table,
        fetch_dataset,
        harness_outcomes,
        parity,
        reopen,
        suite_benchmark,
    )

__all__ = [
    "BenchmarkRow",
    "benchmark",
    "benchmark_table",
    "fetch_dataset",
    "harness_outcomes",
    "parity",
    "published_rows",
    "reopen",
    "suite_benchmark",
]

if not TYPE_CHECKING:  # a type checker would take every name for exported
    __getattr__ = lazy_names(__name__, {"registry": [name for name in __all__ if name != "published_rows"]})
