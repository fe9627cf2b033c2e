"""A run in a few numbers, which lists of runs show: read from its summary, where it has one that is up to date."""

from proctor.analysis.intervals import Estimate, Interval, clustered_rate, wilson
from proctor.core.errors import InvalidData
from proctor.core.record import Record, read_record
from proctor.core.result import sum_costs
from proctor.core.run import RunConfig, RunSummary
from proctor.results import RunStore
from proctor.results.store import SUMMARY_FILE


class RunCounts(Record):
    """A run in numbers.

    Attributes:
        pending: trials that are not being worked on; `running`: those that are.
        cost_usd: of all trials, the unfinished ones too; `estimated_usd` of it is an upper estimate.
    """

    total: int
    resolved: int
    unresolved: int
    errors: int
    skipped: int
    pending: int
    running: int
    counted: int
    low: float | None
    high: float | None
    cost_usd: float | None
    tokens: int
    seconds: float
    estimated_usd: float = 0.0

    @property
    def done(self) -> int:
        """How many trials have a result."""
        return self.resolved + self.unresolved + self.errors + self.skipped

    @property
    def rate(self) -> float | None:
        """The share of the counted trials that is resolved."""
        return self.resolved / self.counted if self.counted else None


def counts_from_summary(store: RunStore, config: RunConfig) -> RunCounts | None:
    """The numbers of a run that no session is working on; None when its results must be counted."""
    summary = _current_summary(store, len(config.tasks) * config.trials)
    if summary is None:
        return None
    # Causes that are not counted have the status error or skipped, so the rest is the denominator.
    counted = summary.resolved + summary.unresolved
    interval: Estimate | Interval | None
    if summary.task_rates:
        interval = clustered_rate([_trials(rate) for rate, tasks in summary.task_rates.items() for _ in range(tasks)])
    elif config.trials == 1 or not counted:
        interval = wilson(summary.resolved, counted)
    else:
        return None  # an older one: which trials are of the same task is not in it
    total = len(config.tasks) * config.trials
    return RunCounts(
        total=total,
        resolved=summary.resolved,
        unresolved=summary.unresolved,
        errors=summary.errors,
        skipped=summary.skipped,
        pending=total - summary.tasks,
        running=0,
        counted=counted,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        cost_usd=sum_costs((summary.cost_usd, summary.unfinished_usd)),
        tokens=summary.tokens,
        seconds=summary.agent_seconds,
        estimated_usd=summary.estimated_usd,
    )


def _current_summary(store: RunStore, total: int) -> RunSummary | None:
    """The stored summary, if nothing has happened since it was written."""
    file = store.folder / SUMMARY_FILE
    try:
        written = file.stat().st_mtime_ns
        summary = read_record(file, RunSummary)
        if summary.tasks == total or written >= store.journal.stat().st_mtime_ns:
            return summary
    except (OSError, InvalidData):
        pass
    return None


def _trials(rate: str) -> list[float]:
    """The trials of a task of which 2/3, say, are resolved."""
    resolved, _, counted = rate.partition("/")
    return [1.0] * int(resolved) + [0.0] * (int(counted) - int(resolved))
