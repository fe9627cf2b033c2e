"""What is known of a run in progress."""

import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig, Trial
from proctor.gateway import ExchangeFinished
from proctor.results import RunStore
from proctor.results.run_names import run_title
from proctor.runner.observer import NodeStatus, RunObserver, describe_nodes
from proctor.runner.resume import TrialState

_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


class RunProgress(RunObserver):
    """What is known of a run in progress."""

    def __init__(self, store: RunStore, config: RunConfig, finished: Sequence[TrialState], cost_usd: float) -> None:
        self.name = store.name
        self.title = run_title(store.name, config.name or config.label or "")
        self.label = ""
        self.config = config
        self.total = len(config.tasks) * config.trials
        self.statuses: Counter[Status] = Counter()
        for state in finished:
            if state.result_cause is not None:
                self.statuses[CONSEQUENCES[state.result_cause].status or Status.UNRESOLVED] += 1
        self.cost = cost_usd
        self.unpriced = False
        self.running: dict[Trial, str] = {}
        self.trials_left = 0
        self.stop_message = ""
        self.started = time.monotonic()
        self.finished = 0
        self.nodes: Sequence[NodeStatus] = ()
        self._responses: deque[tuple[float, int]] = deque()

    def attempt_started(self, trial: Trial) -> None:
        """An attempt at a trial has started."""
        self.running[trial] = "starting"

    def progress(self, trial: Trial, message: str) -> None:
        """What is being done for a trial now."""
        self.running[trial] = message

    def model_responded(self, trial: Trial, event: ExchangeFinished) -> None:
        """The model has responded."""
        self._responses.append((time.monotonic(), event.tokens.total))
        self.unpriced = self.unpriced or event.cost_usd is None
        self.cost += event.cost_usd or 0.0

    def attempt_retrying(self, trial: Trial, cause: Cause, detail: str, seconds: float) -> None:
        """An attempt is repeated."""
        self.running[trial] = f"waits {seconds:.0f} s to retry after {cause.value}"

    def trial_finished(self, trial: Trial, result: TaskResult | None) -> None:
        """A trial is finished, or left for another session."""
        self.running.pop(trial, None)
        if result is None:
            self.trials_left += 1
        else:
            self.finished += result.attempts != ()  # what is skipped takes no time
            self.statuses[result.status] += 1

    def nodes_changed(self, nodes: Sequence[NodeStatus]) -> None:
        """The nodes of a cluster."""
        self.nodes = nodes

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
            f"{cost}, {self._tokens_per_minute():,.0f} tokens/min, {time_left([self])}{describe_nodes(self.nodes)}"
        )

    def _tokens_per_minute(self) -> float:
        now = time.monotonic()
        while self._responses and now - self._responses[0][0] > _MINUTE:
            self._responses.popleft()
        minutes = min(max(now - self.started, 1.0), _MINUTE) / _MINUTE
        return sum(tokens for _, tokens in self._responses) / minutes


def time_left(runs: Sequence[RunProgress]) -> str:
    """How long what is left of these runs will take at the pace of this session."""
    finished = sum(run.finished for run in runs)
    if not finished:
        return "no estimate yet"
    left = sum(run.total - run.done - run.trials_left for run in runs)
    seconds = (time.monotonic() - min(run.started for run in runs)) / finished * left
    if seconds >= _HOUR:
        return f"{seconds / _HOUR:.1f} h left"
    return f"{seconds / _MINUTE:.0f} min left" if seconds >= _MINUTE else f"{seconds:.0f} s left"
