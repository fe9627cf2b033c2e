"""One module or package per benchmark; nothing else knows a benchmark's name.

The registry is imported when one of its names is first used.
"""

from typing import TYPE_CHECKING

from proctor.benchmarks.plugins import published_rows

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

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from proctor.benchmarks import registry

        return getattr(registry, name)
