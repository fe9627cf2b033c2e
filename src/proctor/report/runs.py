"""The report on a benchmark's runs: one row per run."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from proctor.analysis.comparability import differing_settings
from proctor.analysis.intervals import Estimate
from proctor.analysis.log_stats import LogStats
from proctor.analysis.pareto import ParetoPoint, pareto_results
from proctor.analysis.runs import RunRow
from proctor.core.formatting import (
    NO_VALUE,
    duration,
    money,
    number,
    percent,
    percent_interval,
    plural,
    short_count,
    truncate_line,
)
from proctor.core.published_result import PublishedResult
from proctor.report.charts import pareto_chart, rates_chart, times_chart
from proctor.report.document import Document, Section
from proctor.report.published import MAX_LINES, published_lines, published_table
from proctor.report.stored_runs import import_note
from proctor.report.tables import Table, records_csv

_NUMBERS: Final = ("Resolved", "Avg Cost", "Avg Time", "Agents", "95 % interval", "Errors")
_MAX_SETTINGS: Final = 6  # more columns than this are no overview
_MAX_SETTING_CHARS: Final = 32
_MAX_RUN_COLUMNS: Final = 6  # more runs than this do not fit beside each other


def runs_table(
    title: str, rows: Sequence[RunRow], published: Sequence[PublishedResult] = (), tasks: Collection[str] = ()
) -> Table:
    """The first table of the report: what the runs are, in what they differ, and how they did.

    Published results are below it and never in it. `tasks` are those of the runs.
    """
    differing = differing_settings([row.settings for row in rows])
    shown = dict(list(differing.items())[:_MAX_SETTINGS])
    return Table(
        title=title,
        headings=("Run ID", "Agent", "Model", *(_heading(name) for name in shown), *_NUMBERS),
        rows=tuple(
            (
                *_subject_cells(row),
                *(truncate_line(values[number], _MAX_SETTING_CHARS) for values in shown.values()),
                *_number_cells(row),
            )
            for number, row in enumerate(rows)
        ),
        notes=(
            *published_lines(published, tasks),
            *_setting_notes(rows, differing, shown),
            *_import_notes(rows),
            *error_notes(rows),
            *control_notes(rows),
            *estimate_notes(rows),
            *web_notes(rows),
        ),
    )


def _heading(setting: str) -> str:
    return setting.replace("_", " ").capitalize()


def _subject_cells(row: RunRow) -> tuple[str, ...]:
    marked = f"{row.title} [imported]" if row.origin is not None else row.title
    return (marked, row.agent, row.model or NO_VALUE)


def _setting_notes(rows: Sequence[RunRow], differing: Collection[str], shown: Collection[str]) -> Iterator[str]:
    """What holds for all runs, and what has no column."""
    if not rows:
        return
    modes = {"mode": rows[0].mode, "preset": rows[0].preset or NO_VALUE}
    same = {name: value for name, value in {**rows[0].settings, **modes}.items() if name not in differing}
    parts = [f"{name.replace('_', ' ')} {truncate_line(value, _MAX_SETTING_CHARS)}" for name, value in same.items()]
    yield f"{'All runs' if len(rows) > 1 else rows[0].title}: {', '.join(parts)}."
    hidden = [name.replace("_", " ") for name in differing if name not in shown]
    if hidden:
        yield f"Also different: {', '.join(hidden)}; `proctor bench compare` shows the values."


def _import_notes(rows: Sequence[RunRow]) -> Iterator[str]:
    for row in rows:
        if row.origin is not None:
            yield import_note(row.title, row.origin)


def per_resolved_table(rows: Sequence[RunRow]) -> Table:
    """Cost, time and tokens of all counted trials, by those resolved."""
    return Table(
        title="Per resolved task",
        headings=("Run ID", "Cost", "95 % interval", "Time", "95 % interval", "Tokens"),
        rows=tuple(
            (
                row.title,
                *_value_and_interval(row.cost_per_resolved_usd, money),
                *_value_and_interval(row.seconds_per_resolved, duration),
                short_count((row.tokens_per_resolved.value or None) if row.tokens_per_resolved else None),
            )
            for row in rows
        ),
    )


def per_trial_table(rows: Sequence[RunRow]) -> Table:
    """Cost, time and steps of a trial, resolved or not."""
    return Table(
        title="Per trial",
        headings=("Run ID", "p50 Cost", "p50 Time", "p90 Time", "Turns", "Steps", "Compactions", "Active time"),
        rows=tuple(
            (
                row.title,
                money(row.cost_distribution.p50) if row.cost_distribution else NO_VALUE,
                duration(row.time_distribution.p50 if row.time_distribution else None),
                duration(row.time_distribution.p90 if row.time_distribution else None),
                # Without turns no model was called, or they were not counted.
                *(number(mean if row.turns else None) for mean in (row.turns, row.steps, row.compactions)),
                percent(row.active_share),
            )
            for row in rows
        ),
    )


def failures_table(rows: Sequence[RunRow]) -> Table:
    """Why trials are not resolved, with counts by run; then errors and findings."""
    counts = [
        {
            **row.failure_reasons,
            **{f"error: {cause}": number for cause, number in row.error_causes.items()},
            **{f"finding: {code}": number for code, number in row.finding_codes.items()},
            **({"flaky: tasks": row.flaky} if row.flaky else {}),
        }
        for row in rows
    ]
    names = sorted(_names_by_frequency(counts), key=lambda name: ": " in name)
    cells = [[str(one.get(name, 0)) for one in counts] for name in names]
    if len(rows) <= _MAX_RUN_COLUMNS:
        headings: tuple[str, ...] = ("", *(row.title for row in rows))
        lines = [(name, *line) for name, line in zip(names, cells, strict=True)]
    else:
        headings = ("Run ID", *names)
        lines = [(row.title, *(line[index] for line in cells)) for index, row in enumerate(rows)] if names else []
    return Table(title="Failure reasons", headings=headings, rows=tuple(lines))


def pass_at_k_table(rows: Sequence[RunRow]) -> Table:
    """Runs with several trials of each task: at least one of k resolved, all of k resolved."""
    return Table(
        title="pass@k and pass^k",
        headings=("Run ID", "k", "Tasks", "pass@k", "95 % interval", "pass^k", "95 % interval"),
        rows=tuple(
            (
                row.title,
                str(one.k),
                f"{one.tasks}/{row.tasks}",
                percent(one.pass_at_k.value),
                percent_interval(one.pass_at_k.low, one.pass_at_k.high),
                percent(one.pass_hat_k.value),
                percent_interval(one.pass_hat_k.low, one.pass_hat_k.high),
            )
            for row in rows
            for one in row.pass_at_k
        ),
    )


def roles_table(rows: Sequence[RunRow]) -> Table:
    """Cost, active time and idle share of the roles of a team."""
    return Table(
        title="Roles",
        headings=(
            "Run ID",
            "Role",
            "Cost",
            "Cost share",
            "Active time",
            "Idle share",
            "Turns",
            "Messages",
            "Compactions",
        ),
        rows=tuple(
            (
                row.title,
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


def alternative_scores_table(rows: Sequence[RunRow]) -> Table:
    """The score on all tasks, on healthy tasks, with errors counted as failures, and by the official grader."""
    return Table(
        title="Alternative scores",
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
                row.title,
                f"{row.resolved}/{row.counted}",
                f"{row.healthy.resolved}/{row.healthy.counted}" if row.healthy else NO_VALUE,
                percent_interval(row.healthy.rate.low, row.healthy.rate.high)
                if row.healthy and row.healthy.rate
                else NO_VALUE,
                percent(row.rate_with_errors),
                f"{row.official}/{row.counted}",
                number(row.score.value, 3) if row.score else NO_VALUE,
            )
            for row in rows
        ),
    )


def log_stats_table(log_stats: Sequence[LogStats]) -> Table:
    """Tool calls by kind of waste; below it, the benchmark's own measures."""
    return Table(
        title="Tool calls (from logs)",
        headings=("Run ID", "Trajectories", "Calls", "Wasted", "Failed", "Re-read", "Repeated", "Gave up"),
        rows=tuple(
            (
                one.run,
                f"{one.trajectories_read}/{one.trajectories_read + one.trajectories_missing}",
                str(one.tool_calls.calls),
                percent(one.tool_calls.wasted / one.tool_calls.calls if one.tool_calls.calls else None),
                str(one.tool_calls.failed),
                str(one.tool_calls.reread),
                str(one.tool_calls.repeated),
                str(one.gave_up),
            )
            for one in log_stats
        ),
        notes=tuple(note for one in log_stats for note in _measure_notes(one)),
    )


