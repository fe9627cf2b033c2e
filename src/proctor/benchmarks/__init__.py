"""One module or package per benchmark; nothing else knows a benchmark's name."""

from proctor.benchmarks.registry import (
    BenchmarkRow,
    benchmark,
    benchmark_source,
    benchmark_table,
    checked_split,
    foreign_outcomes,
    parity,
    published_rows,
    read_predictions,
    reopen,
    suite_benchmark,
    x07_document,
    x07_health_document,
    x07_list_document,
)

__all__ = [
    "BenchmarkRow",
    "benchmark",
    "benchmark_source",
    "benchmark_table",
    "checked_split",
    "foreign_outcomes",
    "parity",
    "published_rows",
    "read_predictions",
    "reopen",
    "suite_benchmark",
    "x07_document",
    "x07_health_document",
    "x07_list_document",
]
