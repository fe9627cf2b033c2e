"""The page that compares two runs, task by task."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proctor.analysis.paired import counted_by_task, flips_by_task, paired_test
from proctor.report import differences
from proctor.report.viewer.pages import read_query
from proctor.report.viewer.run_index import RunIndex
from proctor.report.viewer.run_table import RunTable, TrialRow, clamp_page

PAGE_SIZE: Final = 200
_NOT_COMPARABLE: Final = "not_comparable"


@dataclass(frozen=True, slots=True)
class TaskPair:
    """One task in two runs, with the trials of each."""

    task_id: str
    first: list[TrialRow]
    second: list[TrialRow]
    flip: str


def compare_page(index: RunIndex, params: Mapping[str, str], runs: list[str]) -> dict[str, Any]:
    """Two runs, task by task."""
    names = index.names()
    if len(runs) != 2 or runs[0] == runs[1]:  # noqa: PLR2004 - a comparison is of two runs
        return {"names": names, "runs": runs, "ready": False, "same": len(runs) == 2}  # noqa: PLR2004 - the same
    first, second = (index.table(name) for name in runs)
    one, other = _by_task(first), _by_task(second)
    counted = [counted_by_task(table.all()) for table in (first, second)]
    flips = flips_by_task(*counted)
    pairs = [
        TaskPair(task, one.get(task, []), other.get(task, []), flips.get(task, _NOT_COMPARABLE))
        for task in sorted(one.keys() | other.keys())
    ]
    counts = dict.fromkeys(("gained", "lost", "both", "neither", _NOT_COMPARABLE), 0) | Counter(
        pair.flip for pair in pairs
    )
    flip, words = params.get("flip", ""), params.get("q", "").lower().split()
    found = [
        pair
        for pair in pairs
        if (not flip or pair.flip == flip) and all(word in pair.task_id.lower() for word in words)
    ]
    query = read_query(params)
    page, pages = clamp_page(query.page, len(found), PAGE_SIZE)
    return {
        "names": names,
        "runs": runs,
        "ready": True,
        "configs": (first.config, second.config),
        "counts": (first.counts(), second.counts()),
        "differences": differences(first.config, second.config),
        "flips": counts,
        "flip": flip,
        "sentence": paired_test(*counted).sentence(runs),
        "query": query,
        "pairs": found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE],
        "total": len(found),
        "page": page,
        "pages": pages,
    }


def _by_task(table: RunTable) -> dict[str, list[TrialRow]]:
    found: dict[str, list[TrialRow]] = {}
    for row in table.all():
        found.setdefault(row.task_id, []).append(row)
    return found
