"""A data set of the SWE family as a benchmark: its rows as tasks, given out, collected, graded and validated."""

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, Generic, TypeVar

import proctor
from proctor.benchmarks.swe.alone import Floor
from proctor.benchmarks.swe.bench import Bench, room_of
from proctor.benchmarks.swe.docker_recipe import DockerRecipe
from proctor.benchmarks.swe.grade import grade, run_once, why_unresolved
from proctor.benchmarks.swe.local import LocalRecipe
from proctor.benchmarks.swe.patches import ended
from proctor.benchmarks.swe.predictions import first_attempts, read_answers
from proctor.benchmarks.swe.procedure import Procedure
from proctor.benchmarks.swe.recipe import Recipe, RecipeMaker
from proctor.benchmarks.swe.rows import Row
from proctor.benchmarks.swe.steps import Trial, bring_out
from proctor.benchmarks.swe.tasks import fingerprint, task_of
from proctor.core.benchmark import Fetched, GradeOptions, Health, Place, Unusable
from proctor.core.causes import Cause
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import Evaluated, Prediction
from proctor.core.run import Machine
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.workspaces import make_submission, prove_no_leak
from proctor.workspaces.git import run_git

R = TypeVar("R", bound=Row)
RECIPES: Final[Mapping[str, RecipeMaker]] = {"docker": DockerRecipe, "local": LocalRecipe}


