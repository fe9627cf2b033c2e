"""Announces the environments that will be needed, so that a provider can fetch what they are made from in time."""

from collections.abc import Iterable

from proctor.core.benchmark import Benchmark, GradeOptions
from proctor.core.environment import EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import ProctorError
from proctor.core.task import Task


def prefetch_environments(
    provider: EnvironmentProvider, benchmark: Benchmark, tasks: Iterable[Task], options: GradeOptions
) -> None:
    """These tasks will be worked on, in this order."""
    specs = [known_environment(benchmark, task, options) for task in tasks]
    provider.prefetch([spec for spec in specs if spec is not None])


def release_environment(provider: EnvironmentProvider, benchmark: Benchmark, task: Task, options: GradeOptions) -> None:
    """The work on one of them is over."""
    spec = known_environment(benchmark, task, options)
    if spec is not None:
        provider.release(spec)


def known_environment(benchmark: Benchmark, task: Task, options: GradeOptions) -> EnvironmentSpec | None:
    """The environment of a task; None where it cannot be known now."""
    try:
        return benchmark.environment_spec(task, options)
    except ProctorError:
        return None  # the error is raised again when the task is worked on
