"""What others have published, in words: beside our results, and never among them."""

from collections.abc import Collection, Sequence
from typing import Final

from proctor.core.published_result import PublishedResult
from proctor.report.formatting import NO_VALUE, plural
from proctor.report.tables import Table

MAX_LINES: Final = 5
_NO_MODEL: Final = ("", "none")  # the model of people


def published_lines(published: Sequence[PublishedResult], tasks: Collection[str] = ()) -> tuple[str, ...]:
    """One line for each published result, with what is needed to judge it; the best of them, if there are many."""
    told = [one for one in published if one.rate is not None or one.score is not None]
    best = sorted(told, key=lambda one: -(one.rate or 0.0))[:MAX_LINES]
    shown = [one for one in told if one in best]
    more = len(published) - len(shown)
    listed = f"{plural(more, 'more published result')}: --html, --markdown and --json have the whole list."
    return (*(_published_line(one, tasks) for one in shown), *([listed] if more else []))


def published_table(published: Sequence[PublishedResult], tasks: Collection[str]) -> Table:
    """All that others have published, beside ours and never among them."""
    return Table(
        title="Published by others",
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
    told = ", ".join(detail for detail in details if detail)
    who = one.agent if one.model in _NO_MODEL else f"{one.model} + {one.agent}"
    return f"Published baseline ({who}): {_result(one)} ({told}{note})"


def _result(one: PublishedResult) -> str:
    if one.rate is not None:
        return f"{one.rate:.1%}".replace(".0%", "%")
    return NO_VALUE if one.score is None else f"{one.score:g}"


def _resolved_on_our_tasks(one: PublishedResult, tasks: Collection[str]) -> str | None:
    """How many of our tasks they resolved, where it is known which they did."""
    return None if one.resolved is None or not tasks else f"{len(set(one.resolved) & set(tasks))}/{len(set(tasks))}"