class SweBenchmark(Generic[R]):
    """Implements `core.benchmark.Benchmark` for the four data sets.

    Args:
        name: under which it is registered.
        data: what was fetched.
        rows: of it, those that can be used.
        bad: why others cannot.
        procedure: the official one.
        kind: of the rooms.
        recipes: how instances are set up, by kind of room.
        again: whether a failure is graded once more, alone, before it counts.
    """

    def __init__(
        self,
        name: str,
        data: Fetched,
        rows: Sequence[R],
        bad: Sequence[Unusable],
        procedure: Procedure[R],
        *,
        kind: str = "docker",
        recipes: Mapping[str, RecipeMaker] = RECIPES,
        again: bool = True,
    ) -> None:
        self.name = name
        self.split: str | None = data.split
        self.source = data.origin
        self.grader = f"{procedure.grader}; proctor {proctor.__version__}; {kind}"
        self.procedure = procedure
        self.rows = {row.instance_id: row for row in rows}
        self._data = data
        self._bad = tuple(bad)
        self._kind = kind
        self._recipes = recipes
        self._again = again
        self._made: dict[str, Recipe] = {}
        self._floors: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Floor] = weakref.WeakKeyDictionary()

    def at(self, provider: EnvironmentProvider) -> "SweBenchmark[R]":
        """The same benchmark for rooms of this provider."""
        kind = provider.name
        if kind not in self._recipes:
            raise UsageError(
                f"{self.name} cannot be run with --runner {kind}", fix=f"choose one of {', '.join(self._recipes)}"
            )
        return SweBenchmark(
            self.name,
            self._data,
            list(self.rows.values()),
            self._bad,
            self.procedure,
            kind=kind,
            recipes=self._recipes,
            again=self._again,
        )

    def digest(self) -> str:
        """Identifies the data."""
        return self._data.digest

    def fingerprint(self, task: Task) -> str:
        """Identifies the whole row."""
        return fingerprint(self.rows[task.id])

    def room(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The room of a test run, but for its tree."""
        return room_of(self.recipe(task.id), task, options.image)

    def tasks(self) -> Sequence[Task]:
        """Every row that can be used."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(task_of(self.name, row, self.procedure) for row in self.rows.values())

    def lacks(self, task: Task, machine: Machine, runner: str) -> str | None:  # noqa: ARG002 - see StatesNeeds
        """Why these rooms cannot be made for a task on this machine."""
        return self.recipe(task.id).obstacle()

    def unusable(self) -> Sequence[Unusable]:
        """The rows that cannot be read, or lack what grading needs."""
        return self._bad

    def gold(self, task: Task) -> Prediction | None:
        """The reference patch."""
        patch = self.procedure.gold(self.rows[task.id])
        if patch is None:
            return None
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=patch, model="gold")

    def read_predictions(self, file: Path) -> dict[str, Prediction]:
        """The answers in a file of the official forms."""
        found = first_attempts(read_answers(file), file)
        strangers = sorted(found.keys() - self.rows.keys() - {bad.task_id for bad in self._bad})
        if strangers:
            raise UsageError(
                f"{len(strangers)} predictions are for no task of {self.name} ({self.split}): {strangers[0]}, …",
                where=file,
                fix="choose the split that they are for",
            )
        return found

    def recipe(self, task_id: str) -> Recipe:
        """How an instance is set up in these rooms."""
        if task_id not in self._made:
            row = self.rows[task_id]
            self._made[task_id] = self._recipes[self._kind](row, self.procedure.start(row))
        return self._made[task_id]

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """What the agent starts from: the repository up to its base commit, and nothing later."""
        return await self.recipe(task.id).agent_room(folder)

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The agent's changes as a diff against what it started from."""
        recipe, digest = self.recipe(task.id), environment.digest
        base = await recipe.base(digest)
        left = folder / "left"
        await bring_out(environment, left, leaving=await recipe.ignored(digest))
        made = await asyncio.to_thread(make_submission, base, left)
        return Prediction(task_id=task.id, patch_kind=PatchKind.UNIFIED_DIFF, content=made.patch)

    async def grade(self, task: Task, prediction: Prediction, place: Place) -> Evaluated:
        """Apply, test, judge; officially and strictly."""
        if prediction.patch_kind is not PatchKind.UNIFIED_DIFF:
            raise UsageError(f"an answer to {self.name} is a unified diff", where=task.id)
        return await grade(self._bench(task, place), prediction)

    async def validate(self, task: Task, place: Place) -> Health:
        """The reference answer resolves the task, each time; an empty one does not; nobody can look it up."""
        bench = self._bench(task, place)
        gold = self.gold(task)
        if gold is None:
            raise InfrastructureError(
                "the benchmark has no reference answer to it", where=task.id, cause=Cause.NOT_RUNNABLE_HERE
            )
        shutil.rmtree(bench.folder, ignore_errors=True)
        bench.folder.mkdir(parents=True)
        async with bench.floor.shared():
            empty = await run_once(bench, _nothing(bench), "empty")
            times = range(1, 1 + (place.options.determinism_runs or 2))
            runs = [await run_once(bench, ended(gold.content), f"gold{number}") for number in times]
        unsolved = [run for run in runs if not run.resolved]
        problems = ["the tests pass without an answer"] if empty.resolved else []
        problems += list(dict.fromkeys(f"the reference answer: {_why(run)}" for run in unsolved))
        flaky = _flipped(runs)
        leaks = await self._leaks(task, gold, place)
        return Health(
            task_id=task.id,
            environment=await place.provider.digest(self.room(task, place.options)),
            healthy=not problems and not flaky and not leaks,
            baseline_ok=not empty.resolved,
            oracle_ok=not unsolved,
            determinism_ok=not flaky,
            problems=tuple(problems),
            flaky=flaky,
            leaks=leaks,
            deviations=bench.recipe.deviations(),
            artifacts=str(bench.folder),
        )

    async def _leaks(self, task: Task, gold: Prediction, place: Place) -> tuple[str, ...]:
        """Where an agent that is given this instance could find the answer."""
        with tempfile.TemporaryDirectory(prefix="proctor-leaks-") as folder:
            spec = await self.prepare(task, Path(folder))
            async with await place.provider.start(spec) as room:
                tree = Path(folder) / "tree"
                await room.get(room.workdir, tree)
            commit = run_git(["rev-parse", "HEAD"], git_dir=tree / ".git").output.decode().strip()
            proof = await asyncio.to_thread(
                prove_no_leak, gold.content, tree, commit=commit, kind=gold.patch_kind, extra=_packages(spec)
            )
        return tuple(f"{leak.place}: {leak.lines[0] if leak.lines else leak.kind}" for leak in proof.leaks)

    def _bench(self, task: Task, place: Place) -> Bench[R]:
        loop = asyncio.get_running_loop()
        return Bench(
            row=self.rows[task.id],
            task=task,
            procedure=self.procedure,
            recipe=self.recipe(task.id),
            place=place,
            floor=self._floors.setdefault(loop, Floor()),
            grader=self.grader,
            again=self._again,
        )


def _nothing(bench: Bench[R]) -> bytes:
    """An answer that changes nothing, but can be applied: graders without a bucket for empty ones take it as it is."""
    return b"" if bench.procedure.grades_empty else _HARMLESS


_HARMLESS: Final = b"""\
diff --git a/.proctor-nothing b/.proctor-nothing
new file mode 100644
index 0000000..e69de29
"""


def _packages(room: EnvironmentSpec) -> list[Path]:
    """Packages that an agent can read in a room beside those of its system."""
    found: list[Path] = []
    for mount in room.mounts:
        source = Path(mount.source)
        found += [source] if mount.private else source.glob("lib/python*/site-packages")
    shown = [packages for packages in found if str(packages.resolve()) not in room.hidden]
    return [packages for packages in shown if not any(other in packages.parents for other in shown)]


def _why(run: Trial) -> str:
    return f"does not apply: {run.complaint[-200:]}" if not run.applied else why_unresolved(run)[1]


def _flipped(runs: Sequence[Trial]) -> tuple[str, ...]:
    if len(runs) < 2:  # noqa: PLR2004 - two make a difference
        return ()
    names = {name for run in runs for name in run.statuses}
    return tuple(sorted(name for name in names if len({run.statuses.get(name) for run in runs}) > 1))
