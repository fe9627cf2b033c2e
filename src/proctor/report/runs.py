"""The comparison of a benchmark's runs: one row per run."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from proctor.analysis.intervals import Estimate
from proctor.analysis.log_figures import LogFigures
from proctor.analysis.pareto import Point, standings
from proctor.analysis.runs import RunRow
from proctor.core.published import Published
from proctor.report.charts import front_chart, rates_chart, times_chart
from proctor.report.document import Document, Section
from proctor.report.others import MOST_LINES, published_lines, published_table
from proctor.report.tables import Table, records_csv
from proctor.report.words import NOTHING, count, duration, errors_left_out, interval, money, number, percent

HEADINGS: Final = ("Run ID", "Mode", "Preset", "Resolved", "Avg Cost", "Avg Time", "Agents", "95 % interval", "Errors")
_ACROSS: Final = 6  # more runs than this do not fit beside each other


def runs_table(
    title: str, rows: Sequence[RunRow], published: Sequence[Published] = (), tasks: Collection[str] = ()
) -> Table:
    """The table that the report begins with, what others have published below it and never in it.

    `tasks` are those that the runs were asked for.
    """
    return Table(
        title=title,
        headings=HEADINGS,
        rows=tuple(_cells(row) for row in rows),
        notes=(*published_lines(published, tasks), *_rates_below(rows)),
    )


def who_table(rows: Sequence[RunRow]) -> Table:
    """Who answered: what a run's name does not tell, and its reader must know."""
    pods = any(row.pod_template for row in rows)
    return Table(
        title="Who answered",
        headings=("Run ID", "Agent", "Model", *(["Pod"] if pods else [])),
        rows=tuple(
            (row.run_id, row.agent, row.model or NOTHING, *([row.pod_template or NOTHING] if pods else []))
            for row in rows
        ),
    )


def resolved_table(rows: Sequence[RunRow]) -> Table:
    """What a resolved task took: all that was spent on counted answers, by those that are right."""
    return Table(
        title="Per resolved task",
        headings=("Run ID", "Cost", "95 % interval", "Time", "95 % interval", "Tokens"),
        rows=tuple(
            (
                row.run_id,
                *_with_ends(row.cost_per_resolved_usd, money),
                *_with_ends(row.seconds_per_resolved, duration),
                count((row.tokens_per_resolved.value or None) if row.tokens_per_resolved else None),
            )
            for row in rows
        ),
    )


def answers_table(rows: Sequence[RunRow]) -> Table:
    """What an answer took, right or wrong, and how that is distributed."""
    return Table(
        title="Per answer",
        headings=("Run ID", "Median Cost", "Median Time", "90 % within", "Turns", "Steps", "Compactions", "Utilised"),
        rows=tuple(
            (
                row.run_id,
                money(row.costs.median) if row.costs else NOTHING,
                duration(row.times.median if row.times else None),
                duration(row.times.nine_tenths if row.times else None),
                # Who took no turn asked no model, or nobody has counted.
                *(number(mean if row.turns else None) for mean in (row.turns, row.steps, row.compactions)),
                percent(row.utilisation),
            )
            for row in rows
        ),
    )


def failures_table(rows: Sequence[RunRow]) -> Table:
    """Why answers are not resolved, how often in each run; what was not the agent's doing after that."""
    counts = [
        {
            **row.failure_modes,
            **{f"error: {cause}": number for cause, number in row.error_causes.items()},
            **{f"finding: {code}": number for code, number in row.finding_codes.items()},
            **({"flaky: tasks": row.flaky} if row.flaky else {}),
        }
        for row in rows
    ]
    names = sorted(_union(counts), key=lambda name: ": " in name)
    cells = [[str(one.get(name, 0)) for one in counts] for name in names]
    if len(rows) <= _ACROSS:
        headings: tuple[str, ...] = ("", *(row.run_id for row in rows))
        lines = [(name, *line) for name, line in zip(names, cells, strict=True)]
    else:
        headings = ("Run ID", *names)
        lines = [(row.run_id, *(line[at] for line in cells)) for at, row in enumerate(rows)] if names else []
    return Table(title="Why not", headings=headings, rows=tuple(lines))


