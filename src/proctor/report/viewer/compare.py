"""Two runs, task by task."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from proctor.analysis.chance import SIGNIFICANT, exact_mcnemar, p_words
from proctor.report import differences
from proctor.report.viewer.pages import read_query
from proctor.report.viewer.rows import Row, RunTable
from proctor.report.viewer.shelf import Shelf
from proctor.report.words import many

PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class Pair:
    """One task in two runs, each with its answers."""

    task_id: str
    first: list[Row]
    second: list[Row]
    flip: str


def compare_page(shelf: Shelf, given: Mapping[str, str], runs: list[str]) -> dict[str, Any]:
    """Two runs, task by task."""
    names = shelf.names()
    if len(runs) != 2:  # noqa: PLR2004 - a comparison is of two
        return {"names": names, "runs": runs, "ready": False, "same": False}
    if runs[0] == runs[1]:
        return {"names": names, "runs": runs, "ready": False, "same": True}
    first, second = (shelf.table(name) for name in runs)
    one, other = _by_task(first), _by_task(second)
    pairs = [
        Pair(task, one.get(task, []), other.get(task, []), _flip(one.get(task), other.get(task)))
        for task in sorted(one.keys() | other.keys())
    ]
    counts = dict.fromkeys(("gained", "lost", "both", "neither", "apart"), 0) | Counter(pair.flip for pair in pairs)
    common = sum(counts.values()) - counts["apart"]
    wanted, words = given.get("flip", ""), given.get("q", "").lower().split()
    found = [
        pair
        for pair in pairs
        if (not wanted or pair.flip == wanted) and all(word in pair.task_id.lower() for word in words)
    ]
    query = read_query(given)
    pages = max(1, -(-len(found) // PAGE))
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
        "pairs": found[(page - 1) * PAGE : page * PAGE],
        "total": len(found),
        "page": page,
        "pages": pages,
    }


def _by_task(table: RunTable) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in table.all():
        found.setdefault(row.task_id, []).append(row)
    return found


def _solved(rows: list[Row] | None) -> bool | None:
    """Whether most answers to a task resolve it; None when none of them counts."""
    votes = [row.status == "resolved" for row in rows or () if row.counted]
    return sum(votes) * 2 > len(votes) if votes else None


def _flip(first: list[Row] | None, second: list[Row] | None) -> str:
    before, after = _solved(first), _solved(second)
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
    numbers = f"{gained} gained, {lost} lost of {many(common, 'common task')}; {p_words(p_value)}"
    if p_value >= SIGNIFICANT:
        return f"No difference that these data can show ({numbers})."
    return f"{runs[1]} is {'better' if gained > lost else 'worse'} than {runs[0]} ({numbers})."
