"""RE-Bench as a benchmark: families as tasks, scored while the agent works, judged by their scores."""

import asyncio
import hashlib
import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from proctor.benchmarks.data.dataset_store import tree_digest
from proctor.benchmarks.re_bench.environments import (
    BASE_IMAGE,
    network_of,
    prepare_agent_home,
    score,
    write_build_context,
)
from proctor.benchmarks.re_bench.families import TaskFamilyFiles
from proctor.benchmarks.re_bench.requirements import missing_resources, require_resources, requirements_text
from proctor.benchmarks.re_bench.score_server import INSTRUCTION, ScoreServer, read_score_log
from proctor.benchmarks.re_bench.scoring import BUDGET_SECONDS, ScoreScale, score_within, selected_score
from proctor.benchmarks.re_bench.task_standard import AGENT_HOME, ScorerResult
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, InvalidTask, TaskHealth
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentProvider, EnvironmentSpec, Limits, Network, get_tree
from proctor.core.errors import InvalidData
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.record import Record, from_json, to_json
from proctor.core.submission import PatchKind, ScoreLogEntry
from proctor.core.task import ImageSource, Oracle, PrivatePart, PublicPart, SubmissionKind, Task
from proctor.core.verdict import Verdict
from proctor.environments import provider as find_provider

GRADER: Final = "re_bench/1"
_ORACLE_SECONDS: Final = 3600.0
_TOLERANCE: Final = 0.05


class ReBenchEvidence(Record):
    """The submission: the log of scores, which the agent cannot write.

    Attributes:
        seconds: how long the agent worked.
        scored_at_end: the last score was not requested; it is of what was left behind, since there was no valid one.
    """

    family: str
    task: str
    scores: tuple[ScoreLogEntry, ...]
    seconds: float
    scored_at_end: bool = False
    schema_version: Literal["proctor.re_bench_evidence@1"] = "proctor.re_bench_evidence@1"


