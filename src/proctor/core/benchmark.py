"""The base class of benchmarks: a source of tasks and the rule that grades them.

Benchmarks are found through the entry point group ``proctor.benchmarks``, built-in ones and plugins alike.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from proctor.core.causes import Status
from proctor.core.disk_names import disk_name
from proctor.core.environment import (
    AgentUser,
    Environment,
    EnvironmentProvider,
    EnvironmentRequirement,
    EnvironmentSpec,
)
from proctor.core.errors import UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.predictions import read_predictions as read_prediction_lines
from proctor.core.published_result import PublishedResult
from proctor.core.record import Record, to_json
from proctor.core.request import RepairMode, VerifierMode
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.trajectory import LogMeasure, Step
from proctor.core.verdict import ControlSummary, TestOutcome, Verdict


class GradeOptions(Record):
    """How submissions are graded; None leaves it to the benchmark.

    Attributes:
        determinism_runs: how often the tests run after the patch; from 2 on, a test that flips makes the task flaky.
        repair: what a linter does to the files that the patch touched, before the tests, where the benchmark has one:
            nothing, repair copies of them and count what that takes, or repair them.
        repair_max_iters: rounds of that repair.
        controls: control pairs with altered tests that a submission is given; 0 turns control checks off.
        jobs_inside: how many jobs one task's own test program may use.
    """

    image: str | None = None
    determinism_runs: int | None = None
    timeout_seconds: float | None = None
    repair: RepairMode = "write"
    repair_max_iters: int = 3
    controls: int = 1
    jobs_inside: int = 1
    keep_artifacts: bool = False


_NO_PERMIT: Final[AbstractAsyncContextManager[object]] = nullcontext()


@dataclass(frozen=True, slots=True)
class GradingContext:
    """What grading one task is given: the provider of its environments, and the folder for its artifacts.

    Attributes:
        permit: held while tests run, by a benchmark with `uses_permit`; other work needs no permit.
    """

    provider: EnvironmentProvider
    folder: Path
    options: GradeOptions
    use_cache: bool = True
    permit: AbstractAsyncContextManager[object] = _NO_PERMIT


class TaskHealth(Record):
    """What `validate` found out about a task on this machine.

    Attributes:
        problems: why the task cannot be trusted here; empty when it can.
        flaky: the tests whose results did not repeat.
        leaks: where the agent can find the oracle.
        deviations: how the environment differs from the official one; a task may be healthy all the same.
        controls: how many of its tests have altered versions; None where that was not tried.
        oracle_status: how the oracle is graded; None where that was not tried.
        label_deviations: the labelled tests that with the oracle do not go from failing to passing, or stay passing, as
            their labels say.
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
    controls: ControlSummary | None = None
    oracle_status: Status | None = None
    label_deviations: tuple[TestOutcome, ...] = ()
    skipped: str = ""
    artifacts: str | None = None
    schema_version: Literal["proctor.task_health@1"] = "proctor.task_health@1"


class InvalidTask(Record):
    """A task of the source that cannot be used, and every reason."""

    task_id: str
    problems: tuple[str, ...]


