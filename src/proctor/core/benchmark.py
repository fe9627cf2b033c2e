"""What a benchmark is: a source of tasks and the rule that grades them.

Built-in benchmarks and a stranger's register alike, through the entry point group ``proctor.benchmarks``.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, runtime_checkable

from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.published_result import PublishedResult
from proctor.core.record import Record
from proctor.core.run import Machine
from proctor.core.task import Task


class GradeOptions(Record):
    """How submissions are graded; None leaves it to the benchmark.

    Attributes:
        determinism_runs: how often the tests run after the patch; from 2 on, a test that flips makes the task flaky.
        repair: what a linter may mend between patch and tests, where the benchmark has one.
        jobs_inside: how many jobs one task's own test program may use.
    """

    image: str | None = None
    determinism_runs: int | None = None
    timeout_seconds: float | None = None
    repair: Literal["off", "memory", "write"] = "write"
    repair_max_iters: int = 3
    jobs_inside: int = 1
    keep_artifacts: bool = False


_NO_PERMIT: Final[AbstractAsyncContextManager[object]] = nullcontext()


@dataclass(frozen=True, slots=True)
class GradingContext:
    """Where one task is graded: who makes the rooms, and the folder for what is left of it.

    Attributes:
        turn: what a benchmark that takes turns holds while it runs anything of a task; the rest may be done meanwhile.
    """

    provider: EnvironmentProvider
    folder: Path
    options: GradeOptions
    use_cache: bool = True
    permit: AbstractAsyncContextManager[object] = _NO_PERMIT


class TaskHealth(Record):
    """What was learned about a task on this machine before anything was spent.

    Attributes:
        problems: why the task cannot be trusted here; empty when it can.
        flaky: the tests whose results did not repeat.
        leaks: where the gold answer can be found by the agent.
        deviations: in what the room differs from the official one; a task may be healthy all the same.
        skipped: why the task could not be tried on this machine; that says nothing about its health.
    """

    task_id: str
    environment: str
    healthy: bool
    pre_patch_ok: bool
    oracle_ok: bool
    determinism_ok: bool
    problems: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    deviations: tuple[str, ...] = ()
    skipped: str = ""
    artifacts: str | None = None
    schema_version: Literal["proctor.task_health@1"] = "proctor.task_health@1"


class InvalidTask(Record):
    """A task of the source that cannot be used, and every reason."""

    task_id: str
    problems: tuple[str, ...]


class DatasetInfo(Record):
    """A data set that was brought to this machine.

    Attributes:
        origin: where it came from: a repository, a hub, or a path.
        revision: the commit or version of it there; empty where the origin has none.
        digest: of the files as they are kept.
    """

    benchmark: str
    split: str
    origin: str
    revision: str
    digest: str
    tasks: int
    fetched_at: str
    schema_version: Literal["proctor.dataset_info@1"] = "proctor.dataset_info@1"


class Benchmark(Protocol):
    """A named source of tasks, and their grading."""

    name: str
    split: str | None  # the part of its data that was chosen, where it has several
    source: str
    grader: str  # names the grading rule and its version: another one may grade otherwise

    def digest(self) -> str:
        """Identifies the data."""
        ...

    def fingerprint(self, task: Task) -> str:
        """Identifies all of one task's data that a verdict depends on."""
        ...

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The room in which this task's submissions are graded, but for the tree in it."""
        ...

    def tasks(self) -> Sequence[Task]:
        """Every task that can be used, in the order of their ids."""
        ...

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """The tasks whose data is broken."""
        ...

    def oracle(self, task: Task) -> Prediction | None:
        """The reference answer, where there is one."""
        ...

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """Lay out below `folder` what the agent starts from; the room that it will work in."""
        ...

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """Turn what the agent left behind into its submission."""
        ...

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Grade one submission in fresh rooms."""
        ...

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """Prove on this machine that the task can be failed, can be solved, and is graded alike each time."""
        ...


@runtime_checkable
class UsesPermit(Protocol):
    """A benchmark that holds the turn of its `Place` whenever it runs anything, and so can do the rest ahead of it."""

    uses_permit: bool


@runtime_checkable
class ProviderAware(Protocol):
    """A benchmark that has to know who makes its rooms, since what it prepares depends on it."""

    def for_provider(self, provider: EnvironmentProvider) -> Benchmark:
        """The same benchmark, in rooms of this provider."""
        ...


@runtime_checkable
class ServesEnvironment(Protocol):
    """A benchmark that sees to a room from inside: before the agent comes, and while it works."""

    def serve(self, task: Task, environment: Environment, folder: Path) -> AbstractAsyncContextManager[None]:
        """Entered, the room is in the state that the task starts from; left, the agent has ended.

        What the agent asks meanwhile is answered: a score, say. `folder` is the one that `prepare` laid out and that
        `collect` is given; the agent sees nothing of it, and what the grader will need to know can be noted there.

        Raises:
            InfrastructureError: the room cannot be brought into that state, or is not one for this task.
        """
        ...


def for_provider(benchmark: Benchmark, provider: EnvironmentProvider) -> Benchmark:
    """The benchmark in rooms of this provider, where that makes a difference to it."""
    return benchmark.for_provider(provider) if isinstance(benchmark, ProviderAware) else benchmark


@runtime_checkable
class ReadsPredictions(Protocol):
    """A benchmark whose answers have official forms of their own, and whose exam is no smaller for a missing answer."""

    def read_predictions(self, file: Path) -> dict[str, Prediction]:
        """The answers in a file of any form that the benchmark's own harness takes.

        Raises:
            UsageError: it has entries that are no answers, or answers to no task.
        """
        ...


@runtime_checkable
class ChecksRequirements(Protocol):
    """What a benchmark may do besides: say what a machine lacks for a task, before anything is spent on it."""

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """What is not there, in one sentence; None when nothing is missing. Images are looked for by the runner."""
        ...


class BenchmarkSource(Protocol):
    """What an entry point of the group ``proctor.benchmarks`` names: how a benchmark's data comes here.

    Attributes:
        about: one line for the list of benchmarks.
        splits: the parts that can be chosen by name; the first one is the default.
    """

    about: str
    splits: tuple[str, ...]

    def open(self, split: str | None) -> Benchmark:
        """The benchmark, from data that is on this machine.

        Raises:
            UsageError: there is no such split, or it has not been fetched; says how to.
            InvalidData: what was fetched cannot be read.
        """
        ...

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """Bring the data here: from its official place, or from `origin`. `tell` hears what is being done.

        Raises:
            InfrastructureError: its official place cannot be reached.
            InvalidData: what is there is not this benchmark's data.
        """
        ...

    def published(self) -> Sequence[PublishedResult]:
        """What others have published of it."""
        ...
