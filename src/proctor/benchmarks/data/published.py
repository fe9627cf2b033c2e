"""Published results, from ``published_results/<benchmark>.json``.

A file lists the tasks once, and each result names those that it resolved by their index in that list.
"""

from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from proctor.core.published_result import PublishedResult


class _PublishedFile(msgspec.Struct):
    ids: list[str]
    rows: list[dict[str, Any]]


@cache
def published_results(benchmark: str) -> tuple[PublishedResult, ...]:
    """The published results of a benchmark, each with its scaffold, date and source."""
    data = files("proctor.benchmarks.data").joinpath("published_results", f"{benchmark}.json").read_bytes()
    found = msgspec.json.decode(data, type=_PublishedFile)
    return tuple(_row(benchmark, row, found.ids) for row in found.rows)


def _row(benchmark: str, row: dict[str, Any], ids: list[str]) -> PublishedResult:
    indices = row.pop("resolved", None)
    resolved = None if indices is None else [ids[index] for index in indices]
    return msgspec.convert({"benchmark": benchmark, "resolved": resolved, **row}, PublishedResult)
