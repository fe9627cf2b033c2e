"""Announces the environments that will be needed, so that a provider can fetch what they are made from in time."""

from collections.abc import Iterable

from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import ProctorError
from proctor.core.task import Task


class EnvironmentPrefetcher:
    """The environments that a list of tasks will need."""

    def __init__(self, provider: EnvironmentProvider, benchmark: Benchmark, options: GradeOptions) -> None:
        self._provider = provider
        self._benchmark = benchmark
        self._options = options

    def prefetch(self, tasks: Iterable[Task]) -> None:
        """These tasks will be worked on, in this order."""
        specs = [self._spec(task) for task in tasks]
        self._provider.prefetch([spec for spec in specs if spec is not None])

    def release(self, task: Task) -> None:
        """The work on one of them is over."""
        spec = self._spec(task)
        if spec is not None:
            self._provider.release(spec)

    def _spec(self, task: Task) -> EnvironmentSpec | None:
        try:
            return self._benchmark.environment_spec(task, self._options)
        except ProctorError:
            return None  # the error is raised again when the task is worked on
