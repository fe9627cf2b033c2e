"""The page that compares runs with the first of them, task by task."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from proctor.analysis.paired import MetricChange, counted_by_task, flips_by_task
from proctor.core.errors import UsageError
from proctor.report import differences
from proctor.report.comparison import RunComparison, compare_runs
from proctor.report.run_index import RunIndex
from proctor.report.run_table import RunTable, TrialRow, clamp_page
from proctor.report.viewer.pages import read_query

MAX_CELLS: Final = 4800  # of a page: a task in a run
_LEAST_TASKS: Final = 20
_MANY: Final = 8  # more runs than this are not chosen one by one, nor described without being asked
_NOT_COMPARABLE: Final = "not_comparable"
_FLIPS: Final = ("gained", "lost", "both", "neither", _NOT_COMPARABLE)


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task in all runs: the trials of each, and what each run but the first did to it."""

    task_id: str
    trials: list[list[TrialRow]]
    flips: list[str]


@dataclass(frozen=True, slots=True)
class RunColumn:
    """One run, with how it compares to the reference; None for the reference itself."""

    name: str
    title: str
    table: RunTable
    compared: RunComparison | None


def compare_page(index: RunIndex, params: Mapping[str, str], runs: list[str]) -> dict[str, Any]:
    """Any number of runs of a benchmark, task by task."""
    names = index.names()
    sweep = params.get("sweep", "")
    runs = list(dict.fromkeys(runs or index.sweeps().get(sweep, [])))
    entries = {name: index.title(name) for name in names}
    if len(runs) < 2:  # noqa: PLR2004 - one run is not compared
        return {"names": entries, "runs": runs, "ready": False, "many": _MANY}
    tables = [index.table(name) for name in runs]
    compared = _compared(tables)
    columns = [
        RunColumn(name, index.title(name), table, None if number == 0 else compared[number - 1])
        for number, (name, table) in enumerate(zip(runs, tables, strict=True))
    ]
    lines = _task_lines(tables)
    counts = dict.fromkeys(_FLIPS, 0) | Counter(flip for line in lines for flip in set(line.flips))
    flip, words = params.get("flip", ""), params.get("q", "").lower().split()
    found = [
        line
        for line in lines
        if (not flip or flip in line.flips) and all(word in line.task_id.lower() for word in words)
    ]
    query = read_query(params)
    size = max(_LEAST_TASKS, MAX_CELLS // len(runs))
    page, pages = clamp_page(query.page, len(found), size)
    return {
        "names": entries,
        "runs": runs,
        "sweep": sweep,
        "ready": True,
        "many": _MANY,
        "columns": columns,
        "sentences": [one.comparison.sentence for one in compared],
        "differences": [(column, differences(tables[0].config, column.table.config)) for column in columns[1:]],
        "flips": counts,
        "flip": flip,
        "query": query,
        "lines": found[(page - 1) * size : page * size],
        "total": len(found),
        "page": page,
        "pages": pages,
    }


def _compared(tables: Sequence[RunTable]) -> list[RunComparison]:
    """The same numbers as `bench compare` has, kept while no run changes.

    Raises:
        UsageError: they are runs of more than one benchmark.
    """
    other = next((table for table in tables if table.config.benchmark != tables[0].config.benchmark), None)
    if other is not None:
        raise UsageError(
            f"these are runs of two benchmarks, {tables[0].config.benchmark} and {other.config.benchmark}",
            fix="compare runs of the same one",
        )
    return _compare_versions(tuple(tables), tuple(table.version for table in tables))


@lru_cache(maxsize=8)
def _compare_versions(tables: tuple[RunTable, ...], _versions: tuple[int, ...]) -> list[RunComparison]:
    return compare_runs([table.store for table in tables])[1]


def _task_lines(tables: Sequence[RunTable]) -> list[TaskLine]:
    by_task = [_by_task(table) for table in tables]
    counted = [counted_by_task(table.all()) for table in tables]
    flips = [flips_by_task(counted[0], other) for other in counted[1:]]
    tasks = sorted(set().union(*by_task))
    return [
        TaskLine(task, [known.get(task, []) for known in by_task], [one.get(task, _NOT_COMPARABLE) for one in flips])
        for task in tasks
    ]


def relative_change(change: MetricChange | None) -> str:
    """How much more or less something is than in the reference, with its interval."""
    if change is None or change.ratio is None:
        return ""
    ends = ""
    if change.ratio_low is not None and change.ratio_high is not None:
        ends = f" ({change.ratio_low - 1:+.0%} to {change.ratio_high - 1:+.0%})"
    return f"{change.ratio - 1:+.1%}{ends}"


def _by_task(table: RunTable) -> dict[str, list[TrialRow]]:
    found: dict[str, list[TrialRow]] = {}
    for row in table.all():
        found.setdefault(row.task_id, []).append(row)
    return found
