"""The runs that lists and the viewer show."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from proctor.core.errors import InvalidData, ProctorError, UsageError
from proctor.core.record import Record, read_record
from proctor.core.run import RunConfig
from proctor.core.sweep import Sweep
from proctor.report.run_counts import RunCounts, counts_from_summary
from proctor.report.run_table import RunTable
from proctor.report.stored_runs import HeldLocks, is_running, read_held_locks
from proctor.results import RunStore
from proctor.results.run_names import run_heading, run_title
from proctor.results.store import CONFIG_FILE
from proctor.results.sweeps import SWEEP_FILE

RunState = Literal["running", "finished", "stopped", "unreadable"]


class RunEntry(Record):
    """One run in the list. `problem` says why it cannot be read."""

    name: str
    config: RunConfig | None
    counts: RunCounts | None
    running: bool
    problem: str = ""

    @property
    def given_name(self) -> str:
        """Its name, or else its label in a sweep; empty where it has neither."""
        return (self.config.name or self.config.label or "") if self.config else ""

    @property
    def title(self) -> str:
        """As it is shown: benchmark/run-id, and its name in brackets."""
        return run_title(self.name, self.given_name)

    @property
    def state(self) -> RunState:
        """Whether it is being worked on, has results of all its trials, or has stopped before."""
        if self.counts is None:
            return "unreadable"
        if self.running:
            return "running"
        return "finished" if self.counts.done >= self.counts.total else "stopped"


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

    def title(self, name: str) -> str:
        """A run as it is shown: its name here, and in brackets the one that it was given."""
        try:
            return run_title(name, run_heading(self._chosen.get(name) or self._folder(name)).given_name)
        except InvalidData:
            return run_title(name, "")

    def sweeps(self) -> dict[str, list[str]]:
        """The runs of each sweep, in the sweep's order, its reference first."""
        found: dict[str, list[str]] = {}
        for file in sorted(self.root.glob(f"*/*/{SWEEP_FILE}")):
            benchmark = file.parent.parent.name
            try:
                sweep = read_record(file, Sweep)
            except InvalidData:
                continue  # its runs are listed all the same
            runs = sorted(sweep.runs, key=lambda run: run.label != sweep.reference)
            found[f"{benchmark}/{file.parent.name}"] = [f"{benchmark}/{run.config.run_id}" for run in runs]
        return found

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
        return self._chosen.get(name) or self._folder(name)

    def _folder(self, name: str) -> RunStore:
        benchmark, _, run_id = name.partition("/")
        return RunStore(self.root / benchmark / run_id)

    def entries(self) -> list[RunEntry]:
        """All runs as the list shows them."""
        held = read_held_locks()
        return [self._entry(name, held) for name in self.names()]

    def entry(self, name: str) -> RunEntry:
        """A run as the list shows it. One that no session is working on is read from its summary, without its results.

        Raises:
            UsageError: there is no such run.
        """
        self._store(name)
        return self._entry(name, read_held_locks())

    def _entry(self, name: str, held: HeldLocks | None) -> RunEntry:
        try:
            store = self._chosen.get(name) or self._folder(name)
            config, running = store.config(), is_running(store, held=held)
            counts = None if running or name in self._tables else counts_from_summary(store, config)
            if counts is None:
                table = self._tables.setdefault(name, RunTable(store))
                table.refresh()
                counts, running = table.counts(), table.running
            return RunEntry(name=name, config=config, counts=counts, running=running)
        except ProctorError as error:
            return RunEntry(name=name, config=None, counts=None, running=False, problem=error.sentence)
