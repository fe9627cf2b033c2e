"""What others have published, from the data that ships with this package.

A file lists the tasks once, and each result names those that it resolved by their place in that list.
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
def published(benchmark: str) -> tuple[PublishedResult, ...]:
    """The published results of a benchmark, each with its scaffold, date and source."""
    data = files("proctor.benchmarks.swe").joinpath("baselines", f"{benchmark}.json").read_bytes()
    found = msgspec.json.decode(data, type=_PublishedFile)
    return tuple(_row(benchmark, row, found.ids) for row in found.rows)


def _row(benchmark: str, row: dict[str, Any], ids: list[str]) -> PublishedResult:
    places = row.pop("resolved", None)
    resolved = None if places is None else [ids[place] for place in places]
    return msgspec.convert({"benchmark": benchmark, "resolved": resolved, **row}, PublishedResult)
