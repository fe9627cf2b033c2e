"""The progress of runs: a live table on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from proctor.cli.output import log
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig, Trial
from proctor.gateway import ExchangeFinished
from proctor.results import RunStore, SweepStore
from proctor.runner.observer import RunObserver
from proctor.runner.resume import TrialState
from proctor.runner.run_cost import RunCost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


class RunProgress(RunObserver):
    """What is known of a run in progress."""

    def __init__(self, store: RunStore, config: RunConfig, finished: Sequence[TrialState], cost: RunCost) -> None:
        self.name = f"{store.folder.parent.name}/{store.run_id}"
        self.label = ""
        self.config = config
        self.total = len(config.tasks) * config.trials
        self.statuses: Counter[Status] = Counter()
        for state in finished:
            if state.result_cause is not None:
                self.statuses[CONSEQUENCES[state.result_cause].status or Status.UNRESOLVED] += 1
        self.cost = cost.known_usd
        self.unpriced = False
        self.running: dict[Trial, str] = {}
        self.trials_left = 0
        self.stop_message = ""
        self._started = time.monotonic()
        self._finished = 0
        self._responses: deque[tuple[float, int]] = deque()

    def attempt_started(self, trial: Trial) -> None:
        """An attempt at a trial has started."""
        self.running[trial] = "starting"

    def progress(self, trial: Trial, message: str) -> None:
        """What is being done for a trial now."""
        self.running[trial] = message

    def model_responded(self, trial: Trial, event: ExchangeFinished) -> None:  # noqa: ARG002 - as the runner calls it
        """The model has responded."""
        self._responses.append((time.monotonic(), event.tokens.total))
        self.unpriced = self.unpriced or event.cost_usd is None
        self.cost += event.cost_usd or 0.0

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:  # noqa: ARG002 - likewise
        """An attempt is repeated."""
        self.running[trial] = f"waits {seconds:.0f} s to retry after {cause.value}"

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        """A trial is finished, or left for another session."""
        self.running.pop(trial, None)
        if result is None:
            self.trials_left += 1
        else:
            self._finished += 1
            self.statuses[result.status] += 1

    def run_stopping(self, cause: Cause, detail: str) -> None:
        """No further trial is started."""
        self.stop_message = f"stopping ({cause.value}): {detail}"

    @property
    def done(self) -> int:
        """How many results are recorded, those of earlier sessions included."""
        return self.statuses.total()

    def headline(self) -> str:
        """One line on how far the run is."""
        limit = self.config.max_cost
        cost = f"${self.cost:.4f}{'+?' if self.unpriced else ''}{f' of ${limit:.2f}' if limit is not None else ''}"
        return (
            f"{self.done}/{self.total} done, {len(self.running)} running, "
            f"{self.statuses[Status.RESOLVED]} resolved, {self.statuses[Status.ERROR]} errors, "
            f"{cost}, {self._tokens_per_minute():,.0f} tokens/min, {self._estimate()}"
        )

    def _tokens_per_minute(self) -> float:
        now = time.monotonic()
        while self._responses and now - self._responses[0][0] > _MINUTE:
            self._responses.popleft()
        minutes = min(max(now - self._started, 1.0), _MINUTE) / _MINUTE
        return sum(tokens for _, tokens in self._responses) / minutes

    def _estimate(self) -> str:
        """How long what is left will take at the pace of this session."""
        if not self._finished:
            return "no estimate yet"
        seconds = (time.monotonic() - self._started) / self._finished * (self.total - self.done - self.trials_left)
        if seconds >= _HOUR:
            return f"{seconds / _HOUR:.1f} h left"
        return f"{seconds / _MINUTE:.0f} min left" if seconds >= _MINUTE else f"{seconds:.0f} s left"


class _LineProgress(RunProgress):
    """Plain lines: one for every trial that ends or is retried."""

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        super().attempt_retrying(trial, cause, detail, seconds)
        log(f"retry in {seconds:.0f} s: {self._prefix}{trial.task_id}: {cause.value}: {detail}")

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        super().trial_finished(trial, result)
        if result is not None:
            which = str(trial) if self.config.trials == 1 else f"{trial.task_id} #{trial.number}"
            why = f": {result.reason}" if result.status is Status.ERROR else ""
            log(f"{self._prefix}[{self.done}/{self.total}] {which} {result.status.value} ({result.cause.value}){why}")

    def run_stopping(self, cause: Cause, detail: str) -> None:
        super().run_stopping(cause, detail)
        log(self.stop_message)

    @property
    def _prefix(self) -> str:
        return f"{self.label}: " if self.label else ""


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
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def make_observer(
        self, store: RunStore, config: RunConfig, finished: Sequence[TrialState], cost: RunCost
    ) -> RunProgress:
        """An observer of this run, shown from now on."""
        terminal = not self._quiet and sys.stderr.isatty()
        run = (RunProgress if self._quiet or terminal else _LineProgress)(store, config, finished, cost)
        if config.sweep is not None and self.name is None:
            sweep = SweepStore(store.folder.parent / Path(config.sweep).name).sweep()
            self._labels = {one.config.run_id: one.label for one in sweep.runs}
            self.kind = "sweep"
        self.name = config.sweep or run.name
        run.label = self._labels.get(store.run_id, "")
        self._runs.append(run)
        if terminal and len(self._runs) == 1:
            self._show()
        return run

    def _show(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
        from rich.live import Live  # noqa: PLC0415

        console = Console(stderr=True)
        self._stack.enter_context(
            Live(_LiveProgressView(self._runs), console=console, refresh_per_second=4, transient=True)
        )


class _LiveProgressView:
    """Runs on a terminal: a headline each, then a line for each trial that is running, as many as fit.

    The headline of a single run takes as many lines as it needs: cost and estimate stand at its end.
    """

    def __init__(self, runs: Sequence[RunProgress]) -> None:
        self._runs = runs

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[RenderableType]":
        from rich.text import Text  # noqa: PLC0415 - loaded already

        def line(text: str, style: str = "") -> Text:
            clean = "".join(letter if letter.isprintable() else " " for letter in text)
            return Text(clean, style=style, no_wrap=True, overflow="ellipsis")

        heads = [f"{run.label or run.name}  {run.headline()}" for run in self._runs]
        if len(heads) == 1:
            heads = [part.plain for part in Text(heads[0]).wrap(console, options.max_width)]
        for head in heads:
            yield line(head, "bold")
        stop = next((run.stop_message for run in self._runs if run.stop_message), "")
        if stop:
            yield line(stop, "red")
        lines = max(1, (options.max_height or console.height) - 2 - len(heads))
        # Another thread draws: what it iterates over must not change meanwhile.
        running = [(run, trial, what) for run in self._runs for trial, what in list(run.running.items())]
        for run, trial, what in running[:lines]:
            yield line(f"  {run.label}{': ' if run.label else ''}{trial}  {what}")
        if len(running) > lines:
            yield line(f"  and {len(running) - lines} more")
