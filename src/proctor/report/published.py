"""Published results, listed beside our own and never among them."""

from collections.abc import Collection, Sequence
from typing import Final

from proctor.core.formatting import NO_VALUE, percent, plural
from proctor.core.published_result import PublishedResult
from proctor.report.tables import Table

MAX_LINES: Final = 5
_NO_MODEL: Final = ("", "none")  # of human results


def published_lines(published: Sequence[PublishedResult], tasks: Collection[str] = ()) -> tuple[str, ...]:
    """One line for each published result with its source; the best of them, if there are many."""
    with_value = [one for one in published if one.rate is not None or one.score is not None]
    best = sorted(with_value, key=lambda one: -(one.rate or 0.0))[:MAX_LINES]
    shown = [one for one in with_value if one in best]
    more = len(published) - len(shown)
    listed = f"{plural(more, 'more published result')}: --html, --markdown and --json have the whole list."
    return (*(_published_line(one, tasks) for one in shown), *([listed] if more else []))


def published_table(published: Sequence[PublishedResult], tasks: Collection[str]) -> Table:
    """All published results."""
    return Table(
        title="Published results",
        headings=("Model", "Agent", "Result", "On our tasks", "Tasks", "Split", "Date", "Source", "Note"),
        rows=tuple(
            (
                one.model,
                one.agent,
                _result(one),
                _resolved_on_our_tasks(one, tasks) or NO_VALUE,
                NO_VALUE if one.tasks is None else str(one.tasks),
                one.split or NO_VALUE,
                one.date,
                one.source,
                one.note,
            )
            for one in published
        ),
    )


def _published_line(one: PublishedResult, tasks: Collection[str]) -> str:
    ours = _resolved_on_our_tasks(one, tasks)
    details = (
        one.split,
        plural(one.tasks, "task") if one.tasks else None,
        f"{ours} of ours" if ours else None,
        one.date,
        one.source,
    )
    note = f"; {one.note}" if one.note else ""
    details_text = ", ".join(detail for detail in details if detail)
    name = one.agent if one.model in _NO_MODEL else f"{one.model} + {one.agent}"
    return f"Published result ({name}): {_result(one)} ({details_text}{note})"


def _result(one: PublishedResult) -> str:
    if one.rate is not None:
        return percent(one.rate)
    return NO_VALUE if one.score is None else f"{one.score:g}"


def _resolved_on_our_tasks(one: PublishedResult, tasks: Collection[str]) -> str | None:
    """How many of our tasks they resolved, where the resolved tasks are known."""
    return None if one.resolved is None or not tasks else f"{len(set(one.resolved) & set(tasks))}/{len(set(tasks))}"
