"""Shows the progress of runs: a line for every trial that ends or is retried, on a terminal above a live table."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from proctor.cli.bench.live_view import LiveProgressView
from proctor.cli.bench.run_progress import RunProgress
from proctor.cli.heartbeat import Heartbeat
from proctor.cli.output import log, log_with
from proctor.cli.task_counter import ReasonLog
from proctor.core.causes import Cause, Status
from proctor.core.formatting import truncate_line
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig, Trial
from proctor.results import RunStore
from proctor.results.sweeps import sweep_beside
from proctor.runner.resume import TrialState

_REASON_CHARS: Final = 300


class _LineProgress(RunProgress):
    """Writes a line for every trial that ends or is retried, with the reason, which is said once."""

    def __init__(
        self,
        store: RunStore,
        config: RunConfig,
        finished: Sequence[TrialState],
        cost_usd: float,
        *,
        write: Callable[[str], None],
        reasons: ReasonLog,
    ) -> None:
        super().__init__(store, config, finished, cost_usd)
        self._write = write
        self._reasons = reasons

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        super().attempt_retrying(trial, cause, detail, seconds)
        why = self._reasons.text(trial.task_id, detail)
        self._write(f"retry in {seconds:.0f} s: {self._prefix}{trial.task_id}: {cause.value}: {why}")

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        super().trial_finished(trial, result)
        if result is None or (result.status is Status.SKIPPED and not result.attempts):
            return  # why it cannot be run was said once for all such tasks
        which = str(trial) if self.config.trials == 1 else f"{trial.task_id} #{trial.number}"
        why = "" if result.status is Status.RESOLVED else self._reasons.text(trial.task_id, result.reason)
        self._write(
            f"{self._prefix}[{self.done}/{self.total}] {which} {result.status.value} ({result.cause.value})"
            f"{f': {truncate_line(why, _REASON_CHARS)}' if why else ''}"
        )

    def run_stopping(self, cause: Cause, detail: str) -> None:
        super().run_stopping(cause, detail)
        self._write(self.stop_message)

    @property
    def _prefix(self) -> str:
        return f"{self.label}: " if self.label else ""


def is_live_terminal() -> bool:
    """Whether stderr is a terminal that can redraw what is on it."""
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in {"dumb", "unknown"}


class ProgressDisplay:
    """Shows runs on stderr, for the length of a `with` block; `make_observer` adds one.

    Attributes:
        kind: run or sweep, and `name` how it is resumed; None while nothing is started.

    Args:
        quiet: show nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self.kind = "run"
        self.name: str | None = None
        self._quiet = quiet
        self._labels: dict[str, str] = {}
        self._runs: list[RunProgress] = []
        self._reasons = ReasonLog()
        self._heartbeat = Heartbeat(self._describe)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def make_observer(
        self, store: RunStore, config: RunConfig, finished: Sequence[TrialState], cost_usd: float
    ) -> RunProgress:
        """An observer of this run, shown from now on."""
        run: RunProgress = RunProgress(store, config, finished, cost_usd)
        if not self._quiet:
            run = _LineProgress(store, config, finished, cost_usd, write=self._write, reasons=self._reasons)
        sweep = sweep_beside(store.folder, config.sweep)
        if sweep is not None and self.name is None:
            self._labels = {one.config.run_id: one.label for one in sweep.sweep().runs}
            self.kind = "sweep"
        self.name = config.sweep or run.name
        run.label = self._labels.get(store.run_id, "")
        self._runs.append(run)
        if len(self._runs) == 1 and not self._quiet:
            self._show()
        return run

    def _show(self) -> None:
        if not is_live_terminal():
            self._stack.enter_context(self._heartbeat)
            return
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        console = Console(stderr=True)
        self._stack.enter_context(
            Live(LiveProgressView(self._runs), console=console, refresh_per_second=4, transient=True)
        )
        # What is logged meanwhile appears above the table, and stays.
        self._stack.enter_context(log_with(lambda line: console.print(Text(line), soft_wrap=True)))

    def _write(self, line: str) -> None:
        self._heartbeat.logged()
        log(line)

    def _describe(self) -> str:
        """What is running, where there is no table that shows it."""
        return "; ".join(
            f"{run.label or run.title}  {run.headline()} ({trial}: {what})"
            for run in self._runs
            for trial, what in list(run.running.items())[:1]
        )
