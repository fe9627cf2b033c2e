"""Which tasks of a benchmark are meant: pure rules over ids, tags and categories."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from proctor.core.benchmark import Benchmark, InvalidTask
from proctor.core.errors import UsageError
from proctor.core.files import read_user_file
from proctor.core.record import Record
from proctor.core.task import Task


class Selection(Record):
    """A choice of tasks. What is given narrows; nothing given means all.

    Attributes:
        filter: a part of an id; the whole id with `exact`.
        tags: every one of them must be there.
        categories: likewise, as ``name=value``, or as the value of whichever category.
        limit: at most so many, after everything else.
    """

    ids: tuple[str, ...] = ()
    filter: str | None = None
    exact: bool = False
    tags: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class SelectedTasks:
    """The tasks that a selection means, in the benchmark's order; `broken` are those that cannot be used."""

    selection: Selection
    tasks: tuple[Task, ...]
    invalid: tuple[InvalidTask, ...]


def select_tasks(benchmark: Benchmark, selection: Selection) -> SelectedTasks:
    """What is meant of a benchmark.

    Raises:
        UsageError: a task was asked for by id and does not exist.
    """
    tasks, broken = benchmark.tasks(), benchmark.invalid_tasks()
    there = {task.id for task in tasks} | {bad.task_id for bad in broken}
    unknown = [wanted for wanted in selection.ids if wanted not in there]
    if unknown:
        raise UsageError(f"there is no task {unknown[0]!r}", fix="`proctor bench list` names the tasks")
    meant = [task for task in tasks if _matches(task.id, task.tags, selection, task.categories)]
    return SelectedTasks(
        selection=selection,
        tasks=tuple(meant[: selection.limit]),
        invalid=tuple(bad for bad in broken if _matches(bad.task_id, (), selection, {})),
    )


def _matches(task_id: str, tags: Iterable[str], selection: Selection, categories: Mapping[str, str]) -> bool:
    """Whether a task with this id, these tags and these categories is chosen, limits aside."""
    part = selection.filter
    known = {word for name, value in categories.items() for word in (value, f"{name}={value}")}
    return (
        (not selection.ids or task_id in selection.ids)
        and (part is None or (task_id == part if selection.exact else part in task_id))
        and set(selection.tags) <= set(tags)
        and set(selection.categories) <= known
        and task_id not in selection.excluded
    )


def read_exclusions(file: Path) -> tuple[str, ...]:
    """The ids in an exclusion list: one a line, what follows a ``#`` is a remark.

    Raises:
        UsageError: the file cannot be read.
    """
    lines = read_user_file(file, "the exclusion list").splitlines()
    ids = (re.split(r"\s#", line)[0].strip() for line in lines)
    return tuple(task_id for task_id in ids if task_id and not task_id.startswith("#"))
