"""Two runs, task by task."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proctor.analysis.significance import SIGNIFICANCE_LEVEL, exact_mcnemar, format_p_value
from proctor.report import differences
from proctor.report.formatting import plural
from proctor.report.viewer.pages import read_query
from proctor.report.viewer.rows import RunTable, TrialRow
from proctor.report.viewer.run_index import RunIndex

PAGE_SIZE: Final = 200


@dataclass(frozen=True, slots=True)
class TaskPair:
    """One task in two runs, each with its answers."""

    task_id: str
    first: list[TrialRow]
    second: list[TrialRow]
    flip: str


def compare_page(index: RunIndex, params: Mapping[str, str], runs: list[str]) -> dict[str, Any]:
    """Two runs, task by task."""
    names = index.names()
    if len(runs) != 2:  # noqa: PLR2004 - a comparison is of two
        return {"names": names, "runs": runs, "ready": False, "same": False}
    if runs[0] == runs[1]:
        return {"names": names, "runs": runs, "ready": False, "same": True}
    first, second = (index.table(name) for name in runs)
    one, other = _by_task(first), _by_task(second)
    pairs = [
        TaskPair(task, one.get(task, []), other.get(task, []), _flip(one.get(task), other.get(task)))
        for task in sorted(one.keys() | other.keys())
    ]
    counts = dict.fromkeys(("gained", "lost", "both", "neither", "apart"), 0) | Counter(pair.flip for pair in pairs)
    common = sum(counts.values()) - counts["apart"]
    wanted, words = params.get("flip", ""), params.get("q", "").lower().split()
    found = [
        pair
        for pair in pairs
        if (not wanted or pair.flip == wanted) and all(word in pair.task_id.lower() for word in words)
    ]
    query = read_query(params)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(max(1, query.page), pages)
    return {
        "names": names,
        "runs": runs,
        "ready": True,
        "configs": (first.config, second.config),
        "counts": (first.counts(), second.counts()),
        "differences": differences(first.config, second.config),
        "flips": counts,
        "flip": wanted,
        "common": common,
        "sentence": _sentence(runs, counts, common),
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


def _majority_resolved(rows: list[TrialRow] | None) -> bool | None:
    """Whether most answers to a task resolve it; None when none of them counts."""
    votes = [row.status == "resolved" for row in rows or () if row.counted]
    return sum(votes) * 2 > len(votes) if votes else None


def _flip(first: list[TrialRow] | None, second: list[TrialRow] | None) -> str:
    before, after = _majority_resolved(first), _majority_resolved(second)
    if before is None or after is None:
        return "apart"
    if before == after:
        return "both" if before else "neither"
    return "gained" if after else "lost"


def _sentence(runs: list[str], flips: dict[str, int], common: int) -> str:
    gained, lost = flips["gained"], flips["lost"]
    if not common:
        return "The runs have no graded task in common."
    p_value = exact_mcnemar(gained, lost)
    numbers = f"{gained} gained, {lost} lost of {plural(common, 'common task')}; {format_p_value(p_value)}"
    if p_value >= SIGNIFICANCE_LEVEL:
        return f"No difference that these data can show ({numbers})."
    return f"{runs[1]} is {'better' if gained > lost else 'worse'} than {runs[0]} ({numbers})."
