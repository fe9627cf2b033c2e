"""The executor of one machine: attempts and gradings take place in this process."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from proctor.core.benchmark import GradingContext
from proctor.core.evaluation import TaskEvaluation
from proctor.core.task import Task
from proctor.gateway import RunBudget
from proctor.runner.attempt import AttemptOutput, AttemptRunner, AttemptSpec
from proctor.runner.executors.base import Assignment, Executor, GradingSpec
from proctor.runner.prefetch import EnvironmentPrefetcher
from proctor.runner.run_resources import MachineResources, RunResources, open_resources
from proctor.runner.state import RunSession


class LocalExecutor(Executor):
    """Agents wait on the network and graders use the CPU, so that each have a limit of their own."""

    def __init__(self, concurrency: int, grade_concurrency: int) -> None:
        self.max_trials = concurrency + grade_concurrency
        self._attempts = asyncio.Semaphore(concurrency)
        self._gradings = asyncio.Semaphore(grade_concurrency)
        self._resources: dict[str, RunResources] = {}

    async def open(
        self, stack: AsyncExitStack, machine: MachineResources, runs: Sequence[RunSession], budget: RunBudget
    ) -> None:
        """Open gateways and sandboxes on this machine."""
        self._prefetcher = EnvironmentPrefetcher(machine.provider, machine.benchmark, machine.grade_options)
        for run in runs:
            self._resources[run.config.run_id] = await open_resources(stack, machine, run.plan, budget)

    def prefetch(self, tasks: Iterable[Task]) -> None:
        """Have the provider fetch what their environments are made from."""
        self._prefetcher.prefetch(tasks)

    def release(self, task: Task) -> None:
        """Its environment is not needed any more."""
        self._prefetcher.release(task)

    @asynccontextmanager
    async def assign(self, run: RunSession, task: Task, spent_usd: float) -> AsyncIterator[Assignment]:
        """Wait until fewer agents are running than may."""
        async with self._attempts:
            yield LocalAssignment(self._resources[run.config.run_id])

    async def grade(self, run: RunSession, spec: GradingSpec) -> TaskEvaluation:
        """Grade it here, when fewer graders are running than may."""
        machine = self._resources[run.config.run_id].machine
        async with self._gradings:
            spec.on_started()
            context = GradingContext(provider=machine.provider, folder=spec.folder, options=machine.grade_options)
            return await machine.benchmark.grade(spec.task, spec.prediction, context)


class LocalAssignment(Assignment):
    """An attempt on this machine."""

    def __init__(self, resources: RunResources) -> None:
        self._resources = resources

    def attempt(self, spec: AttemptSpec) -> Coroutine[Any, Any, AttemptOutput]:
        """Make the attempt in this process."""
        return AttemptRunner(self._resources, spec).run()
