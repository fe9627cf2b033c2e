"""The key figures of an evaluation, from its report.

resolved                 tasks resolved, of all in the report; and of those that were graded (resolved or unresolved)
resolved without errors  resolved, and nothing was repaired: the patch applied strictly, a linter found nothing, no test
                         ended in an error. Of all in the report.
first-pass compile       the code compiled as it was submitted, before any repair. Of the tasks whose tests were
                         compiled, and of which that is known: it is not where a linter changed files and the tests
                         were not compiled without that; the score says of how many.
repair                   mean lint passes and applied operations of the tasks that went through repair
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from proctor.analysis.intervals import wilson
from proctor.analysis.score_input import EvaluationOutcomes, TaskOutcome, read_outcomes
from proctor.core.causes import Status
from proctor.core.formatting import align_columns, duration, number, percent, percent_interval, plural
from proctor.core.record import Record
from proctor.core.user_files import MAX_BYTES, read_user_bytes


class Rate(Record):
    """A count of a total, with a 95 % interval; None for a total of 0."""

    count: int
    total: int
    rate: float | None
    low: float | None
    high: float | None


class Mean(Record):
    """A mean over a number of values; None without values."""

    mean: float | None
    total: int


class TagScore(Record):
    """The rates of the tasks that carry one tag."""

    tag: str
    resolved: Rate
    resolved_without_errors: Rate
    first_pass_compile: Rate


class ScoreSummary(Record):
    """The key figures.

    Attributes:
        source: the schema of the report that was scored.
        first_pass_unknown: tasks of which it is not known whether they compiled before repair.
    """

    benchmark: str
    source: str
    tool_version: str
    total: int
    unresolved: int
    errors: int
    skipped: int
    resolved: Rate
    resolved_of_graded: Rate
    resolved_without_errors: Rate
    first_pass_compile: Rate
    first_pass_unknown: int
    repair_iterations: Mean
    repair_operations: Mean
    seconds: float
    seconds_per_task: Mean
    tags: tuple[TagScore, ...]
    schema_version: Literal["proctor.score@2"] = "proctor.score@2"


def score_file(path: str | Path) -> ScoreSummary:
    """Score the report in a file, or on standard input when the path is "-".

    Raises:
        UsageError: it cannot be read, or is no report.
    """
    if str(path) == "-":
        return score_report(sys.stdin.buffer.read(MAX_BYTES), where="standard input")
    return score_report(read_user_bytes(Path(path), "the report"), where=str(path))


def score_report(data: bytes, *, where: str) -> ScoreSummary:
    """The same for a report's bytes, read from `where`."""
    return score(read_outcomes(data, where=where))


def score_table(summary: ScoreSummary) -> str:
    """The score for people."""
    rates = [
        ("resolved, of all", summary.resolved),
        ("resolved, of graded", summary.resolved_of_graded),
        ("resolved without errors, of all", summary.resolved_without_errors),
        ("compiles at first pass", summary.first_pass_compile),
    ]
    lines = [f"{summary.benchmark}: {summary.total} tasks, {summary.errors} errors, {summary.skipped} skipped", ""]
    shown = [(name, *_cells(rate)) for name, rate in rates if rate.total or rate is not summary.first_pass_compile]
    lines += align_columns([("", "count", "rate", "95 % interval"), *shown])
    if summary.first_pass_unknown:
        they, were = ("it", "was") if summary.first_pass_unknown == 1 else ("they", "were")
        lines.append(
            f"{summary.first_pass_unknown} more {were} repaired by a linter; whether {they} compiled before is unknown"
        )
    lines.append("")
    if summary.repair_iterations.total:
        passes, operations = (number(mean.mean, 2) for mean in (summary.repair_iterations, summary.repair_operations))
        tasks = plural(summary.repair_iterations.total, "task")
        lines.append(f"repair: {passes} passes, {operations} operations, mean of {tasks}")
    lines.append(f"time: {duration(summary.seconds)}, {duration(summary.seconds_per_task.mean)} per task")
    if summary.tags:
        rows = [(tag.tag, *_cells(tag.resolved), _count(tag.resolved_without_errors)) for tag in summary.tags]
        lines += ["", *align_columns([("tag", "resolved", "rate", "95 % interval", "without errors"), *rows])]
    return "\n".join(lines) + "\n"


def score(outcomes: EvaluationOutcomes) -> ScoreSummary:
    """The key figures of these outcomes."""
    tasks = outcomes.tasks

    def count(status: Status) -> int:
        return sum(task.status is status for task in tasks)

    repairs = [task.repair for task in tasks if task.repair]
    tags = sorted({tag for task in tasks for tag in task.tags})
    return ScoreSummary(
        benchmark=outcomes.benchmark,
        source=outcomes.source,
        tool_version=outcomes.tool_version,
        total=len(tasks),
        unresolved=count(Status.UNRESOLVED),
        errors=count(Status.ERROR),
        skipped=count(Status.SKIPPED),
        resolved=_resolved(tasks),
        resolved_of_graded=_rate(count(Status.RESOLVED), count(Status.RESOLVED) + count(Status.UNRESOLVED)),
        resolved_without_errors=_resolved_without_errors(tasks),
        first_pass_compile=_first_pass(tasks),
        first_pass_unknown=sum(task.has_first_pass and task.first_pass is None for task in tasks),
        repair_iterations=_mean([iterations for iterations, _ in repairs]),
        repair_operations=_mean([operations for _, operations in repairs]),
        seconds=outcomes.seconds,
        seconds_per_task=Mean(mean=outcomes.seconds / len(tasks) if tasks else None, total=len(tasks)),
        tags=tuple(_tag_score(tag, [task for task in tasks if tag in task.tags]) for tag in tags),
    )


def _tag_score(tag: str, outcomes: Sequence[TaskOutcome]) -> TagScore:
    return TagScore(
        tag=tag,
        resolved=_resolved(outcomes),
        resolved_without_errors=_resolved_without_errors(outcomes),
        first_pass_compile=_first_pass(outcomes),
    )


def _resolved(outcomes: Sequence[TaskOutcome]) -> Rate:
    return _rate(sum(outcome.status is Status.RESOLVED for outcome in outcomes), len(outcomes))


def _resolved_without_errors(outcomes: Sequence[TaskOutcome]) -> Rate:
    clean = [outcome for outcome in outcomes if outcome.status is Status.RESOLVED and outcome.without_errors]
    return _rate(len(clean), len(outcomes))


def _first_pass(outcomes: Sequence[TaskOutcome]) -> Rate:
    known = [outcome.first_pass for outcome in outcomes if outcome.has_first_pass and outcome.first_pass is not None]
    return _rate(sum(known), len(known))


def _rate(count: int, total: int) -> Rate:
    interval = wilson(count, total)
    if interval is None:
        return Rate(count=count, total=total, rate=None, low=None, high=None)
    return Rate(count=count, total=total, rate=count / total, low=interval.low, high=interval.high)


def _mean(values: Sequence[float]) -> Mean:
    return Mean(mean=sum(values) / len(values) if values else None, total=len(values))


def _cells(rate: Rate) -> tuple[str, str, str]:
    return _count(rate), percent(rate.rate), percent_interval(rate.low, rate.high)


def _count(rate: Rate) -> str:
    return f"{rate.count} of {rate.total}"
