"""A session: what a caller brings to it, what its runs share, and what each run has."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from proctor.core.benchmark import Benchmark
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import UsageError
from proctor.core.run import RunConfig, Trial
from proctor.core.sweep import Sweep
from proctor.results import Journal, RunStore
from proctor.results.store import CountedResult
from proctor.runner.agents import AgentSource
from proctor.runner.models import ModelAccess
from proctor.runner.observer import RunObserver
from proctor.runner.preflight import OnPull
from proctor.runner.resume import TrialState
from proctor.runner.retry import DEFAULT_RETRY_SECONDS
from proctor.runner.run_resources import DEFAULT_GRACE_SECONDS, RunResources

if TYPE_CHECKING:
    from proctor.runner.executors.base import Executor

# Makes the observer of a run: of which store and configuration, where its finished trials stand, and its cost so far.
ObserverFactory = Callable[[RunStore, RunConfig, Sequence[TrialState], float], RunObserver]


@dataclass(slots=True)
class Session:
    """One session. A caller makes it with what it brings beside options; `run_session` works on it, once.

    Attributes:
        benchmark: an object to use instead of the benchmark that is named; `agent` and `provider` likewise.
        access: how the model's provider is reached; None: as options and environment say.
        results: where runs are stored; None: PROCTOR_RESULTS, or ``./results``.
        dry_run: plan only: nothing is pulled, written or paid for.
        confirm: is shown what is planned before anything is written, and decides whether to start.
        make_observer: makes the observer of each run.
        log: receives warnings, a sentence each.
        on_pull: receives the progress of images that are pulled or built.
        retry_seconds: the first delay before a retry.
        grace_seconds: how long an agent has to end by itself after the model has been taken away.
        executor: makes attempts and gradings.
        missing: the tasks that cannot be run on this machine, each with the reason.
        stopped_by: why no further trial is started, and `detail` in words; None while nothing has stopped it.
        usage_error: what showed that no attempt can be made in this way.
    """

    benchmark: Benchmark | None = None
    agent: AgentSource | None = None
    provider: EnvironmentProvider | None = None
    access: ModelAccess | None = None
    results: Path | None = None
    dry_run: bool = False
    confirm: Callable[[RunConfig | Sweep], bool] = lambda _: True
    make_observer: ObserverFactory = lambda *_: RunObserver()
    log: Callable[[str], None] = lambda _: None
    on_pull: OnPull | None = None
    retry_seconds: float = DEFAULT_RETRY_SECONDS
    grace_seconds: float = DEFAULT_GRACE_SECONDS
    jitter: Callable[[], float] = random.random
    executor: "Executor" = field(init=False)
    missing: Mapping[str, str] = field(default_factory=dict, init=False)
    stopped: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    stopped_by: Cause | None = field(default=None, init=False)
    detail: str = field(default="", init=False)
    usage_error: UsageError | None = field(default=None, init=False)

    @property
    def objects(self) -> tuple[str, ...]:
        """Which parts the caller gives as objects, not by name."""
        given = {"benchmark": self.benchmark, "agent": self.agent, "runner": self.provider}
        return tuple(name for name, value in given.items() if value is not None)

    async def wait_unless_stopped(self, seconds: float) -> None:
        """Wait before a retry, unless the session stops."""
        try:
            await asyncio.wait_for(self.stopped.wait(), seconds)
        except TimeoutError:
            return


@dataclass(slots=True)
class RunSession:
    """One run in a session.

    Attributes:
        resources: what its attempts and gradings are made with.
        pending: the trials that are to be worked on.
        trial_states: where each trial stands that an earlier session has started.
        spent_usd: what earlier sessions have spent, as far as prices are known.
        results: what a summary counts of the results that stay as they are, by their files.
        trials_left: how many were not brought to a result.
    """

    session: Session
    resources: RunResources
    store: RunStore
    pending: Sequence[Trial]
    trial_states: Mapping[Trial, TrialState] = field(default_factory=dict)
    spent_usd: float = 0.0
    results: Mapping[str, CountedResult] = field(default_factory=dict)
    journal: Journal = field(init=False)
    observer: RunObserver = field(init=False)
    trials_left: int = field(default=0, init=False)

    @property
    def config(self) -> RunConfig:
        """What the run does."""
        return self.resources.config

    def finished(self) -> list[TrialState]:
        """The trials that are not worked on any more."""
        unfinished = set(self.pending)
        return [state for trial, state in self.trial_states.items() if trial not in unfinished]

    def stop(self, cause: Cause, detail: str) -> None:
        """Let no further trial be started, of any run of the session; what is running is finished."""
        if not self.session.stopped.is_set():
            self.session.stopped_by, self.session.detail = cause, detail
            self.session.stopped.set()
            self.observer.run_stopping(cause, detail)
