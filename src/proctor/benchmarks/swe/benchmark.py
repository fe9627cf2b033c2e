"""A data set of the SWE family as a benchmark: its rows as tasks, given out, collected, graded and validated."""

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, Generic

import msgspec

from proctor.benchmarks.swe.docker_setup import DockerInstanceSetup
from proctor.benchmarks.swe.environment_steps import SweTestRun, copy_workdir_out
from proctor.benchmarks.swe.grade import grade, run_once, why_unresolved
from proctor.benchmarks.swe.grading_job import SweGradingJob, grading_spec
from proctor.benchmarks.swe.instance_setup import InstanceSetup, InstanceSetupFactory
from proctor.benchmarks.swe.local import LocalInstanceSetup
from proctor.benchmarks.swe.official_grader import OfficialGrader
from proctor.benchmarks.swe.patches import with_final_newline
from proctor.benchmarks.swe.predictions import first_attempts, read_swe_predictions
from proctor.benchmarks.swe.rows import R
from proctor.benchmarks.swe.shared_exclusive_lock import SharedExclusiveLock
from proctor.benchmarks.swe.tasks import row_fingerprint, task_of
from proctor.benchmarks.swe.verification_run import make_controls
from proctor.core import VERSION
from proctor.core.benchmark import Benchmark, DatasetInfo, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.causes import Cause
from proctor.core.disk_names import disk_name
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.grading.controls import control_summary
from proctor.workspaces import make_submission, prove_no_leak
from proctor.workspaces.git import run_git

# Another number grades anew what was graded before: verdicts are found again by the grader's name.
_PROCEDURE: Final = "procedure 2"
INSTANCE_SETUPS: Final[Mapping[str, InstanceSetupFactory]] = {
    "docker": DockerInstanceSetup,
    "local": LocalInstanceSetup,
}


