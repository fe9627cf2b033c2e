"""What a sweep has shown, for people."""

from collections.abc import Iterator

from proctor.analysis.sweep import SweepOutcome, SweepRunOutcome
from proctor.report.formatting import NO_VALUE, duration, excluded_errors_note, interval, money, percentage_points
from proctor.report.tables import Table, as_text


def sweep_text(outcome: SweepOutcome) -> str:
    """The table, what the comparisons can show, and what the rule says."""
    table = Table(
        title=f"{outcome.name}: {outcome.benchmark}, {len(outcome.runs)} configurations",
        headings=(
            *("Configuration", "Run ID", "Resolved", "95 % interval", "Errors", "Avg Cost", "Avg Time"),
            *("Difference", "95 % interval", "Rule"),
        ),
        rows=tuple(_cells(contender, outcome) for contender in outcome.runs),
        notes=tuple(_notes(outcome)),
    )
    return as_text(table)


def _cells(contender: SweepRunOutcome, outcome: SweepOutcome) -> tuple[str, ...]:
    row, comparison, decision = contender.row, contender.comparison, contender.decision
    change = comparison.rate.difference if comparison and comparison.rate else None
    ends = (
        f"{100 * change.low:+.1f} to {100 * change.high:+.1f}"
        if change and change.low is not None and change.high is not None
        else NO_VALUE
    )
    if contender.label == outcome.reference:
        verdict = "baseline"
    else:
        verdict = NO_VALUE if decision is None else "met" if decision.passed else "not met"
    return (
        contender.label,
        contender.run_id,
        f"{row.resolved}/{row.counted}",
        interval(row.low, row.high),
        str(row.errors) + (f" ({row.missing} missing)" if row.missing else ""),
        money(row.avg_cost_usd) if row.counted else NO_VALUE,
        duration(row.avg_seconds),
        percentage_points(change.value) if change else NO_VALUE,
        ends,
        verdict,
    )


def _notes(outcome: SweepOutcome) -> Iterator[str]:
    for contender in outcome.runs:
        if contender.comparison is not None:
            yield contender.comparison.sentence
        if contender.decision is not None and not contender.decision.passed:
            yield contender.decision.sentence
    errors = sum(contender.row.errors for contender in outcome.runs)
    if errors:
        yield excluded_errors_note(errors)
    yield outcome.sentence
