"""SetupBench as a benchmark: a bare machine, one instruction, one command at the end."""

import asyncio
import hashlib
import secrets
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import msgspec

import proctor
from proctor.benchmarks.setupbench.quirks import QUIRKS, feasibility, hosts
from proctor.benchmarks.setupbench.rows import FAMILY_NAMES, SetupBenchFamily, SetupBenchTask
from proctor.benchmarks.setupbench.verdict_rule import MARKER, SetupBenchEvidence, hindered_evidence, judge, with_token
from proctor.benchmarks.state_graded import (
    check_state_health,
    grade_state,
    no_machine_error,
    require_machine,
    state_prediction,
)
from proctor.core.benchmark import Benchmark, DatasetInfo, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.record import from_json, to_json
from proctor.core.run import Machine
from proctor.core.task import (
    DirectorySource,
    ImageSource,
    PrivatePart,
    PublicPart,
    RepositorySource,
    SubmissionKind,
    Task,
)
from proctor.core.verdict import Verdict
from proctor.grading.state import (
    GraderMarkers,
    LeftoverPolicy,
    quarantine,
    retry_without_leftovers,
    run_in_fresh_shell,
    script_words,
    take_snapshot,
)
from proctor.workspaces import base_of, check_out

WORKDIR: Final = "/testbed"
AGENT_SECONDS: Final = 7200.0  # the paper's only limit
# The published harness waits for ever. Fixed sleeps are up to 90 s, and 28 graders run whole test suites.
SERVICE_SECONDS: Final = 300.0
SUITE_SECONDS: Final = 1800.0
_PRERUNNER: Final = "/run/prerunner.sh"
_PRERUNNER_SECONDS: Final = 600.0
_GRADING_DIR: Final = "grading"


