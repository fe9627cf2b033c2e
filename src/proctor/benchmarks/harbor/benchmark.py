"""Tasks of Harbor's format as a benchmark: an environment, instructions, and verifiers that run after the agent."""

import copy
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.harbor.artifacts import (
    ArtifactManifest,
    StepSubmission,
    artifact_folders,
    read_archive,
    scratch_trees,
    write_archive,
)
from proctor.benchmarks.harbor.as_task import as_task
from proctor.benchmarks.harbor.collect import KeptBefore, collect_shared, collect_step
from proctor.benchmarks.harbor.preparation import (
    network_of,
    prepare_step,
    spec_of,
    start_environment,
    user_of,
    with_image,
)
from proctor.benchmarks.harbor.separate import SeparateVerifier
from proctor.benchmarks.harbor.separate_mode import separately
from proctor.benchmarks.harbor.shared import SharedVerifier
from proctor.benchmarks.harbor.solution import resolve_variables, solution_script
from proctor.benchmarks.harbor.step_rule import HarborSteps, holds, judge_steps, meets
from proctor.benchmarks.harbor.step_store import (
    evidence_of,
    read_artifact_folders,
    read_steps,
    write_artifact_folders,
    write_steps,
)
from proctor.benchmarks.harbor.task import HarborStep, HarborTask
from proctor.benchmarks.harbor.task_format import read_task
from proctor.benchmarks.harbor.verdict_rule import HarborEvidence, judge
from proctor.benchmarks.harbor.verifier import verifier_programs
from proctor.benchmarks.state_graded import ScriptRun, StateGradedBenchmark, run_script
from proctor.core import VERSION
from proctor.core.benchmark import DatasetInfo, GradeOptions, GradingContext, InvalidTask
from proctor.core.environment import AgentUser, Environment, EnvironmentProvider, EnvironmentSpec
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.evaluation import Prediction
from proctor.core.machine import Machine
from proctor.core.record import from_json, to_json
from proctor.core.request import VerifierMode
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Verdict
from proctor.grading.state import (
    FinalFiles,
    ShellResult,
    keep_files,
    load_snapshot,
    take_snapshot,
    wait_for_services,
    with_findings,
)

# What was started last has this long to listen; Harbor's verifiers take about as long to be installed.
SERVICE_GRACE_SECONDS: Final = 30.0
_TREES: Final = "artifacts"