class ReBench(Benchmark):
    """Task families as a benchmark."""

    grader = GRADER
    builds_on_image = True

    def __init__(
        self,
        name: str,
        families: Sequence[TaskFamilyFiles],
        invalid_tasks: Sequence[InvalidTask] = (),
        *,
        source: str,
        split: str | None = None,
        provider: EnvironmentProvider | None = None,
        image: str = BASE_IMAGE,
    ) -> None:
        self.name, self.source, self.split = name, source, split
        self._image = image
        self._families = {family.name: family for family in families}
        self._provider_or_none = provider
        self._invalid_tasks = list(invalid_tasks)
        self._tasks: list[Task] = []
        for family in families:
            for task in family.description.tasks:
                scale = family.scale(task)
                if scale is None:
                    problem = "it defines neither the start of its scale nor the oracle's score"
                    self._invalid_tasks.append(InvalidTask(task_id=f"{family.name}/{task}", problems=(problem,)))
                else:
                    self._tasks.append(_task_of(name, family, task, scale))

    def for_provider(self, provider: EnvironmentProvider) -> "ReBench":
        """The same families, in environments of this provider."""
        return self._replaced(provider, self._image)

    def with_image(self, image: str | None) -> "ReBench":
        """The same families, in images that are built on this one."""
        return self._replaced(self._provider_or_none, image or BASE_IMAGE)

    def _replaced(self, provider: EnvironmentProvider | None, image: str) -> "ReBench":
        families = list(self._families.values())
        unusable = [bad for bad in self._invalid_tasks if "/" not in bad.task_id]
        return ReBench(
            self.name, families, unusable, source=self.source, split=self.split, provider=provider, image=image
        )

    def _for_context(self, context: GradingContext) -> "ReBench":
        return self._replaced(context.provider, context.options.image or self._image)

    def digest(self) -> str:
        """Identifies the data."""
        parts = [f"{name} {tree_digest(family.folder)}" for name, family in sorted(self._families.items())]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def fingerprint(self, task: Task) -> str:
        """Identifies the family."""
        return tree_digest(self._family_and_name(task)[0].folder)

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """An environment like those that a script is tried in: their images are built on this one."""
        return EnvironmentSpec(image=options.image or self._image, workdir=AGENT_HOME, labels={"task": task.id})

    def tasks(self) -> Sequence[Task]:
        """Every task of every family."""
        return sorted(self._tasks, key=lambda task: task.id)

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """Families that cannot say what their tasks are, or how their scores are read."""
        return self._invalid_tasks

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """What the task requires and this machine does not have."""
        family, name = self._family_and_name(task)
        missing = missing_resources(family, name, cpus=machine.cpus, memory_mb=machine.memory_mb, gpus=machine.gpus)
        return f"missing requirements: {'; '.join(missing)}" if missing else None

    def oracle(self, task: Task) -> Prediction | None:
        """The script that reaches the reference. METR's are locked, and stay so."""
        solution = self._family_and_name(task)[0].solution
        if solution is None:
            return None
        return Prediction(task_id=task.id, patch_kind=PatchKind.SHELL_SCRIPT, content=solution.encode(), model="oracle")

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """The agent's home as the family leaves it, and a server that scores on request."""
        family, name = self._family_and_name(task)
        require_resources(family, name)
        workspace = folder / "workspace"
        await prepare_agent_home(self._provider, family, name, workspace, image=self._image)
        is_docker = self._provider.uses_images
        build = (
            await asyncio.to_thread(lambda: write_build_context(family, folder, for_agent=True, image=self._image))
            if is_docker
            else None
        )
        return EnvironmentSpec(
            workspace=workspace,
            workdir=AGENT_HOME,
            build=build,
            network=network_of(family, name, Network.MODEL),
            mounts=ScoreServer.prepare_mounts(folder),
            hidden=(str(family.folder.parent),),
        )

    @asynccontextmanager
    async def serve(self, task: Task, environment: Environment, folder: Path) -> AsyncIterator[None]:
        """Score what the agent has, whenever it asks."""
        family, name = self._family_and_name(task)

        async def scorer(home: Path) -> ScorerResult:
            return await score(self._provider, family, name, home, image=self._image)

        visible = family.task(name).scoring.visible_to_agent
        server = ScoreServer(folder, scorer, visible=visible)
        serving = asyncio.create_task(server.serve(environment))
        try:
            yield
            server.close()
            await serving
        finally:
            serving.cancel()
            await asyncio.wait({serving})

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The log of scores. Without a valid one, what was left behind is scored, once."""
        family, name = self._family_and_name(task)
        log = read_score_log(folder)
        scores, at_end = log.scores, False
        if selected_score(scores, _scale(task).selection) is None:
            left = folder / "left"
            await get_tree(environment, environment.workdir, left)
            given = await score(self._provider, family, name, left, image=self._image)
            scores, at_end = (
                (*scores, ScoreLogEntry(seconds=log.seconds, score=given.score, message=json.dumps(given.message))),
                True,
            )
        evidence = ReBenchEvidence(
            family=family.name, task=name, scores=scores, seconds=log.seconds, scored_at_end=at_end
        )
        return Prediction(task_id=task.id, patch_kind=PatchKind.STATE, content=to_json(evidence))

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Judge a log of scores; a script is run first, as an agent would work."""
        match prediction.patch_kind:
            case PatchKind.STATE:
                evidence = from_json(prediction.content, ReBenchEvidence, where=task.id)
            case PatchKind.SHELL_SCRIPT:
                evidence = await self._for_context(context)._run_script(task, prediction.content)  # noqa: SLF001 - our own
            case _:
                raise InvalidData("a submission for this task is a script, or a log of scores", where=task.id)
        verdict = judge(task, evidence)
        return TaskEvaluation(
            task_id=task.id,
            verdict=verdict,
            tags=task.tags,
            model=prediction.model,
            patch_kind=prediction.patch_kind,
            patch_sha256=hashlib.sha256(prediction.content).hexdigest(),
        )

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """The start has the published score and the oracle reaches its own, each time the same."""
        here = self._for_context(context)
        family, name = self._family_and_name(task)
        require_resources(family, name)
        scale, oracle = _scale(task), family.solution
        starts = [await here._run_script(task, b"") for _ in range(2)]  # noqa: SLF001 - our own
        solved = [await here._run_script(task, oracle.encode()) for _ in range(2)] if oracle is not None else []  # noqa: SLF001
        at_start, at_end = ([score_within(one.scores, scale) for one in tries] for tries in (starts, solved))
        problems = []
        if any(selected_score(one.scores, scale.selection) is None for one in starts):
            problems.append("the starting solution has no valid score")
        elif abs(at_start[0]) > _TOLERANCE:
            problems.append(f"the starting solution has {at_start[0]:.3f} on a scale where it should have 0")
        if oracle is None:
            problems.append("there is no oracle that could be tried")
        elif at_end[0] < 1 - _TOLERANCE:
            problems.append(f"the oracle reaches {at_end[0]:.3f} on a scale where it should reach 1")
        repeats = all(abs(first - second) < _TOLERANCE for first, second in (at_start, at_end or (0.0, 0.0)))
        if not repeats:
            problems.append("the same solution is scored otherwise the second time")
        return TaskHealth(
            task_id=task.id,
            environment=await context.provider.digest(self.environment_spec(task, context.options)),
            healthy=not problems,
            pre_patch_ok=abs(at_start[0]) <= _TOLERANCE,
            oracle_ok=bool(at_end) and at_end[0] >= 1 - _TOLERANCE,
            determinism_ok=repeats,
            problems=tuple(problems),
        )

    async def _run_script(self, task: Task, script: bytes) -> ReBenchEvidence:
        """Run a script in the agent's place."""
        with tempfile.TemporaryDirectory(prefix="proctor-try-") as scratch:
            folder = Path(scratch)
            async with await self._provider.start(await self.prepare(task, folder)) as environment:
                async with self.serve(task, environment, folder):
                    await environment.exec(["sh", "-s"], stdin=script, timeout=_ORACLE_SECONDS)
                made = await self.collect(task, environment, folder)
        return from_json(made.content, ReBenchEvidence)

    @property
    def _provider(self) -> EnvironmentProvider:
        if self._provider_or_none is None:
            self._provider_or_none = find_provider("local")
        return self._provider_or_none

    def _family_and_name(self, task: Task) -> tuple[TaskFamilyFiles, str]:
        family, _, name = task.id.partition("/")
        return self._families[family], name