class SetupBench(Benchmark):
    """Implements `core.benchmark.Benchmark` and `Attending`."""

    name = "setupbench"
    split: str | None = "all"
    grader = f"setupbench/{proctor.__version__}"

    def __init__(self, tasks: Sequence[SetupBenchTask], dataset: DatasetInfo) -> None:
        self._rows = {task.id: task for task in tasks}
        self._dataset = dataset
        self.source = dataset.origin

    def digest(self) -> str:
        """Identifies the data."""
        return self._dataset.digest

    def fingerprint(self, task: Task) -> str:
        """Identifies all of one task that a verdict depends on: the row, its fixture, its script."""
        row = self._rows[task.id]
        whole = hashlib.sha256(msgspec.json.encode(row.row))
        for place in (row.fixture, row.prerunner):
            for file in _files_of(place):
                whole.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
        return whole.hexdigest()

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The machine, but for what lies in /testbed."""
        image = options.image or self._rows[task.id].row.base_image
        return EnvironmentSpec(workdir=WORKDIR, image=image, network=Network.OPEN, limits=task.public.limits)

    def tasks(self) -> Sequence[Task]:
        """All 93."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(as_task(row) for row in self._rows.values())

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """None: a task whose files were not fetched says so when it is to be prepared."""
        return []

    def oracle(self, task: Task) -> Prediction | None:  # noqa: ARG002 - see Benchmark
        """None: the benchmark publishes no solutions, only the build commands of some repositories."""
        return None

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:  # noqa: ARG002 - see StatesNeeds
        """A machine of its own, or files that were not fetched."""
        if runner == "local":
            return no_machine_error(self.name).sentence
        missing = self._rows[task.id].missing
        return None if missing is None else _not_fetched_error(task.id, missing).sentence

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """What lies in /testbed: the fixture, the repository at its commit, or nothing.

        Raises:
            InfrastructureError: the fixture was not fetched.
        """
        row = self._rows[task.id]
        if row.missing is not None:
            raise _not_fetched_error(task.id, row.missing)
        workspace = folder / "workspace"
        await asyncio.to_thread(_lay_out, row, workspace)
        return msgspec.structs.replace(self.environment_spec(task, GradeOptions()), workspace=workspace)

    @asynccontextmanager
    async def serve(self, task: Task, environment: Environment, folder: Path) -> AsyncIterator[None]:
        """Sabotage the machine where the task says so, and note what its programs are."""
        require_machine(environment, self.name)
        row = self._rows[task.id]
        if row.prerunner is not None:
            # Its exit code says nothing: on some images one of its steps fails, and the task is a task all the same.
            await environment.put(Path(row.prerunner), _PRERUNNER, mode=0o644)
            await environment.exec(["bash", _PRERUNNER], timeout=_PRERUNNER_SECONDS)
            await environment.exec(["rm", "-f", _PRERUNNER])
        await take_snapshot(environment, self._program_names(row), folder / _GRADING_DIR)
        yield

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """Run the success command on the machine as the agent left it; what was seen."""
        return await self._observe(None, task, environment, folder)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Judge what was seen of a machine; or see what a script makes of a fresh one."""

        def judged(seen: bytes) -> Verdict:
            evidence = from_json(seen, SetupBenchEvidence, where=task.id)
            return judge(evidence, self._rows[task.id].rule, QUIRKS.get(task.id), self.grader)

        observe = partial(self._observe, context.options.timeout_seconds)
        return await grade_state(self, task, prediction, context, observe=observe, judge=judged)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """A bare machine must fail."""
        return await check_state_health(self, task, context, partial(self._observe, context.options.timeout_seconds))

    async def _observe(self, seconds: float | None, task: Task, environment: Environment, folder: Path) -> Prediction:
        look = partial(self._run_checks, seconds, task, environment, folder)
        evidence = await retry_without_leftovers(environment, look, LeftoverPolicy.KEEP)
        return state_prediction(task, to_json(evidence or hindered_evidence(task.id, environment.digest)))

    async def _run_checks(
        self, seconds: float | None, task: Task, environment: Environment, folder: Path, policy: LeftoverPolicy
    ) -> SetupBenchEvidence:
        row, quirk = self._rows[task.id], QUIRKS.get(task.id)
        settled = await quarantine(
            environment,
            folder / _GRADING_DIR,
            names=self._program_names(row),
            policy=policy,
            markers=GraderMarkers(strings=(MARKER,), directories=(WORKDIR,)),
        )
        token = f"setup-{secrets.token_hex(12)}"
        run = partial(run_in_fresh_shell, environment, settled, timeout=seconds or grade_seconds(row), cwd=WORKDIR)
        ran = await run(with_token(row.row.success_command, token))
        strict = (
            await run(with_token(quirk.strict_command, token)) if quirk is not None and quirk.strict_command else None
        )
        return SetupBenchEvidence(
            task_id=task.id,
            token=token,
            official_run=ran,
            strict_run=strict,
            quarantine_result=settled,
            environment=environment.digest,
        )

    def _program_names(self, row: SetupBenchTask) -> tuple[str, ...]:
        quirk = QUIRKS.get(row.id)
        return script_words(
            row.row.success_command, quirk.strict_command if quirk is not None and quirk.strict_command else ""
        )


def grade_seconds(row: SetupBenchTask) -> float:
    """How long a grader may take."""
    is_service = row.row.task_type in {SetupBenchFamily.BACKGROUND, SetupBenchFamily.DATABASE}
    return SERVICE_SECONDS if is_service else SUITE_SECONDS


def as_task(row: SetupBenchTask) -> Task:
    """A published task as one of ours: the statement is public, and nothing else."""
    published, quirk = row.row, QUIRKS.get(row.id)
    source: RepositorySource | DirectorySource | ImageSource = ImageSource(image=published.base_image, workdir=WORKDIR)
    if published.repo_url is not None and published.base_commit is not None:
        source = RepositorySource(url=published.repo_url, commit=published.base_commit)
    elif row.fixture is not None:
        source = DirectorySource(path=row.fixture)
    family = FAMILY_NAMES[published.task_type]
    categories = {
        "family": family,
        "rule": row.rule,
        "image": published.base_image,
        "needs": feasibility(row).value,
        "tier": row.tier,
        "language": published.language,
        "ecosystem": published.ecosystem,
        "grader": quirk.flaw.value if quirk else None,
    }
    return Task(
        id=row.id,
        benchmark=SetupBench.name,
        public=PublicPart(
            instruction=published.problem_statement,
            source=source,
            submission=SubmissionKind.STATE,
            network=Network.OPEN,
            limits=Limits(wall_seconds=AGENT_SECONDS),
        ),
        private=PrivatePart(
            extra={
                "success_command": published.success_command,
                "build_commands": list(published.build_commands),
                "human_actions": [published.human_actions_lower_bound, published.human_actions_upper_bound],
                "hosts": hosts(row),
                "quirk": quirk.description if quirk else None,
            }
        ),
        categories={key: value for key, value in categories.items() if value is not None},
        tags=(family, f"needs-{feasibility(row).value}", *([f"grader-{quirk.flaw.value}"] if quirk else [])),
    )


def _not_fetched_error(task_id: str, what: str) -> InfrastructureError:
    return InfrastructureError(
        f"{what} was not fetched with the tasks",
        where=task_id,
        fix="fetch SetupBench from its own repository, or from a checkout of it",
        cause=Cause.NOT_RUNNABLE_HERE,
    )


def _lay_out(row: SetupBenchTask, workspace: Path) -> None:
    if row.row.repo_url is not None and row.row.base_commit is not None:
        check_out(base_of(RepositorySource(url=row.row.repo_url, commit=row.row.base_commit)), workspace)
    elif row.fixture is not None:
        shutil.copytree(row.fixture, workspace)
    else:
        workspace.mkdir(parents=True)


def _files_of(location: str | None) -> list[Path]:
    if location is None:
        return []
    path = Path(location)
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
