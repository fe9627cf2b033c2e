"""The comparison of a benchmark's runs: one row per run."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import to_builtins

from proctor.analysis.intervals import wilson
from proctor.core.causes import CONSEQUENCES, Status
from proctor.core.record import Record
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig
from proctor.results import total_cost

_CENTS: Final = 0.1
# What can change results. Only what is under test should differ between two runs that are compared.
_COMPARED: Final = (
    *("agent", "command", "model", "mode", "preset", "pod_template", "variables", "versions", "data_digest", "tasks"),
    *("runner", "image", "isolation", "network", "limits", "max_turns", "samples", "budget", "machine"),
)
HEADINGS: Final = ("Run ID", "Mode", "Preset", "Resolved", "95 % interval", "Errors", "Avg Cost", "Avg Time", "Agents")


class RunRow(Record):
    """One run in numbers. Rates count graded answers; what was not the agent's fault is an error, counted apart.

    Attributes:
        counted: answers in the denominator of the rate; averages are over these too.
        low: the lower end of the 95 % interval of the rate (Wilson); `high`: the upper.
        findings: graded answers in which the audit found something.
        missing: answers that the run was asked for and has not recorded.
        avg_cost_usd: None when any price is unknown.
    """

    run_id: str
    mode: str
    agent: str
    model: str | None
    preset: str
    resolved: int
    counted: int
    low: float | None
    high: float | None
    errors: int
    skipped: int
    missing: int
    findings: int
    avg_cost_usd: float | None
    avg_seconds: float | None
    tokens: int
    agents: int


def run_row(config: RunConfig, results: Iterable[TaskResult]) -> RunRow:
    """Put a run into numbers, reading its results once."""
    resolved = counted = errors = skipped = seen = findings = tokens = agents = 0
    seconds = 0.0
    cost: float | None = 0.0
    for result in results:
        seen += 1
        resolved += result.status is Status.RESOLVED
        errors += result.status is Status.ERROR
        skipped += result.status is Status.SKIPPED
        agents = max(agents, result.metrics.agents)
        tokens += sum(usage.tokens.total for usage in result.usage)
        if result.status in {Status.RESOLVED, Status.UNRESOLVED} and CONSEQUENCES[result.cause].counted:
            counted += 1
            findings += bool(result.verdict and result.verdict.findings)
            seconds += result.answer_seconds
            spent = total_cost(result.usage)
            cost = None if cost is None or spent is None else cost + spent
    interval = wilson(resolved, counted)
    return RunRow(
        run_id=config.run_id,
        mode=config.mode.value,
        agent=config.agent,
        model=config.model,
        preset=config.preset,
        resolved=resolved,
        counted=counted,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        errors=errors,
        skipped=skipped,
        missing=len(config.tasks) * config.samples - seen,
        findings=findings,
        avg_cost_usd=cost / counted if cost is not None and counted else None,
        avg_seconds=seconds / counted if counted else None,
        tokens=tokens,
        agents=agents,
    )


def runs_text(title: str, rows: Sequence[RunRow]) -> str:
    """The table for people."""
    cells = [HEADINGS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    rule = "   ".join("-" * width for width in widths)
    return "\n".join([title, "=" * len(title), lines[0], rule, *lines[1:]]) + "\n"


def runs_csv(rows: Sequence[RunRow]) -> str:
    """The same for a spreadsheet, unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(RunRow.__struct_fields__)
    writer.writerows([getattr(row, name) for name in RunRow.__struct_fields__] for row in rows)
    return out.getvalue()


def differences(one: RunConfig, other: RunConfig) -> tuple[str, ...]:
    """What two runs were made with that is not the same: its name, and the two values."""
    return tuple(_differences(to_builtins(one), to_builtins(other)))


def _differences(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    for name in _COMPARED:
        before, after = one[name], other[name]
        if name == "tasks":
            common = len(set(before) & set(after))
            if set(before) != set(after):
                yield f"tasks: {len(before)} and {len(after)}, {common} in common"
        elif isinstance(before, dict):
            for key in sorted(before.keys() | after.keys()):
                if before.get(key) != after.get(key):
                    yield f"{name} {key}: {before.get(key)} and {after.get(key)}"
        elif before != after:
            yield f"{name}: {before} and {after}"


def money(usd: float | None) -> str:
    """An amount for people: cents, or where that would be nothing, hundredths of them."""
    if usd is None:
        return "unknown"
    return f"${usd:.2f}" if usd >= _CENTS or usd == 0 else f"${usd:.4f}"


def _cells(row: RunRow) -> tuple[str, ...]:
    interval = f"{row.low:.0%} to {row.high:.0%}" if row.low is not None and row.high is not None else "-"
    errors = str(row.errors) + (f" ({row.missing} missing)" if row.missing else "")
    return (
        row.run_id,
        row.mode,
        row.preset,
        f"{row.resolved}/{row.counted}",
        interval,
        errors,
        money(row.avg_cost_usd) if row.counted else "-",
        _duration(row.avg_seconds),
        str(row.agents),
    )


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02}s"
