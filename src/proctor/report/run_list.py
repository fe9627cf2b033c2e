"""The list of runs: all benchmarks', filtered and sorted."""

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import field

from proctor.core.record import Record
from proctor.report.run_index import RunEntry, RunIndex, RunState

RunOrder = Literal["age", "run", "state", "agent", "model", "rate", "cost", "time"]
# What is best seen first: the newest, the best, the most expensive.
_DESCENDING: Final = frozenset({"age", "rate", "cost", "time"})


class RunListRow(Record):
    """One run in the list.

    Attributes:
        run: as commands know it: benchmark/run-id.
        name: the name that it was given.
        label: its label in the `sweep` that it is a part of.
        origin: what it was imported from; None for a run that was made here.
        trials: how many it wants; `done` of them have a result.
        counted: trials in the denominator of the rate; `low` and `high` are its 95 % interval.
        cost_usd: of all trials, the unfinished ones too; None when a price is unknown.
        problem: why its configuration cannot be read; empty for all others.
    """

    run: str
    benchmark: str
    run_id: str
    state: RunState
    name: str | None = None
    label: str | None = None
    sweep: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    note: str | None = None
    archived: bool = False
    origin: str | None = None
    agent: str | None = None
    model: str | None = None
    mode: str | None = None
    created_at: str | None = None
    trials: int = 0
    done: int = 0
    resolved: int = 0
    counted: int = 0
    errors: int = 0
    rate: float | None = None
    low: float | None = None
    high: float | None = None
    cost_usd: float | None = None
    tokens: int = 0
    seconds: float = 0.0
    problem: str = ""

    @property
    def search_text(self) -> str:
        """All text that a search looks at, in lower case."""
        tags = [f"{name}={value}" for name, value in self.tags.items()]
        parts = (self.run, self.name, self.label, self.sweep, self.note, self.agent, self.model, self.mode, self.state)
        return " ".join([*filter(None, parts), *tags]).lower()

    def age_seconds(self, now: datetime) -> float | None:
        """How long ago it was started; None where that is not known."""
        try:
            started = datetime.fromisoformat(self.created_at or "")
        except ValueError:
            return None
        return (now - (started if started.tzinfo else started.replace(tzinfo=UTC))).total_seconds()


class RunList(Record):
    """`proctor runs`: the runs that were asked for, in the order that was asked for."""

    results: str
    runs: tuple[RunListRow, ...]
    schema_version: Literal["proctor.run_list@1"] = "proctor.run_list@1"


class RunFilter(Record):
    """Which runs to list. Of `tags`, all must be there; one without a value may have any."""

    benchmark: str | None = None
    state: RunState | None = None
    agent: str | None = None
    model: str | None = None
    sweep: str | None = None
    tags: tuple[str, ...] = ()
    text: str = ""
    archived: bool = False

    def accepts(self, row: RunListRow) -> bool:
        """Whether a run is one of these."""
        return (
            (self.archived or not row.archived)
            and self.benchmark in {None, row.benchmark}
            and self.state in {None, row.state}
            and self.agent in {None, row.agent}
            and (self.model is None or self.model.lower() in (row.model or "").lower())
            and (self.sweep is None or self.sweep in {row.sweep, (row.sweep or "").rpartition("/")[2]})
            and all(_has_tag(row, tag) for tag in self.tags)
            and all(word in row.search_text for word in self.text.lower().split())
        )


def list_runs_below(root: Path) -> list[RunListRow]:
    """All runs below a folder of results."""
    return [run_list_row(entry) for entry in RunIndex(root).entries()]


def sort_runs(rows: Iterable[RunListRow], by: RunOrder = "age", *, reverse: bool = False) -> list[RunListRow]:
    """Runs in an order; what is unknown comes last."""
    named = sorted(rows, key=lambda row: row.run)
    known = [row for row in named if _sort_value(row, by) is not None]
    known.sort(key=lambda row: _sort_value(row, by), reverse=(by in _DESCENDING) is not reverse)
    return [*known, *(row for row in named if _sort_value(row, by) is None)]


def _sort_value(row: RunListRow, by: RunOrder) -> Any:
    match by:
        case "age":
            seconds = row.age_seconds(datetime.min.replace(tzinfo=UTC))
            return None if seconds is None else -seconds
        case "rate":
            return row.rate
        case "cost":
            return row.cost_usd
        case "time":
            return row.seconds if row.counted or row.seconds else None
        case "run":
            return row.run
    return getattr(row, by) or None


def _has_tag(row: RunListRow, tag: str) -> bool:
    name, separator, value = tag.partition("=")
    return name in row.tags and (not separator or row.tags[name] == value)


def run_list_row(entry: RunEntry) -> RunListRow:
    """A run in the list."""
    benchmark, _, run_id = entry.name.partition("/")
    config, counts = entry.config, entry.counts
    if config is None or counts is None:
        return RunListRow(run=entry.name, benchmark=benchmark, run_id=run_id, state="unreadable", problem=entry.problem)
    return RunListRow(
        run=entry.name,
        benchmark=benchmark,
        run_id=run_id,
        state=entry.state,
        name=config.name,
        label=config.label,
        sweep=config.sweep,
        tags=config.run_tags,
        note=config.note,
        archived=config.archived,
        origin=config.origin,
        agent=config.agent,
        model=config.model,
        mode=config.mode.value,
        created_at=config.created_at,
        trials=counts.total,
        done=counts.done,
        resolved=counts.resolved,
        counted=counts.counted,
        errors=counts.errors,
        rate=counts.rate,
        low=counts.low,
        high=counts.high,
        cost_usd=counts.cost_usd,
        tokens=counts.tokens,
        seconds=counts.seconds if math.isfinite(counts.seconds) else 0.0,
    )


def total_cost(rows: Sequence[RunListRow]) -> float:
    """What these runs cost, as far as it is known."""
    return sum(row.cost_usd or 0.0 for row in rows)
