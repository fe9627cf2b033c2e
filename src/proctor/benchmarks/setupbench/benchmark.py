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
from proctor.benchmarks.setupbench.rows import FAMILY_NAMES, Family, SetupTask
from proctor.benchmarks.setupbench.rule import MARKER, Evidence, disguised, hindered, judge
from proctor.benchmarks.state_graded import check_state_health, grade_state, no_machine, require_machine, state
from proctor.core.benchmark import Fetched, GradeOptions, Health, Place, Unusable
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError
from proctor.core.evaluation import Evaluated, Prediction
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
from proctor.grading.live import Leftovers, Telltale, remember, run_fresh, settle, unless_hindered, words_of
from proctor.workspaces import base_of, check_out

WORKDIR: Final = "/testbed"
AGENT_SECONDS: Final = 7200.0  # the paper's only limit
# The published harness waits for ever. Fixed sleeps are up to 90 s, and 28 graders run whole test suites.
SERVICE_SECONDS: Final = 300.0
SUITE_SECONDS: Final = 1800.0
_PRERUNNER: Final = "/run/prerunner.sh"
_PRERUNNER_SECONDS: Final = 600.0
_GRADING: Final = "grading"


class SetupBench:
    """Implements `core.benchmark.Benchmark` and `Attending`."""

    name = "setupbench"
    split: str | None = "all"
    grader = f"setupbench/{proctor.__version__}"

    def __init__(self, tasks: Sequence[SetupTask], fetched: Fetched) -> None:
        self._rows = {task.id: task for task in tasks}
        self._fetched = fetched
        self.source = fetched.origin

    def digest(self) -> str:
        """Identifies the data."""
        return self._fetched.digest

    def fingerprint(self, task: Task) -> str:
        """Identifies all of one task that a verdict depends on: the row, its fixture, its script."""
        row = self._rows[task.id]
        whole = hashlib.sha256(msgspec.json.encode(row.row))
        for place in (row.fixture, row.prerunner):
            for file in _files(place):
                whole.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
        return whole.hexdigest()

    def room(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The machine, but for what lies in /testbed."""
        image = options.image or self._rows[task.id].row.base_image
        return EnvironmentSpec(workdir=WORKDIR, image=image, network=Network.OPEN, limits=task.public.limits)

    def tasks(self) -> Sequence[Task]:
        """All 93."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(as_task(row) for row in self._rows.values())

    def unusable(self) -> Sequence[Unusable]:
        """None: a task whose files were not fetched says so when it is to be prepared."""
        return []

    def gold(self, task: Task) -> Prediction | None:  # noqa: ARG002 - see Benchmark
        """None: the benchmark publishes no solutions, only the build commands of some repositories."""
        return None

    def lacks(self, task: Task, machine: Machine, runner: str) -> str | None:  # noqa: ARG002 - see StatesNeeds
        """A machine of its own, or files that were not fetched."""
        if runner == "local":
            return no_machine(self.name).sentence
        missing = self._rows[task.id].missing
        return None if missing is None else _not_fetched(task.id, missing).sentence

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """What lies in /testbed: the fixture, the repository at its commit, or nothing.

        Raises:
            InfrastructureError: the fixture was not fetched.
        """
        row = self._rows[task.id]
        if row.missing is not None:
            raise _not_fetched(task.id, row.missing)
        workspace = folder / "workspace"
        await asyncio.to_thread(_lay_out, row, workspace)
        return msgspec.structs.replace(self.room(task, GradeOptions()), workspace=workspace)

    @asynccontextmanager
    async def attend(self, task: Task, environment: Environment, folder: Path) -> AsyncIterator[None]:
        """Sabotage the machine where the task says so, and note what its programs are."""
        require_machine(environment, self.name)
        row = self._rows[task.id]
        if row.prerunner is not None:
            # Its exit code says nothing: on some images one of its steps fails, and the task is a task all the same.
            await environment.put(Path(row.prerunner), _PRERUNNER, mode=0o644)
            await environment.exec(["bash", _PRERUNNER], timeout=_PRERUNNER_SECONDS)
            await environment.exec(["rm", "-f", _PRERUNNER])
        await remember(environment, self._words(row), folder / _GRADING)
        yield

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """Run the success command on the machine as the agent left it; what was seen."""
        return await self._observe(None, task, environment, folder)

    async def grade(self, task: Task, prediction: Prediction, place: Place) -> Evaluated:
        """Judge what was seen of a machine; or see what a script makes of a fresh one."""

        def judged(seen: bytes) -> Verdict:
            evidence = from_json(seen, Evidence, where=task.id)
            return judge(evidence, self._rows[task.id].rule, QUIRKS.get(task.id), self.grader)

        observe = partial(self._observe, place.options.timeout_seconds)
        return await grade_state(self, task, prediction, place, observe=observe, judge=judged)

    async def validate(self, task: Task, place: Place) -> Health:
        """A bare machine must fail."""
        return await check_state_health(self, task, place, partial(self._observe, place.options.timeout_seconds))

    async def _observe(self, seconds: float | None, task: Task, environment: Environment, folder: Path) -> Prediction:
        look = partial(self._look, seconds, task, environment, folder)
        evidence = await unless_hindered(environment, look, Leftovers.KEEP)
        return state(task, to_json(evidence or hindered(task.id, environment.digest)))

    async def _look(
        self, seconds: float | None, task: Task, environment: Environment, folder: Path, policy: Leftovers
    ) -> Evidence:
        row, quirk = self._rows[task.id], QUIRKS.get(task.id)
        settled = await settle(
            environment,
            folder / _GRADING,
            words=self._words(row),
            policy=policy,
            telltale=Telltale(words=(MARKER,), places=(WORKDIR,)),
        )
        token = f"setup-{secrets.token_hex(12)}"
        run = partial(run_fresh, environment, settled, timeout=seconds or grade_seconds(row), cwd=WORKDIR)
        ran = await run(disguised(row.row.success_command, token))
        strict = await run(disguised(quirk.strict, token)) if quirk is not None and quirk.strict else None
        return Evidence(
            task_id=task.id, token=token, ran=ran, strict=strict, settled=settled, environment=environment.digest
        )

    def _words(self, row: SetupTask) -> tuple[str, ...]:
        quirk = QUIRKS.get(row.id)
        return words_of(row.row.success_command, quirk.strict if quirk is not None and quirk.strict else "")


def grade_seconds(row: SetupTask) -> float:
    """How long a grader may take."""
    is_service = row.row.task_type in {Family.BACKGROUND, Family.DATABASE}
    return SERVICE_SECONDS if is_service else SUITE_SECONDS


def as_task(row: SetupTask) -> Task:
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
                "quirk": quirk.what if quirk else None,
            }
        ),
        categories={key: value for key, value in categories.items() if value is not None},
        tags=(family, f"needs-{feasibility(row).value}", *([f"grader-{quirk.flaw.value}"] if quirk else [])),
    )


def _not_fetched(task_id: str, what: str) -> InfrastructureError:
    return InfrastructureError(
        f"{what} was not fetched with the tasks",
        where=task_id,
        fix="fetch SetupBench from its own repository, or from a checkout of it",
        cause=Cause.NOT_RUNNABLE_HERE,
    )


def _lay_out(row: SetupTask, workspace: Path) -> None:
    if row.row.repo_url is not None and row.row.base_commit is not None:
        check_out(base_of(RepositorySource(url=row.row.repo_url, commit=row.row.base_commit)), workspace)
    elif row.fixture is not None:
        shutil.copytree(row.fixture, workspace)
    else:
        workspace.mkdir(parents=True)


def _files(place: str | None) -> list[Path]:
    if place is None:
        return []
    path = Path(place)
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