def _measure_notes(log_stats: LogStats) -> Iterator[str]:
    for one in log_stats.measures:
        counts = _format_counts(one.counts)
        if one.total is not None:
            counts = f"{sum(one.counts.values())} of {one.total}" + (f" ({counts})" if counts else "")
        yield f"{log_stats.run}, {one.name}: {counts}."


def _format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {times}" for name, times in counts.items())


def scores_table(rows: Sequence[RunRow]) -> Table:
    """For benchmarks that grade by degree: the mean score, the further scores, and the best of several trials."""
    names = sorted({name for row in rows for name in row.scores})
    best_of = sorted({(name, k) for row in rows for name, best in row.best_of.items() for k in range(len(best))})
    lines = [
        ("mean score", *(_mean_score(row) for row in rows)),
        *((name, *(number(row.scores.get(name), 3) for row in rows)) for name in names),
        *(
            (f"best of {k + 1}, {name}", *(number(_best_of(row, name, k), 3) for row in rows))
            for name, k in best_of
            if k
        ),
    ]
    return Table(title="Scores", headings=("", *(row.title for row in rows)), rows=tuple(lines))


def _best_of(row: RunRow, name: str, index: int) -> float | None:
    best = row.best_of.get(name, ())
    return best[index] if index < len(best) else None