def judge(task: Task, evidence: ReBenchEvidence) -> Verdict:
    """What a log of scores says: resolved is to have reached the reference."""
    scale = _scale(task)
    raw = selected_score(evidence.scores, scale.selection)
    reached = score_within(evidence.scores, scale)
    scores = {f"within_{name}": score_within(evidence.scores, scale, end) for name, end in BUDGET_SECONDS.items()}
    scores |= {"normalised": reached, "times_scored": float(len(evidence.scores))}
    solved = reached >= 1
    reason = (
        "there is no valid score" if raw is None else f"scored {raw:.4g}, {reached:.3f} on the way to the reference"
    )
    if evidence.scored_at_end and raw is not None:
        reason += "; it never asked for a valid score, so what it left was scored"
    return Verdict(
        task_id=task.id,
        status=Status.RESOLVED if solved else Status.UNRESOLVED,
        cause=Cause.SOLVED if solved else Cause.SCORED,
        reason=reason,
        score=min(max(reached, 0.0), 1.0),
        scores={name: round(value, 6) for name, value in sorted(scores.items())},
        grader=GRADER,
        seconds=evidence.seconds,
    )


def _scale(task: Task) -> ScoreScale:
    return from_json(json.dumps(task.private.extra["scale"]), ScoreScale)


def _task_of(benchmark: str, family: TaskFamilyFiles, name: str, scale: ScoreScale) -> Task:
    about, said = family.task(name), family.description.tasks[name]
    hint = f"\n{about.scoring.instructions}\n" if about.scoring.instructions else ""
    needs = about.resources
    return Task(
        id=f"{family.name}/{name}",
        benchmark=benchmark,
        public=PublicPart(
            instruction=said.instructions.rstrip() + hint + INSTRUCTION,
            source=ImageSource(image=BASE_IMAGE, workdir=AGENT_HOME),
            submission=SubmissionKind.SCORE_LOG,
            network=network_of(family, name, Network.MODEL),
            limits=Limits(
                wall_seconds=BUDGET_SECONDS["8h"],
                memory_mb=None if needs.memory_gb is None else int(needs.memory_gb * 1000),
                cpus=needs.cpus,
            ),
        ),
        private=PrivatePart(
            oracle=None if family.solution is None else Oracle(text=family.solution),
            extra={"scale": {"selection": scale.selection.value, "start": scale.start, "reference": scale.reference}},
        ),
        categories={
            "family": family.name,
            "selection": scale.selection.value,
            "requirements": requirements_text(family, name),
        },
    )
