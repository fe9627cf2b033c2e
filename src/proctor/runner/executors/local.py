"""The executor of one machine: attempts and gradings take place in this process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.result import Attempt
from proctor.core.task import Task
from proctor.gateway import RunBudget
from proctor.runner.attempt import AttemptRunner
from proctor.runner.executors.base import Executor, MakeAttempt
from proctor.runner.prefetch import prefetch_environments, release_environment
from proctor.runner.state import RunSession


class LocalExecutor(Executor):
    """Agents wait on the network and graders use the CPU, so that each have a limit of their own."""

    def __init__(self, concurrency: int, grade_concurrency: int) -> None:
        self.max_trials = concurrency + grade_concurrency
        self._attempts = asyncio.Semaphore(concurrency)
        self._gradings = asyncio.Semaphore(grade_concurrency)

    async def open(self, stack: AsyncExitStack, runs: Sequence[RunSession], budget: RunBudget) -> None:
        """Open gateways and sandboxes on this machine."""
        self._shared = runs[0].resources
        for run in runs:
            await run.resources.open(stack, budget)

    def prefetch(self, tasks: Iterable[Task]) -> None:
        """Have the provider fetch what their environments are made from."""
        own = self._shared
        prefetch_environments(own.provider, own.benchmark, tasks, own.grade_options)

    def release(self, task: Task) -> None:
        """Its environment is not needed any more."""
        own = self._shared
        release_environment(own.provider, own.benchmark, task, own.grade_options)

    @asynccontextmanager
    async def assign(self, run: RunSession, task: Task, earlier: Sequence[Attempt]) -> AsyncIterator[MakeAttempt]:
        """Wait until fewer agents are running than may."""
        async with self._attempts:
            yield lambda spec: AttemptRunner(run.resources, spec).run()

    async def grade(
        self, run: RunSession, prediction: Prediction, folder: Path, *, node: str | None, on_started: Callable[[], None]
    ) -> TaskEvaluation:
        """Grade it here, when fewer graders are running than may."""
        async with self._gradings:
            on_started()
            return await run.resources.grade(prediction, folder)