def passes_table(rows: Sequence[RunRow]) -> Table:
    """Runs with several answers to each task: at least one of k right, all of k right, where k were graded."""
    return Table(
        title="Several answers to each task",
        headings=("Run ID", "k", "Tasks", "pass@k", "95 % interval", "pass^k", "95 % interval"),
        rows=tuple(
            (
                row.run_id,
                str(one.k),
                f"{one.tasks}/{row.tasks}",
                percent(one.any_of.value),
                interval(one.any_of.low, one.any_of.high),
                percent(one.all_of.value),
                interval(one.all_of.low, one.all_of.high),
            )
            for row in rows
            for one in row.passes
        ),
    )


def roles_table(rows: Sequence[RunRow]) -> Table:
    """What the roles of a team cost, and how much they waited."""
    return Table(
        title="Roles",
        headings=("Run ID", "Role", "Cost", "Share", "Active", "Idle", "Turns", "Messages", "Compactions"),
        rows=tuple(
            (
                row.run_id,
                role.role,
                money(role.cost_usd),
                _share(role.cost_usd, [other.cost_usd for other in row.roles]),
                duration(role.active_seconds),
                percent(role.idle_share),
                str(role.turns),
                str(role.messages),
                str(role.compactions),
            )
            for row in rows
            if len(row.roles) > 1
            for role in row.roles
        ),
    )


def healthy_table(rows: Sequence[RunRow]) -> Table:
    """The score on all tasks, on those known to be sound, with errors counted as failures, and as others grade."""
    return Table(
        title="The score, counted otherwise",
        headings=(
            "Run ID",
            "All tasks",
            "Healthy tasks",
            "95 % interval",
            "Errors as failures",
            "Official grader",
            "Score",
        ),
        rows=tuple(
            (
                row.run_id,
                f"{row.resolved}/{row.counted}",
                f"{row.healthy.resolved}/{row.healthy.counted}" if row.healthy else NOTHING,
                interval(row.healthy.rate.low, row.healthy.rate.high) if row.healthy and row.healthy.rate else NOTHING,
                percent(row.rate_with_errors),
                f"{row.official}/{row.counted}",
                number(row.score.value, 3) if row.score else NOTHING,
            )
            for row in rows
        ),
    )


def logs_table(logs: Sequence[LogFigures]) -> Table:
    """What the steps were spent on; below it, why machines were not set up, where that was the task."""
    return Table(
        title="Steps, as far as the logs show",
        headings=("Run ID", "Logs", "Calls", "Brought nothing", "Failed", "Read again", "Repeated", "Gave up"),
        rows=tuple(
            (
                one.run,
                f"{one.read}/{one.read + one.lacking}",
                str(one.effort.calls),
                percent(one.effort.wasted / one.effort.calls if one.effort.calls else None),
                str(one.effort.failed),
                str(one.effort.reread),
                str(one.effort.repeated),
                str(one.gave_up),
            )
            for one in logs
        ),
        notes=tuple(note for one in logs for note in _set_up(one)),
    )


def _set_up(logs: LogFigures) -> Iterator[str]:
    if logs.setup_failures:
        yield f"{logs.run}, set-ups that failed: {_counted(logs.setup_failures)}."
    if logs.setup_steps:
        wasted = sum(logs.setup_waste.values())
        told = f" ({_counted(logs.setup_waste)})" if wasted else ""
        yield f"{logs.run}, steps that a person would not have needed: {wasted} of {logs.setup_steps}{told}."


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {times}" for name, times in counts.items())


def scores_table(rows: Sequence[RunRow]) -> Table:
    """Of benchmarks that grade by degree: the mean score, the numbers behind it, and the best of several answers."""
    names = sorted({name for row in rows for name in row.scores})
    tries = sorted({(name, k) for row in rows for name, best in row.best_of.items() for k in range(len(best))})
    lines = [
        ("mean score", *(_mean_score(row) for row in rows)),
        *((name, *(number(row.scores.get(name), 3) for row in rows)) for name in names),
        *((f"best of {k + 1}, {name}", *(number(_best_of(row, name, k), 3) for row in rows)) for name, k in tries if k),
    ]
    return Table(title="Scores", headings=("", *(row.run_id for row in rows)), rows=tuple(lines))


