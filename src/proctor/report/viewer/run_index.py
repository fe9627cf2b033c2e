"""The runs that the viewer shows."""

from collections.abc import Sequence
from pathlib import Path

from proctor.analysis.intervals import wilson
from proctor.core.errors import ProctorError, UsageError
from proctor.core.record import Record, read_record
from proctor.core.run import RunConfig, RunSummary
from proctor.report.stored_runs import is_running
from proctor.report.viewer.run_table import RunCounts, RunTable
from proctor.results import RunStore
from proctor.results.store import CONFIG_FILE, SUMMARY_FILE


class RunEntry(Record):
    """One run in the list. `problem` says why it cannot be read."""

    name: str
    config: RunConfig | None
    counts: RunCounts | None
    running: bool
    problem: str = ""


class RunIndex:
    """The runs below a folder, or some chosen ones. A run's table is read when it is first needed, and then kept.

    Raises:
        UsageError: two of the chosen ones have the same name, and would have the same pages.
    """

    def __init__(self, root: Path, chosen: Sequence[RunStore] = ()) -> None:
        self.root = root
        self._chosen: dict[str, RunStore] = {}
        for store in chosen:
            name = f"{store.folder.parent.name}/{store.run_id}"
            known = self._chosen.setdefault(name, store)
            if not known.folder.samefile(store.folder):
                raise UsageError(f"two of these runs are called {name!r}", fix="view them one at a time")
        self._tables: dict[str, RunTable] = {}

    def names(self) -> list[str]:
        """Every run's name, the latest first."""
        if self._chosen:
            return list(self._chosen)
        configs = self.root.glob(f"*/*/{CONFIG_FILE}")
        found = sorted(configs, key=lambda file: (-file.stat().st_mtime, file.parent.name))
        return [f"{file.parent.parent.name}/{file.parent.name}" for file in found]

    def table(self, name: str) -> RunTable:
        """A run's table, up to date. Blocks; the first time it reads all results.

        Raises:
            UsageError: there is no such run.
            InvalidData: its configuration cannot be read.
        """
        if name not in self._tables:
            self._tables[name] = RunTable(self._store(name))
        table = self._tables[name]
        table.refresh()
        return table

    def _store(self, name: str) -> RunStore:
        # Names come from URLs: only what is in the list is ever opened.
        if name not in (self._chosen or self.names()):
            raise UsageError(f"there is no run {name!r} here")
        benchmark, _, run_id = name.partition("/")
        return self._chosen.get(name) or RunStore(self.root / benchmark / run_id)

    def entry(self, name: str) -> RunEntry:
        """A run as the list shows it. A complete one is read from its summary, without its results."""
        try:
            store = self._store(name)
            config, running = store.config(), is_running(store)
            counts = None if running or name in self._tables else _counts_from_summary(store, config)
            if counts is None:
                table = self.table(name)
                counts, running = table.counts(), table.running
            return RunEntry(name=name, config=config, counts=counts, running=running)
        except ProctorError as error:
            return RunEntry(name=name, config=None, counts=None, running=False, problem=error.sentence)


def _counts_from_summary(store: RunStore, config: RunConfig) -> RunCounts | None:
    """The numbers of a complete run, from its summary; None when its results must be counted."""
    if not (store.folder / SUMMARY_FILE).is_file():
        return None
    summary = read_record(store.folder / SUMMARY_FILE, RunSummary)
    total = len(config.tasks) * config.trials
    # Causes that are not counted have the status error or skipped, so the rest is the denominator.
    counted = summary.resolved + summary.unresolved
    # With several trials of each task the interval depends on which trials are of the same task.
    if summary.tasks != total or config.trials > 1:
        return None
    interval = wilson(summary.resolved, counted)
    return RunCounts(
        total=total,
        resolved=summary.resolved,
        unresolved=summary.unresolved,
        errors=summary.errors,
        skipped=summary.skipped,
        pending=0,
        running=0,
        counted=counted,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        cost_usd=summary.cost_usd,
        tokens=summary.tokens,
        seconds=summary.agent_seconds,
        estimated_usd=summary.estimated_usd,
    )