def _mean_score(row: RunRow) -> str:
    if row.score is None:
        return NO_VALUE
    return f"{number(row.score.value, 3)} ({number(row.score.low, 3)} to {number(row.score.high, 3)})"


def run_tables(
    title: str, rows: Sequence[RunRow], published: Sequence[PublishedResult] = (), tasks: Collection[str] = ()
) -> tuple[Table, ...]:
    """All tables that are not empty for these runs."""
    candidates = (
        per_resolved_table(rows),
        per_trial_table(rows),
        alternative_scores_table(rows) if any(_has_alternative_scores(row) for row in rows) else None,
        scores_table(rows) if any(row.score is not None for row in rows) else None,
        failures_table(rows),
        pass_at_k_table(rows),
        roles_table(rows),
    )
    return (
        runs_table(title, rows, published, tasks),
        *(table for table in candidates if table is not None and table.rows),
    )


def runs_document(
    title: str,
    rows: Sequence[RunRow],
    published: Sequence[PublishedResult] = (),
    *,
    tasks: Collection[str] = (),
    log_stats: Sequence[LogStats] = (),
) -> Document:
    """The report on a benchmark's runs, and on their logs if they were read."""
    tables = run_tables(title, rows, published, tasks)
    charts = [("Resolved, with 95 % intervals", rates_chart(rows, published))]
    if any(row.time_distribution is not None for row in rows):
        charts.append(("Time per trial: range, p25 to p75, p50", times_chart(rows)))
    if any(row.cost is not None and row.rate is not None for row in rows):
        charts.append(
            (
                "Cost against rate, with the Pareto frontier",
                pareto_chart(pareto_results(list(map(pareto_point, rows)), {})),
            )
        )
    first = Section(table=tables[0], charts=tuple(charts))
    more = [*tables[1:], *([log_stats_table(log_stats)] if log_stats else [])]
    sections = [first, *(Section(table=table) for table in more)]
    if len(published) > MAX_LINES or any(one.rate is one.score is None for one in published):
        sections.append(Section(table=published_table(published, tasks), page_only=True))
    warnings = [
        f"{row.title}: its {row.nodes} nodes differ in {', '.join(row.node_differences)}; times, and what depends on"
        " them, are not of one machine"
        for row in rows
        if row.node_differences
    ]
    return Document(title=title, sections=tuple(sections), warnings=tuple(warnings))