class DatasetInfo(Record):
    """A data set that was fetched to this machine.

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


class Benchmark(ABC):
    """A named source of tasks, and their grading.

    Attributes:
        split: the part of its data that was chosen, where it has several.
        source: where its data comes from.
        grader: names the grading rule and its version; verdicts are cached under it.
        uses_permit: the benchmark holds the permit of its `GradingContext` whenever it runs tests, so that the next
            task can be laid out while one is tested.
        builds_on_image: `--docker-image` names what the benchmark builds its images on (`with_image`); otherwise it is
            the image of its environments.
        missing_is_empty: a task without a prediction counts as an empty submission, as in the benchmark's own harness;
            otherwise it is skipped.
    """

    name: str
    split: str | None = None
    source: str = ""
    grader: str = ""
    uses_permit: bool = False
    builds_on_image: bool = False
    missing_is_empty: bool = False

    @abstractmethod
    def tasks(self) -> Sequence[Task]:
        """Every valid task, in the order of their ids."""

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """The tasks whose data is broken; none by default."""
        return ()

    def digest(self) -> str:
        """Identifies the data; by default, all its tasks."""
        return _sha256("\n".join(self.fingerprint(task) for task in self.tasks()).encode())

    def fingerprint(self, task: Task) -> str:
        """Identifies all of one task's data that a verdict depends on; by default, its record."""
        return _sha256(to_json(task))

    def for_provider(self, provider: EnvironmentProvider) -> "Benchmark":
        """The benchmark for environments of this provider; by default, it makes no difference.

        Raises:
            UsageError: the benchmark cannot be run in such environments.
        """
        return self

    def with_image(self, image: str | None) -> "Benchmark":
        """The benchmark with its images built on this one; None: on its own. Only for one with `builds_on_image`."""
        return self

    def with_verifier(self, mode: VerifierMode) -> "Benchmark":
        """The benchmark with its verifiers run in this mode: as the tasks say, or each in an environment of its own.

        Raises:
            UsageError: it has no verifiers that run anywhere else.
        """
        if mode != "task":
            raise UsageError(f"--verifier {mode} is for tasks of Harbor's format", fix="leave it out")
        return self

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """What this machine does not have and the task requires, in one sentence; None when nothing is missing.

        `runner` is ``docker`` for environments that are made from images, ``local`` for all others. Whether an image
        is available is checked by the caller.
        """
        return None

    def environment_requirements(self, task: Task) -> Sequence[EnvironmentRequirement]:
        """What the environment of this task's `environment_spec` must have; nothing by default.

        It is looked for before a run starts, once for all tasks with the same environment.
        """
        return ()

    @abstractmethod
    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The environment in which this task's submissions are graded, without its workspace."""

    def oracle(self, task: Task) -> Prediction | None:
        """The reference solution, where there is one; by default, the one in the task's private part."""
        oracle = task.private.oracle
        if oracle is None:
            return None
        return Prediction(
            task_id=task.id,
            patch_kind=oracle.patch_kind or PatchKind.SHELL_SCRIPT,
            content=oracle.text.encode("utf-8", "surrogateescape"),
            model="oracle",
        )

    def read_predictions(self, file: Path) -> dict[str, Prediction]:
        """The predictions in a file, by task; by default, one JSON object a line.

        Raises:
            UsageError: an entry is no prediction, or there is no such task.
        """
        return read_prediction_lines(file)

    @abstractmethod
    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """Lay out below `folder` what the agent starts from, and describe the environment that it works in."""

    def serve(
        self,
        task: Task,
        environment: Environment,
        folder: Path,
    ) -> AbstractAsyncContextManager[None]:
        """A context for the time in which the agent works; by default, nothing happens in it.

        On entry, the environment is brought into the state that the task starts from; inside, requests of the agent
        are served (for a score, for example); on exit, the agent has ended. `folder` is the one that `prepare` and
        `collect` are given. The agent cannot see it, so what grading needs later can be stored there.

        Raises:
            InfrastructureError: the environment cannot be brought into that state, or is unfit for this task.
        """
        return nullcontext()

    async def agent_user(self, task: Task, step: str, environment: Environment) -> AgentUser | None:
        """Whom the agent's commands run as; by default, who may do all in the environment."""
        return None

    async def begin_step(self, task: Task, step: str, environment: Environment, folder: Path) -> bool:
        """Bring the environment into the state that a step of the task starts from; for a task with steps.

        False: what the agent has left there keeps it from that, which is the agent's failure. No other step is begun.

        Raises:
            InfrastructureError: it cannot be brought into that state.
        """
        return True

    async def finish_step(
        self,
        task: Task,
        step: str,
        environment: Environment,
        folder: Path,
        options: GradeOptions,
    ) -> bool:
        """Keep what decides about a step, below `folder`; whether the next step is begun. For a task with steps.

        `collect` is called after the last step that was begun.
        """
        return True

    @abstractmethod
    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """Turn what the agent left in the environment into its submission."""

    async def collect_with(
        self,
        task: Task,
        environment: Environment,
        folder: Path,
        options: GradeOptions,
    ) -> Prediction:
        """`collect`, with the options of grading, for a benchmark that needs them that early."""
        return await self.collect(task, environment, folder)

    @abstractmethod
    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Grade one submission in fresh environments."""

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """Prove on this machine that the task can be failed, can be solved, and is graded the same each time.

        By default, an empty diff must not be resolved, and the oracle must be, as often as it is graded.
        """

        async def verdict(prediction: Prediction, name: str) -> Verdict:
            folder = context.folder / disk_name(task.id) / name
            return (await self.grade(task, prediction, replace(context, folder=folder))).verdict

        empty = Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=b"")
        before = await verdict(empty, "empty")
        oracle = self.oracle(task)
        runs = range(1, 1 + (context.options.determinism_runs or 2))
        after = [await verdict(oracle, f"oracle{number}") for number in runs] if oracle else []
        problems = []
        if before.status is not Status.UNRESOLVED:
            problems.append(f"an empty submission is {before.status.value}: {before.reason}")
        if not after:
            problems.append("there is no oracle to try")
        problems += [
            f"the oracle is not resolved: {one.reason}" for one in after[:1] if one.status is not Status.RESOLVED
        ]
        repeats = len({verdict.status for verdict in after}) <= 1
        if not repeats:
            problems.append("the oracle is not always graded the same")
        return TaskHealth(
            task_id=task.id,
            environment=await context.provider.digest(self.environment_spec(task, context.options)),
            healthy=not problems,
            pre_patch_ok=before.status is Status.UNRESOLVED,
            oracle_ok=bool(after) and all(verdict.status is Status.RESOLVED for verdict in after),
            determinism_ok=repeats,
            problems=tuple(problems),
        )


@dataclass(frozen=True, slots=True)
class AttemptLogs:
    """The logs of one counted attempt; `steps` is its trajectory, empty where it has none that can be read."""

    folder: Path
    resolved: bool
    steps: Sequence[Step]


class BenchmarkSource(ABC):
    """Where a benchmark's data comes from, for one that is fetched or has splits.

    An entry point of the group ``proctor.benchmarks`` names one; or a subclass of `Benchmark` that needs no data.

    Attributes:
        about: one line for the list of benchmarks.
        splits: the parts that can be chosen by name; the first one is the default.
        names_splits: whoever fetches names the split.
    """

    about: str = ""
    splits: tuple[str, ...] = ()
    names_splits: bool = False

    @abstractmethod
    def open(self, split: str | None) -> Benchmark:
        """The benchmark, from data that is on this machine.

        Raises:
            UsageError: there is no such split, or it has not been fetched; says how to.
            InvalidData: what was fetched cannot be read.
        """

    async def fetch(self, split: str | None, origin: Path | None, log: Callable[[str], None]) -> DatasetInfo:
        """Fetch the data from its official place, or from `origin`; by default, there is nothing to fetch.

        Raises:
            InfrastructureError: its official place cannot be reached.
            InvalidData: what is there is not this benchmark's data.
            UsageError: it has no data that is fetched.
        """
        raise UsageError("the data of this benchmark is part of its package", fix="run it as it is")

    async def fetch_repository(self, split: str | None, url: str, log: Callable[[str], None]) -> DatasetInfo:
        """Fetch data of the user's own from a git repository; by default, there is no such data.

        Raises:
            InfrastructureError: the repository cannot be reached.
            InvalidData: what is there is not this benchmark's data.
            UsageError: its data comes from one place only.
        """
        raise UsageError("it is fetched from its official place, or from a copy here", where=url, fix="give a path")

    def published(self) -> Sequence[PublishedResult]:
        """Published results; none by default."""
        return ()

    def measure_logs(self, attempts: Iterable[AttemptLogs]) -> Sequence[LogMeasure]:
        """The benchmark's own measures of the logs of one run; none by default."""
        return ()


class PackagedSource(BenchmarkSource):
    """The source of a benchmark whose package brings its data: a class that is made without arguments."""

    def __init__(self, benchmark: Callable[[], Benchmark]) -> None:
        self._benchmark = benchmark
        self.about = (benchmark.__doc__ or "").partition("\n")[0].rstrip(".")

    def open(self, split: str | None) -> Benchmark:
        """A new one."""
        return self._benchmark()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