def _best_of(row: RunRow, name: str, place: int) -> float | None:
    best = row.best_of.get(name, ())
    return best[place] if place < len(best) else None


def _mean_score(row: RunRow) -> str:
    if row.score is None:
        return NOTHING
    return f"{number(row.score.value, 3)} ({number(row.score.low, 3)} to {number(row.score.high, 3)})"


def run_tables(
    title: str, rows: Sequence[RunRow], published: Sequence[Published] = (), tasks: Collection[str] = ()
) -> tuple[Table, ...]:
    """All tables that have anything to say about these runs."""
    candidates = (
        who_table(rows),
        resolved_table(rows),
        answers_table(rows),
        healthy_table(rows) if any(_counted_otherwise(row) for row in rows) else None,
        scores_table(rows) if any(row.score is not None for row in rows) else None,
        failures_table(rows),
        passes_table(rows),
        roles_table(rows),
    )
    return (
        runs_table(title, rows, published, tasks),
        *(table for table in candidates if table is not None and table.rows),
    )


def runs_document(
    title: str,
    rows: Sequence[RunRow],
    published: Sequence[Published] = (),
    *,
    tasks: Collection[str] = (),
    logs: Sequence[LogFigures] = (),
) -> Document:
    """The report on a benchmark's runs, and on their logs if they were read."""
    tables = run_tables(title, rows, published, tasks)
    charts = [("Resolved, with 95 % intervals", rates_chart(rows, published))]
    if any(row.times is not None for row in rows):
        charts.append(("Time of an answer: all, the middle half, the median", times_chart(rows)))
    if any(row.cost is not None and row.rate is not None for row in rows):
        charts.append(("Cost against rate, with the front", front_chart(standings(list(map(point_of, rows)), {}))))
    first = Section(table=tables[0], charts=tuple(charts))
    more = [*tables[1:], *([logs_table(logs)] if logs else [])]
    sections = [first, *(Section(table=table) for table in more)]
    if len(published) > MOST_LINES or any(one.rate is one.score is None for one in published):
        sections.append(Section(table=published_table(published, tasks), reference=True))
    return Document(title=title, sections=tuple(sections))


def point_of(row: RunRow) -> Point:
    """Where a run is in rate, cost and time."""
    rate = None if row.rate is None else Estimate(value=row.rate, low=row.low, high=row.high)
    return Point(run=row.run_id, rate=rate, cost=row.cost, seconds=row.seconds)


def runs_csv(rows: Sequence[RunRow]) -> str:
    """The same for a spreadsheet, unrounded."""
    return records_csv(RunRow, rows)


def _rates_below(rows: Sequence[RunRow]) -> tuple[str, ...]:
    errors = sum(row.errors for row in rows)
    return (errors_left_out(errors),) if errors else ()


def _cells(row: RunRow) -> tuple[str, ...]:
    return (
        row.run_id,
        row.mode,
        row.preset,
        f"{row.resolved}/{row.counted}",
        money(row.avg_cost_usd) if row.counted else NOTHING,
        duration(row.avg_seconds),
        str(row.agents),
        interval(row.low, row.high),
        str(row.errors) + _missing(row.missing),
    )


def _missing(answers: int) -> str:
    """Of answers that are not there; or that nobody has asked the run for, which somebody else must have put there."""
    if not answers:
        return ""
    return f" ({answers} missing)" if answers > 0 else f" ({-answers} too many)"


def _with_ends(estimate: Estimate | None, words: Callable[[float | None], str]) -> tuple[str, str]:
    if estimate is None:
        return NOTHING, NOTHING
    known = estimate.low is not None and estimate.high is not None
    return words(estimate.value), f"{words(estimate.low)} to {words(estimate.high)}" if known else NOTHING


def _counted_otherwise(row: RunRow) -> bool:
    return row.healthy is not None or row.errors > 0 or row.official != row.resolved or row.score is not None


def _share(cost: float | None, every: Sequence[float | None]) -> str:
    known = [one for one in every if one is not None]
    return NOTHING if cost is None or len(known) < len(every) or not sum(known) else percent(cost / sum(known))


def _union(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """All names, most frequent first."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return sorted(total, key=lambda name: (-total[name], name))