def pareto_point(row: RunRow) -> ParetoPoint:
    """A run's rate, cost and time."""
    rate = None if row.rate is None else Estimate(value=row.rate, low=row.low, high=row.high)
    return ParetoPoint(run=row.title, rate=rate, cost=row.cost, seconds=row.seconds)


def runs_csv(rows: Sequence[RunRow]) -> str:
    """The runs for a spreadsheet, unrounded."""
    return records_csv(RunRow, rows)


def error_notes(rows: Iterable[RunRow]) -> tuple[str, ...]:
    """A note that errors are not in the rates, if there are any."""
    errors = sum(row.errors for row in rows)
    are = "is" if errors == 1 else "are"
    return (f"{plural(errors, 'infrastructure error')} {are} excluded from the rates.",) if errors else ()


def control_notes(rows: Iterable[RunRow]) -> tuple[str, ...]:
    """A note for each run whose resolved trials were not all checked by controls."""
    notes = []
    for row in rows:
        if row.resolved and not row.controls:
            notes.append(f"{row.title}: controls were off, so resolved trials were not control-checked.")
        elif row.uncontrolled:
            trials = plural(row.resolved, "resolved trial")
            notes.append(f"{row.title}: {row.uncontrolled} of {trials} passed tests that have no altered version.")
    return tuple(notes)


def estimate_notes(rows: Iterable[RunRow]) -> tuple[str, ...]:
    """How much of a run's cost is estimated, for each run in which some is."""
    return tuple(
        f"{row.title}: {money(row.estimated_usd)} of {money(row.total_usd)} is an upper estimate, of "
        f"{plural(row.estimated_requests, 'request')} whose response broke off or never came."
        for row in rows
        if row.estimated_requests
    )


def web_notes(rows: Iterable[RunRow]) -> tuple[str, ...]:
    """Which runs allowed the provider's own tools, and which refused requests that wanted one."""
    return tuple(
        f"{row.title}: the provider's own tools, such as web search, were allowed."
        if row.web
        else f"{row.title}: {plural(row.web_refused, 'request')} for the provider's own tools, such as web search, "
        f"{'was' if row.web_refused == 1 else 'were'} refused."
        for row in rows
        if row.web or row.web_refused
    )


def _number_cells(row: RunRow) -> tuple[str, ...]:
    return (
        f"{row.resolved}/{row.counted}",
        money(row.avg_cost_usd) if row.counted else NO_VALUE,
        duration(row.avg_seconds),
        str(row.agents),
        percent_interval(row.low, row.high),
        str(row.errors) + _missing_trials(row.missing),
    )


def _missing_trials(trials: int) -> str:
    """Trials that are not recorded; or, below 0, results that do not belong to the run."""
    if not trials:
        return ""
    return f" ({trials} missing)" if trials > 0 else f" ({-trials} unexpected)"


def _value_and_interval(estimate: Estimate | None, format_value: Callable[[float | None], str]) -> tuple[str, str]:
    if estimate is None:
        return NO_VALUE, NO_VALUE
    known = estimate.low is not None and estimate.high is not None
    ends = f"{format_value(estimate.low)} to {format_value(estimate.high)}" if known else NO_VALUE
    return format_value(estimate.value), ends


def _has_alternative_scores(row: RunRow) -> bool:
    return row.healthy is not None or row.errors > 0 or row.official != row.resolved or row.score is not None


def _share(cost: float | None, every: Sequence[float | None]) -> str:
    known = [one for one in every if one is not None]
    return NO_VALUE if cost is None or len(known) < len(every) or not sum(known) else percent(cost / sum(known))


def _names_by_frequency(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """All names, most frequent first."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return sorted(total, key=lambda name: (-total[name], name))
