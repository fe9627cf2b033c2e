"""The state of a session: what its runs share, and what each run has."""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import UsageError
from proctor.core.run import RunConfig
from proctor.core.task import Task
from proctor.gateway import Prices
from proctor.results import Journal, RunStore
from proctor.runner.models import ModelAccess
from proctor.runner.observer import RunObserver
from proctor.runner.retry import DEFAULT_RETRY_SECONDS
from proctor.runner.run_resources import PlannedRun

if TYPE_CHECKING:
    from proctor.runner.executors.base import Executor

DEFAULT_GRACE_SECONDS: Final = 20.0


class Session:
    """What the runs of one session share: tasks, environments, how much runs at once, and whether and why to stop.

    Attributes:
        executor: makes attempts and gradings.
        missing: the tasks that cannot be run on this machine, each with the reason.

    Args:
        executor: makes attempts and gradings.
        access: how the model's provider is reached.
        config: of the first run, whose limits and image hold for all.
        retry_seconds: the first delay before a retry.
        grace_seconds: how long an agent has to end by itself after the model has been taken away.
    """

    def __init__(
        self,
        benchmark: Benchmark,
        provider: EnvironmentProvider,
        access: ModelAccess,
        config: RunConfig,
        executor: "Executor",
        *,
        retry_seconds: float = DEFAULT_RETRY_SECONDS,
        grace_seconds: float = DEFAULT_GRACE_SECONDS,
    ) -> None:
        self.benchmark = benchmark.for_provider(provider).with_image(config.image).with_verifier(config.verifier)
        self.provider = provider
        self.access = access
        self.executor = executor
        self.grade_options = GradeOptions(image=config.image, controls=config.controls)
        self.retry_seconds = retry_seconds
        self.grace_seconds = grace_seconds
        self.jitter: Callable[[], float] = random.random
        self.missing: Mapping[str, str] = {}
        self.stopped = asyncio.Event()
        self.stopped_by: Cause | None = None
        self.detail = ""
        self.usage_error: UsageError | None = None

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
        plan: what it is made with, and where it stands.
        prices: what tokens cost.
        model: the model's id, as the agent requests it; None when there is no model.
        secrets: what must never be written down.
        trials_left: how many were not brought to a result.
    """

    shared: Session
    plan: PlannedRun
    store: RunStore
    journal: Journal
    tasks: dict[str, Task]
    observer: RunObserver
    prices: Prices
    model: str | None = None
    secrets: tuple[str, ...] = ()
    trials_left: int = field(default=0, init=False)

    @property
    def config(self) -> RunConfig:
        """What the run does."""
        return self.plan.config

    def stop(self, cause: Cause, detail: str) -> None:
        """Let no further trial be started, of any run of the session; what is running is finished."""
        if not self.shared.stopped.is_set():
            self.shared.stopped_by, self.shared.detail = cause, detail
            self.shared.stopped.set()
            self.observer.run_stopping(cause, detail)