class HarborBenchmark(StateGradedBenchmark):
    """A set of tasks in Harbor's format.

    Args:
        name: the benchmark's name.
        folders: the tasks' folders.
        dataset: what was fetched, or is read where it lies.
        split: the part of the data set.
        variables: of this machine, which tasks may ask for.
        grace_seconds: the time that what an agent has started has to become a service.
    """

    def __init__(
        self,
        name: str,
        folders: Sequence[Path],
        dataset: DatasetInfo,
        split: str | None = None,
        *,
        variables: Mapping[str, str] | None = None,
        grace_seconds: float = SERVICE_GRACE_SECONDS,
    ) -> None:
        super().__init__(dataset)
        self.name = name
        self.grader = f"{name}/{VERSION}"
        self.split = split
        self._folders = tuple(folders)
        self._grace_seconds = grace_seconds
        self._variables = os.environ if variables is None else variables
        self._provider: EnvironmentProvider | None = None
        self._mode: VerifierMode = "task"

    def for_provider(self, provider: EnvironmentProvider) -> "HarborBenchmark":
        """The same; verifiers that decide whether the next step is begun have environments of this provider."""
        made = copy.copy(self)
        made._provider = provider  # noqa: SLF001 - our own
        return made

    def with_verifier(self, mode: VerifierMode) -> "HarborBenchmark":
        """The same, with shared verifiers in environments of their own."""
        if mode == self._mode:
            return self
        made = copy.copy(self)
        made._mode = mode  # noqa: SLF001 - our own
        made.__dict__.pop("_read_tasks", None)
        made.__dict__.pop("_tasks", None)
        made.grader = f"{self.name}/{VERSION} {mode}"
        return made

    def fingerprint(self, task: Task) -> str:
        """Harbor's digest of the task."""
        return self._task(task).digest

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The agent's environment."""
        harbor = self._task(task)
        phases = tuple(
            policy
            for step in harbor.steps
            for policy in (step.network, step.verifier.network if step.verifier.environment is None else None)
            if policy is not None
        )
        return with_image(spec_of(harbor.environment, phases, {}), options.image)

    def tasks(self) -> Sequence[Task]:
        """Every task that Proctor can run."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(as_task(harbor, self.name, self._variables) for harbor in self._read_tasks[0].values())

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """Tasks that are broken, or that need what Proctor has not."""
        return self._read_tasks[1]

    @cached_property
    def _read_tasks(self) -> tuple[dict[str, HarborTask], tuple[InvalidTask, ...]]:
        tasks: dict[str, HarborTask] = {}
        bad = []
        for folder in self._folders:
            try:
                task = read_task(folder)
            except InvalidData as error:
                bad.append(InvalidTask(task_id=folder.name, problems=(str(error),)))
                continue
            if task.unsupported:
                problems = tuple(f"it needs {what}" for what in task.unsupported)
                bad.append(InvalidTask(task_id=task.name, problems=problems))
            elif task.name in tasks:
                other = tasks[task.name].folder
                bad.append(InvalidTask(task_id=task.name, problems=(f"{other} has the same name, {task.name}",)))
            else:
                tasks[task.name] = separately(task) if self._mode == "separate" else task
        return dict(sorted(tasks.items())), tuple(bad)

    def _task(self, task: Task) -> HarborTask:
        return self._read_tasks[0][task.id]

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """A machine of its own, a GPU, memory, a variable, or a verifier that cannot run by itself."""
        no_machine = super().missing_requirement(task, machine, runner)
        if no_machine is not None:
            return no_machine
        harbor = self._task(task)
        for environment in harbor.environments:
            if environment.gpus > machine.gpus:
                return f"{harbor.name} needs {environment.gpus} GPU, and environments have {machine.gpus or 'none'}"
            if environment.memory_mb is not None and environment.memory_mb > machine.memory_mb:
                return f"{task.id} needs {environment.memory_mb} MB of memory, and this machine has {machine.memory_mb}"
        for step in harbor.steps:
            if self._mode == "separate" and step.verifier.environment is None:
                return f"--verifier separate: {harbor.name} names no files for its verifier, or it looks for what runs"
        try:
            for variables in harbor.needed_variables():
                resolve_variables(harbor, variables, self._variables)
        except InfrastructureError as error:
            return error.sentence
        return None

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """The container; all that the agent starts from is in its image.

        Raises:
            InfrastructureError: a variable that the task asks of this machine is not set.
        """
        harbor = self._task(task)
        for variables in harbor.needed_variables():
            resolve_variables(harbor, variables, self._variables)
        own = resolve_variables(harbor, harbor.environment.variables, self._variables)
        return msgspec.structs.replace(self.environment_spec(task, GradeOptions()), variables=own)

    @asynccontextmanager
    async def serve(self, task: Task, environment: Environment, folder: Path) -> AsyncIterator[None]:
        """Wait until the environment says that it is up, and note what its programs are."""
        self.require_machine(environment)
        harbor = self._task(task)
        await start_environment(harbor.environment, environment, where=task.id)
        names = tuple(dict.fromkeys(name for step in harbor.steps for name in verifier_programs(step)))
        shared = any(step.verifier.environment is None for step in harbor.steps)
        await take_snapshot(environment, names if shared else (), folder / self.GRADING_DIR, guard_settings=shared)
        named = {one for step in harbor.steps if step.verifier.environment for one in harbor.artifacts_of(step)}
        write_artifact_folders(folder / self.GRADING_DIR, await artifact_folders(environment, named))
        if not harbor.has_steps:
            await self._enter_agent_phase(harbor, harbor.steps[0], environment)
        yield

    async def agent_user(self, task: Task, step: str, environment: Environment) -> AgentUser | None:
        """Whom the task names, or its image does."""
        user = await user_of(environment, self._task(task).step(step).user)
        if user is not None:
            # Only who may do all can make a folder there, where a solution is put.
            await environment.exec(["sh", "-c", "mkdir -p /solution && chmod 777 /solution"], cwd="/")
        return user

    async def begin_step(self, task: Task, step: str, environment: Environment, folder: Path) -> bool:
        """The step's files, its set-up, its health, its network; whether it can be begun where the agent has worked."""
        harbor = self._task(task)
        found = harbor.step(step)
        try:
            await self._begin_step(task, found, environment)
        except InfrastructureError:
            if found is harbor.steps[0] or not await self._begins_untouched(task, found, environment):
                raise
            return False
        return True

    async def _begins_untouched(self, task: Task, step: HarborStep, environment: Environment) -> bool:
        """Whether a step can be begun where nobody has worked."""
        checkpoint = await environment.checkpoint()
        if checkpoint is None:
            return False
        try:
            async with await checkpoint.original() as fresh, self._untouched(task, step, fresh):
                return True
        except InfrastructureError:
            return False
        finally:
            await checkpoint.remove()

    async def _begin_step(self, task: Task, found: HarborStep, environment: Environment) -> None:
        harbor = self._task(task)
        await environment.set_network(*network_of(harbor.environment.network))
        await prepare_step(harbor, found, environment, await self.agent_user(task, found.name, environment))
        await self._enter_agent_phase(harbor, found, environment)

    async def finish_step(
        self, task: Task, step: str, environment: Environment, folder: Path, options: GradeOptions
    ) -> bool:
        """Verify the step; whether its rewards are as high as the next one asks for."""
        harbor = self._task(task)
        found = harbor.step(step)
        is_last = found is harbor.steps[-1]
        submitted = await self._submit(task, found, environment, folder, options, is_last=is_last)
        known = read_steps(folder / self.GRADING_DIR)
        known = msgspec.structs.replace(known, steps=(*known.steps, submitted))
        write_steps(folder / self.GRADING_DIR, known)
        if is_last or not found.min_reward:
            return not is_last
        evidence = submitted.evidence or await self._gate_evidence(task, found, submitted, folder)
        # A reward that does not hold, as of work after the time was up, opens nothing.
        return holds(judge(evidence, self.grader)) and meets(evidence.rewards, found.min_reward)

    async def collect_with(
        self, task: Task, environment: Environment, folder: Path, options: GradeOptions
    ) -> Prediction:
        """The evidence of shared verifiers, or the artifacts for those in environments of their own."""
        harbor = self._task(task)
        if harbor.has_steps:
            manifest = read_steps(folder / self.GRADING_DIR)
        else:
            one = await self._submit(task, harbor.steps[0], environment, folder, options, is_last=True)
            manifest = ArtifactManifest(steps=(one,))
        if all(step.evidence is not None for step in manifest.steps):
            evidence = evidence_of(harbor, manifest)
            return Prediction(task_id=task.id, patch_kind=PatchKind.STATE, content=to_json(evidence))
        content = write_archive(manifest, folder / self.GRADING_DIR / _TREES)
        return Prediction(task_id=task.id, patch_kind=PatchKind.ARTIFACTS, content=content)

    async def evidence_for(self, task: Task, prediction: Prediction, context: GradingContext) -> Prediction:
        """Run the verifiers that have environments of their own, on the artifacts."""
        harbor = self._task(task)
        with scratch_trees() as scratch:
            trees = Path(scratch)
            manifest = read_archive(prediction.content, trees)
            done = []
            for one in manifest.steps:
                evidence = one.evidence
                if evidence is None:
                    step = harbor.step(one.name)
                    verifier = self._separate_verifier(task, step, context.provider, context.options)
                    evidence = await verifier.verify(one, trees, context.options.controls)
                done.append(msgspec.structs.replace(one, evidence=evidence))
        made = evidence_of(harbor, msgspec.structs.replace(manifest, steps=tuple(done)))
        return msgspec.structs.replace(prediction, patch_kind=PatchKind.STATE, content=to_json(made))

    def judge(self, task: Task, evidence: bytes) -> Verdict:
        """By the verifiers' rewards."""
        if HarborSteps.is_one(evidence):
            return judge_steps(from_json(evidence, HarborSteps, where=task.id), self.grader)
        return judge(from_json(evidence, HarborEvidence, where=task.id), self.grader)

    def grader_runs(self, evidence: bytes) -> Mapping[str, ShellResult]:
        """The verifiers."""
        if HarborSteps.is_one(evidence):
            steps = from_json(evidence, HarborSteps).steps
            return {f"verifier-{step.name}": step.evidence.verifier_run for step in steps}
        return {"verifier": from_json(evidence, HarborEvidence).verifier_run}

    async def work(
        self,
        task: Task,
        script: bytes | None,
        *,
        environment: Environment,
        folder: Path,
        options: GradeOptions,
        seconds: float,
    ) -> ScriptRun:
        """Let a script work; in a task of several steps, the oracle's own in each, and any other in all of them."""
        harbor = self._task(task)
        if not harbor.has_steps:
            return await self._run_script(task, harbor.steps[0], script, environment, seconds)
        oracle = task.private.oracle
        is_oracle = script is not None and oracle is not None and script == oracle.text.encode()
        for step in harbor.steps:
            if not await self.begin_step(task, step.name, environment, folder):
                break
            own = oracle.steps[step.name].encode() if is_oracle and oracle is not None else script
            ran = await self._run_script(task, step, own, environment, step.agent_seconds or seconds)
            if not await self.finish_step(task, step.name, environment, folder, options):
                break
        return ran

    async def _run_script(
        self, task: Task, step: HarborStep, script: bytes | None, environment: Environment, seconds: float
    ) -> ScriptRun:
        return await run_script(script, environment, seconds, await self.agent_user(task, step.name, environment))

    async def _enter_agent_phase(self, harbor: HarborTask, step: HarborStep, environment: Environment) -> None:
        await environment.set_network(*network_of(step.network or harbor.environment.network))

    async def _submit(
        self,
        task: Task,
        step: HarborStep,
        environment: Environment,
        folder: Path,
        options: GradeOptions,
        *,
        is_last: bool,
    ) -> StepSubmission:
        """What is submitted for a step: artifacts, or what a shared verifier says."""
        harbor, before = self._task(task), load_snapshot(folder / self.GRADING_DIR)
        if step.verifier.environment is not None:
            trees = folder / self.GRADING_DIR / _TREES
            trees.mkdir(exist_ok=True)
            kept = KeptBefore(before, read_artifact_folders(folder / self.GRADING_DIR))
            return await collect_step(harbor, step, environment, trees, kept)
        findings = await collect_shared(step, environment, before)
        await environment.set_network(*network_of(step.verifier.network or harbor.environment.network))
        evidence = await self._verify_shared(task, step, environment, folder, options, is_last=is_last)
        seen = with_findings(evidence.quarantine_result, findings)
        return StepSubmission(name=step.name, evidence=msgspec.structs.replace(evidence, quarantine_result=seen))

    async def _gate_evidence(self, task: Task, step: HarborStep, one: StepSubmission, folder: Path) -> HarborEvidence:
        if self._provider is None:
            raise InfrastructureError("no environments are known for the verifier of a step", where=task.id)
        verifier = self._separate_verifier(task, step, self._provider, GradeOptions())
        return await verifier.verify(one, folder / self.GRADING_DIR / _TREES, pairs=0)

    def _separate_verifier(
        self, task: Task, step: HarborStep, provider: EnvironmentProvider, options: GradeOptions
    ) -> SeparateVerifier:
        harbor, own = self._task(task), step.verifier.environment
        assert own is not None  # noqa: S101 - asked before
        policy = step.verifier.network or own.network
        own = msgspec.structs.replace(own, network=policy)
        spec = spec_of(own, (), resolve_variables(harbor, own.variables, self._variables))
        return SeparateVerifier(
            task=harbor,
            step=step,
            provider=provider,
            spec=msgspec.structs.replace(spec, labels={"task": task.id}),
            prepare=partial(start_environment, own, where=task.id),
            seconds=options.timeout_seconds or step.verifier.seconds,
            variables=resolve_variables(harbor, step.verifier.variables, self._variables),
            user=step.verifier.user,
            key=f"{harbor.digest} {step.name} separate {self.grader}",
            grader=self.grader,
            oracle=partial(self._oracle_submission, task, step, provider) if harbor.has_solution else None,
        )

    async def _verify_shared(
        self,
        task: Task,
        step: HarborStep,
        environment: Environment,
        folder: Path,
        options: GradeOptions,
        *,
        is_last: bool,
    ) -> HarborEvidence:
        """Run the verifier on the machine, and on copies of it, with tests as they are and altered."""
        harbor, snapshot = self._task(task), folder / self.GRADING_DIR
        user = await user_of(environment, step.verifier.user)
        with tempfile.TemporaryDirectory(prefix="proctor-oracle-") as scratch:
            oracle = partial(self._keep_oracle, task, step, Path(scratch)) if harbor.has_solution else None
            verifier = SharedVerifier(
                task=harbor,
                step=step,
                environment=environment,
                folder=snapshot,
                is_last=is_last,
                seconds=options.timeout_seconds or step.verifier.seconds,
                variables=resolve_variables(harbor, step.verifier.variables, self._variables),
                user=None if user is None else user.name,
                controls=options.controls,
                key=f"{harbor.digest} {step.name} {environment.digest} {self.grader}",
                grader=self.grader,
                oracle=oracle,
                untouched=partial(self._untouched, task, step),
                grace_seconds=self._grace_seconds,
            )
            return await verifier.verify()

    @asynccontextmanager
    async def _keep_oracle(
        self, task: Task, step: HarborStep, folder: Path, environment: Environment
    ) -> AsyncIterator[FinalFiles]:
        """Let the solution work in an untouched environment up to this step, and keep what it has made."""
        harbor = self._task(task)
        async with self.serve(task, environment, folder):
            await self._solve_until(task, step, environment, folder)
            await collect_shared(step, environment, load_snapshot(folder / self.GRADING_DIR))
        await environment.set_network(*network_of(step.verifier.network or harbor.environment.network))
        snapshot = folder / self.GRADING_DIR
        async with keep_files(environment, snapshot) as kept:
            before = load_snapshot(snapshot)
            await wait_for_services(environment, before.processes, path=before.path, seconds=self._grace_seconds)
            yield kept

    @asynccontextmanager
    async def _untouched(self, task: Task, last: HarborStep, environment: Environment) -> AsyncIterator[Path]:
        """Bring an environment to where the agent started with a step; the folder of its snapshot."""
        harbor = self._task(task)
        with tempfile.TemporaryDirectory(prefix="proctor-untouched-") as scratch:
            folder = Path(scratch)
            async with self.serve(task, environment, folder):
                for step in harbor.steps[: harbor.steps.index(last) + 1] if harbor.has_steps else ():
                    await self._begin_step(task, step, environment)
            await environment.set_network(*network_of(last.verifier.network or harbor.environment.network))
            yield folder / self.GRADING_DIR

    @asynccontextmanager
    async def _oracle_submission(
        self, task: Task, step: HarborStep, provider: EnvironmentProvider
    ) -> AsyncIterator[tuple[StepSubmission, Path]]:
        with tempfile.TemporaryDirectory(prefix="proctor-oracle-") as scratch:
            folder = Path(scratch)
            spec = await self.prepare(task, folder)
            spec = msgspec.structs.replace(spec, labels={**spec.labels, "task": task.id})
            async with await provider.start(spec) as environment:
                async with self.serve(task, environment, folder):
                    await self._solve_until(task, step, environment, folder)
                submitted = await self._submit(task, step, environment, folder, GradeOptions(), is_last=True)
            yield submitted, folder / self.GRADING_DIR / _TREES

    async def _solve_until(self, task: Task, last: HarborStep, environment: Environment, folder: Path) -> None:
        """Run the solutions of all steps up to one, without their verifiers."""
        harbor = self._task(task)
        for step in harbor.steps[: harbor.steps.index(last) + 1]:
            if harbor.has_steps:
                await self._begin_step(task, step, environment)
            script = solution_script(harbor, step, self._variables).encode()
            await self._run_script(task, step, script, environment, step.agent_seconds or 3600.0)
