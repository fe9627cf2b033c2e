"""All runs that can be looked at."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from proctor.analysis.intervals import wilson
from proctor.core.errors import ProctorError, UsageError
from proctor.core.record import Record, read_record
from proctor.core.run import RunConfig, RunSummary
from proctor.report.viewer.rows import RunCounts, RunTable
from proctor.results import RunStore
from proctor.results.store import CONFIG_FILE, SUMMARY_FILE

_FRESH_SECONDS: Final = 30.0
_LOCK: Final = ".lock"
_LOCKS: Final = Path("/proc/locks")


class RunEntry(Record):
    """One run on the list. `problem` says why it cannot be read, if it cannot."""

    name: str
    config: RunConfig | None
    counts: RunCounts | None
    running: bool
    problem: str = ""


class RunIndex:
    """The runs below a folder, or some chosen ones. Tables are read when they are first wanted, and then kept.

    Raises:
        UsageError: two of the chosen ones have one name, by which pages could not tell them apart.
    """

    def __init__(self, root: Path, chosen: Sequence[RunStore] = ()) -> None:
        self.root = root
        self._chosen: dict[str, RunStore] = {}
        for store in chosen:
            name = f"{store.folder.parent.name}/{store.run_id}"
            known = self._chosen.setdefault(name, store)
            if not known.folder.samefile(store.folder):
                raise UsageError(f"two of these runs are called {name!r}", fix="look at them one at a time")
        self._tables: dict[str, RunTable] = {}

    def names(self) -> list[str]:
        """Every run's name, the latest first."""
        if self._chosen:
            return list(self._chosen)
        found = sorted(self._configs(), key=lambda file: (-file.stat().st_mtime, file.parent.name))
        return [f"{file.parent.parent.name}/{file.parent.name}" for file in found]

    def _configs(self) -> Iterator[Path]:
        return self.root.glob(f"*/*/{CONFIG_FILE}")

    def table(self, name: str) -> RunTable:
        """A run's table, with all that is on disk by now. Blocks; a first time, for as long as its results take.

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
        if self._chosen:
            if name not in self._chosen:
                raise UsageError(f"there is no run {name!r} here")
            return self._chosen[name]
        # Names come from addresses: only what the list has is ever opened.
        if name not in self.names():
            raise UsageError(f"there is no run {name!r} here")
        benchmark, _, run_id = name.partition("/")
        return RunStore(self.root / benchmark / run_id)

    def entry(self, name: str) -> RunEntry:
        """A run as the list shows it. One that has ended is known from its summary, without reading its results."""
        try:
            store = self._store(name)
            config, going = store.config(), is_running(store)
            counts = None if going or name in self._tables else _counts_from_summary(store, config)
            return RunEntry(name=name, config=config, counts=counts or self.table(name).counts(), running=going)
        except ProctorError as error:
            return RunEntry(name=name, config=None, counts=None, running=False, problem=error.sentence)


def _counts_from_summary(store: RunStore, config: RunConfig) -> RunCounts | None:
    """The numbers of a run that is complete, from its summary; None when they must be counted."""
    if not (store.folder / SUMMARY_FILE).is_file():
        return None
    summary = read_record(store.folder / SUMMARY_FILE, RunSummary)
    asked = len(config.tasks) * config.trials
    # Causes that are not counted have the status error or skipped, so the rest is the denominator.
    counted = summary.resolved + summary.unresolved
    # With several answers to each task the interval depends on which answers are to the same one.
    if summary.tasks != asked or config.trials > 1:
        return None
    interval = wilson(summary.resolved, counted)
    return RunCounts(
        total=asked,
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
    )


def is_running(store: RunStore) -> bool:
    """Whether somebody is at work on this run.

    A run holds a lock. Trying it would get in the way of one that is just starting, so the kernel's list of locks is
    read instead; where there is none, a journal that has just grown tells.
    """
    lock = store.folder / _LOCK
    try:
        inode = lock.stat().st_ino
    except OSError:
        return False
    try:
        held = _LOCKS.read_text()
    except OSError:
        return _journal_is_recent(store)
    return any(f":{inode} " in line for line in held.splitlines() if "FLOCK" in line)


def _journal_is_recent(store: RunStore) -> bool:
    try:
        return time.time() - store.journal.stat().st_mtime < _FRESH_SECONDS
    except OSError:
        return False
