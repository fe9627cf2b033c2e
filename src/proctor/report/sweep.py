"""The outcome of a sweep as a table."""

from collections.abc import Iterator

from proctor.analysis.sweep import SweepOutcome, SweepRunOutcome
from proctor.core.formatting import NO_VALUE, duration, money, percent_interval, percentage_points, short_count
from proctor.report.runs import error_notes, estimate_notes, web_notes
from proctor.report.tables import Table, as_text


def sweep_text(outcome: SweepOutcome, *, width: int | None = None) -> str:
    """The table, the conclusions of the comparisons, and the decision of the rule; at most `width` characters wide."""
    table = Table(
        title=f"{outcome.name}: {outcome.benchmark}, {len(outcome.runs)} configurations",
        headings=(
            *("Configuration", "Agent", "Model", "Run ID", "Resolved", "95 % interval", "Errors"),
            *("Avg Cost", "Avg Time", "Tokens", "Difference", "95 % interval", "Rule"),
        ),
        rows=tuple(_cells(run, outcome) for run in outcome.runs),
        notes=tuple(_notes(outcome)),
    )
    return as_text(table, width=width)


def _cells(run: SweepRunOutcome, outcome: SweepOutcome) -> tuple[str, ...]:
    row, comparison, decision = run.row, run.comparison, run.decision
    change = comparison.rate.difference if comparison and comparison.rate else None
    ends = (
        f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
        if change and change.low is not None and change.high is not None
        else NO_VALUE
    )
    if run.label == outcome.reference:
        rule = "reference"
    else:
        rule = NO_VALUE if decision is None else "met" if decision.passed else "not met"
    return (
        run.label,
        row.agent,
        row.model or NO_VALUE,
        run.run_id,
        f"{row.resolved}/{row.counted}",
        percent_interval(row.low, row.high),
        str(row.errors) + (f" ({row.missing} missing)" if row.missing else ""),
        money(row.avg_cost_usd) if row.counted else NO_VALUE,
        duration(row.avg_seconds),
        short_count(row.tokens or None),
        percentage_points(change.value) if change else NO_VALUE,
        ends,
        rule,
    )


def _notes(outcome: SweepOutcome) -> Iterator[str]:
    for run in outcome.runs:
        if run.comparison is not None:
            yield run.comparison.sentence
        if run.decision is not None and not run.decision.passed:
            yield run.decision.sentence
    rows = [run.row for run in outcome.runs]
    yield from (*error_notes(rows), *estimate_notes(rows), *web_notes(rows))
    yield outcome.sentence