class SweBenchmark(Benchmark, Generic[R]):
    """The benchmark of one of the four data sets.

    Args:
        name: under which it is registered.
        dataset: what was fetched.
        rows: its valid rows.
        invalid_tasks: the others, with the reasons.
        official_grader: the official grading procedure.
        provider_name: the provider of the environments.
        setup_factories: how instances are set up, by provider.
        retest_failures: whether a failure is graded once more, with nothing else running, before it counts.
    """

    missing_is_empty = True
    builds_on_image = True

    def __init__(
        self,
        name: str,
        dataset: DatasetInfo,
        rows: Sequence[R],
        invalid_tasks: Sequence[InvalidTask],
        official_grader: OfficialGrader[R],
        *,
        provider_name: str = "docker",
        setup_factories: Mapping[str, InstanceSetupFactory] = INSTANCE_SETUPS,
        retest_failures: bool = True,
        image: str | None = None,
    ) -> None:
        self.name = name
        self.split: str | None = dataset.split
        self.source = dataset.origin
        ours = f"proctor {VERSION} ({_PROCEDURE})"
        self.grader = f"{official_grader.grader_version}; {ours}; {provider_name}"
        self.official_grader = official_grader
        self.rows = {row.instance_id: row for row in rows}
        self._dataset = dataset
        self._invalid_tasks = tuple(invalid_tasks)
        self._provider_name = provider_name
        self._setup_factories = setup_factories
        self._retest_failures = retest_failures
        self._image = image
        self._setups: dict[str, InstanceSetup] = {}
        self._locks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, SharedExclusiveLock] = (
            weakref.WeakKeyDictionary()
        )

    def for_provider(self, provider: EnvironmentProvider) -> "SweBenchmark[R]":
        """The same benchmark for environments of this provider."""
        provider_name = "docker" if provider.uses_images else "local"
        if provider_name not in self._setup_factories:
            raise UsageError(
                f"{self.name} cannot be run with --runner {provider_name}",
                fix=f"choose one of {', '.join(self._setup_factories)}",
            )
        return self._replaced(provider_name, self._image)

    def with_image(self, image: str | None) -> "SweBenchmark[R]":
        """The same benchmark on this image; None: each row on its own. The repository's future is removed from both."""
        return self._replaced(self._provider_name, image)

    def _replaced(self, provider_name: str, image: str | None) -> "SweBenchmark[R]":
        return SweBenchmark(
            self.name,
            self._dataset,
            list(self.rows.values()),
            self._invalid_tasks,
            self.official_grader,
            provider_name=provider_name,
            setup_factories=self._setup_factories,
            retest_failures=self._retest_failures,
            image=image,
        )

    def digest(self) -> str:
        """Identifies the data."""
        return self._dataset.digest

    def fingerprint(self, task: Task) -> str:
        """Identifies the whole row."""
        return row_fingerprint(self.rows[task.id])

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The environment of a test run, but for its tree."""
        return grading_spec(self.setup_of(task.id), task, options.image)

    def tasks(self) -> Sequence[Task]:
        """Every valid row."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(task_of(self.name, row, self.official_grader) for row in self.rows.values())

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """Why these environments cannot be made for a task on this machine."""
        return self.setup_of(task.id).missing_requirement(machine.gpus)

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """The rows that cannot be read, or miss data that grading needs."""
        return self._invalid_tasks

    def oracle(self, task: Task) -> Prediction | None:
        """The oracle patch."""
        patch = self.official_grader.oracle_patch(self.rows[task.id])
        if patch is None:
            return None
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=patch, model="oracle")

    def read_predictions(self, file: Path) -> dict[str, Prediction]:
        """The predictions in a file of any of the official forms."""
        found = first_attempts(read_swe_predictions(file), file)
        unknown = sorted(found.keys() - self.rows.keys() - {bad.task_id for bad in self._invalid_tasks})
        if unknown:
            raise UsageError(
                f"{len(unknown)} predictions are for no task of {self.name} ({self.split}): {unknown[0]}, …",
                where=file,
                fix="choose the split that they are for",
            )
        return found

    def setup_of(self, task_id: str) -> InstanceSetup:
        """How an instance is set up in these environments."""
        if task_id not in self._setups:
            row = self.rows[task_id]
            if self._image is not None:
                row = msgspec.structs.replace(row, image=self._image)
            self._setups[task_id] = self._setup_factories[self._provider_name](
                row, self.official_grader.start_state(row)
            )
        return self._setups[task_id]

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """What the agent starts from: the repository up to its base commit, and nothing later."""
        return await self.setup_of(task.id).agent_spec(folder)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The agent's changes as a diff against what it started from."""
        setup, digest = self.setup_of(task.id), environment.digest
        base = await setup.base(digest)
        left = folder / "left"
        await copy_workdir_out(environment, left, excluding=await setup.ignored_directories(digest))
        made = await asyncio.to_thread(make_submission, base, left)
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=made.patch)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Apply, test, judge; officially and strictly."""
        if prediction.patch_kind is not PatchKind.UNIFIED_DIFF:
            raise UsageError(f"a submission for {self.name} is a unified diff", where=task.id)
        return await grade(self._grading_job(task, context), prediction)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """The oracle resolves the task, each time; an empty patch does not; the agent cannot find the oracle."""
        job = self._grading_job(task, context)
        oracle = self.oracle(task)
        if oracle is None:
            raise InfrastructureError(
                "the benchmark has no oracle for it", where=task.id, cause=Cause.NOT_RUNNABLE_HERE
            )
        shutil.rmtree(job.folder, ignore_errors=True)
        job.folder.mkdir(parents=True)
        async with job.lock.shared():
            empty = await run_once(job, _empty_patch(job), "empty")
            times = range(1, 1 + (context.options.determinism_runs or 2))
            runs = [await run_once(job, with_final_newline(oracle.content), f"oracle{number}") for number in times]
        unsolved = [run for run in runs if not run.resolved]
        problems = ["the tests pass without a patch"] if empty.resolved else []
        problems += list(dict.fromkeys(f"the oracle: {_failure_reason(run)}" for run in unsolved))
        flaky = _flaky_tests(runs)
        controls = None
        if not problems and context.options.controls:
            controls = await make_controls(job)
        leaks = await self._leaks(task, oracle, context)
        return TaskHealth(
            task_id=task.id,
            environment=await context.provider.digest(self.environment_spec(task, context.options)),
            healthy=not problems and not flaky and not leaks,
            pre_patch_ok=not empty.resolved,
            oracle_ok=not unsolved,
            determinism_ok=not flaky,
            problems=tuple(problems),
            flaky=flaky,
            leaks=leaks,
            deviations=job.setup.deviations(),
            controls=control_summary(controls, None) if controls is not None else None,
            artifacts=str(job.folder),
        )

    async def _leaks(self, task: Task, oracle: Prediction, context: GradingContext) -> tuple[str, ...]:
        """Where an agent that is given this instance could find the oracle."""
        with tempfile.TemporaryDirectory(prefix="proctor-leaks-") as folder:
            spec = await self.prepare(task, Path(folder))
            async with await context.provider.start(spec) as environment:
                tree = Path(folder) / "tree"
                await environment.get(environment.workdir, tree)
            commit = run_git(["rev-parse", "HEAD"], git_dir=tree / ".git").output.decode().strip()
            proof = await asyncio.to_thread(
                prove_no_leak,
                oracle.content,
                tree,
                commit=commit,
                kind=oracle.patch_kind,
                extra=_readable_packages(spec),
            )
        return proof.descriptions

    def _grading_job(self, task: Task, context: GradingContext) -> SweGradingJob[R]:
        loop = asyncio.get_running_loop()
        return SweGradingJob(
            task_id=task.id,
            grader=self.grader,
            context=context,
            folder=context.folder / task.benchmark / disk_name(task.id),
            spec=self.environment_spec(task, context.options),
            timeout=context.options.timeout_seconds or self.official_grader.timeout_seconds(self.rows[task.id]),
            protected=task.private.protected,
            tags=task.tags,
            row=self.rows[task.id],
            official_grader=self.official_grader,
            setup=self.setup_of(task.id),
            lock=self._locks.setdefault(loop, SharedExclusiveLock()),
            retest_failures=self._retest_failures,
        )


def _empty_patch(job: SweGradingJob[R]) -> bytes:
    """A patch that changes nothing, but applies: graders without a rule for empty ones take it as it is."""
    return b"" if job.official_grader.grades_empty else _NO_OP_PATCH


_NO_OP_PATCH: Final = b"""\
diff --git a/.proctor-nothing b/.proctor-nothing
new file mode 100644
index 0000000..e69de29
"""


def _readable_packages(spec: EnvironmentSpec) -> list[Path]:
    """Packages that an agent can read in an environment beside those of its system."""
    found: list[Path] = []
    for mount in spec.mounts:
        source = Path(mount.source)
        found += [source] if mount.private else source.glob("lib/python*/site-packages")
    shown = [packages for packages in found if str(packages.resolve()) not in spec.hidden]
    return [packages for packages in shown if not any(other in packages.parents for other in shown)]


def _failure_reason(run: SweTestRun) -> str:
    return f"does not apply: {run.error[-200:]}" if not run.applied else why_unresolved(run)[1]


def _flaky_tests(runs: Sequence[SweTestRun]) -> tuple[str, ...]:
    if len(runs) < 2:  # noqa: PLR2004 - two make a difference
        return ()
    names = {name for run in runs for name in run.statuses}
    return tuple(sorted(name for name in names if len({run.statuses.get(name) for run in runs}) > 1))
