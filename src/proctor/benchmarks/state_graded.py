"""The base class of benchmarks whose submission is the state of a machine.

The grader runs its checks in the agent's own environment; what it observed is the submission. A shell script can be
submitted too: it runs in a fresh environment, whose state is then graded.
"""

import asyncio
import hashlib
import tempfile
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

import msgspec

from proctor.core.benchmark import Benchmark, DatasetInfo, GradeOptions, GradingContext, TaskHealth
from proctor.core.causes import Cause, Status
from proctor.core.disk_names import disk_name
from proctor.core.environment import AgentUser, Environment
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.machine import Machine
from proctor.core.record import Record, to_json
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.core.verdict import Finding, Verdict
from proctor.grading.state import EnvironmentCode, QuarantinedEnvironment, ShellResult

# As an agent would: in a shell of its own, with no copy of the script left behind.
RUN_SCRIPT: Final = """
script=$(mktemp) && trap 'rm -f "$script"' EXIT && cat >"$script" || exit 1
"$(command -v bash || command -v sh)" "$script" </dev/null
"""
_DEFAULT_SECONDS: Final = 7200.0
_SHARED_SYSTEM_PREFIXES: Final = ("local:", "plain:")
_KILLED_EXIT_CODE: Final = 137


class ScriptRun(NamedTuple):
    """How a script ended, in words, and what it printed, by the names under which that is kept."""

    note: str
    outputs: Mapping[str, bytes] = MappingProxyType({})


class StateGradedBenchmark(Benchmark):
    """A benchmark that grades what `observe` finds in an environment; `dataset` is what was fetched."""

    GRADING_DIR: ClassVar[str] = "grading"  # below an attempt's folder: the environment's snapshot

    def __init__(self, dataset: DatasetInfo) -> None:
        self.source = dataset.origin
        self._dataset = dataset

    async def observe(self, task: Task, environment: Environment, folder: Path, options: GradeOptions) -> Record:
        """Run the checks in an environment that `serve` has prepared; the evidence.

        For a benchmark that does not override `collect_with`.
        """
        raise NotImplementedError

    async def evidence_for(
        self,
        task: Task,
        prediction: Prediction,
        context: GradingContext,
    ) -> Prediction:
        """The evidence on artifacts that were copied out of the agent's environment, for a benchmark with such.

        Raises:
            UsageError: it has none.
        """
        raise UsageError(f"a submission for {task.id} is a machine's state, not artifacts of one")

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
        """Let a script work in an environment that is served."""
        return await run_script(script, environment, seconds)

    @abstractmethod
    def judge(self, task: Task, evidence: bytes) -> Verdict:
        """The verdict on evidence as it was stored."""

    def grader_runs(self, evidence: bytes) -> Mapping[str, ShellResult]:
        """The grader's commands in evidence as it was stored, by the names under which their output is kept."""
        return {}

    def digest(self) -> str:
        """Identifies the data."""
        return self._dataset.digest

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """A machine of its own: local environments share this computer's system."""
        return self._no_machine_error().sentence if runner == "local" else None

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """Run the checks where the agent worked."""
        return await self.collect_with(task, environment, folder, GradeOptions())

    async def collect_with(
        self, task: Task, environment: Environment, folder: Path, options: GradeOptions
    ) -> Prediction:
        """Run the checks where the agent worked, as the options say."""
        return _prediction(task, await self.observe(task, environment, folder, options))

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """Judge the evidence; for a script, run it in a fresh environment first.

        Raises:
            UsageError: the prediction is neither.
        """
        if prediction.patch_kind is PatchKind.SHELL_SCRIPT:
            return await self._grade_script(task, prediction, context)
        if prediction.patch_kind is PatchKind.ARTIFACTS:
            state = await self.evidence_for(task, prediction, context)
            evaluation = await self._grade_state(task, state, _artifacts(context, task))
            digest = hashlib.sha256(prediction.content).hexdigest()
            return msgspec.structs.replace(evaluation, patch_kind=PatchKind.ARTIFACTS, patch_sha256=digest)
        if prediction.patch_kind is not PatchKind.STATE:
            raise UsageError(
                f"a submission for {task.id} is a machine's state, not a {prediction.patch_kind.value}",
                fix="submit a shell script that does what is asked",
            )
        return await self._grade_state(task, prediction, _artifacts(context, task))

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """An untouched environment fails; the oracle, where there is one, passes as often as it is tried."""
        folder = _artifacts(context, task)
        before = await self._verdict_after(task, None, context, folder / "untouched")
        oracle = self.oracle(task)
        runs = 0 if oracle is None else context.options.determinism_runs or 2
        after = [
            await self._verdict_after(task, oracle.content if oracle else None, context, folder / f"oracle{number}")
            for number in range(1, runs + 1)
        ]
        problems = []
        if before.status is not Status.UNRESOLVED:
            problems.append(f"an untouched environment is {before.status.value}: {before.reason}")
        solved = all(verdict.status is Status.RESOLVED for verdict in after)
        same = len({verdict.status for verdict in after}) <= 1
        if not solved:
            problems.append(f"the oracle is not resolved: {after[0].reason}")
        if not same:
            problems.append("the oracle's verdict does not repeat")
        return TaskHealth(
            task_id=task.id,
            environment=context.provider.name,
            healthy=not problems,
            pre_patch_ok=before.status is Status.UNRESOLVED,
            oracle_ok=solved,
            determinism_ok=same,
            problems=tuple(problems),
            artifacts=str(folder),
        )

    def require_machine(self, environment: Environment) -> None:
        """Refuse an environment that shares this computer's system, where nothing can be installed.

        Raises:
            InfrastructureError: it does.
        """
        if environment.digest.startswith(_SHARED_SYSTEM_PREFIXES):
            raise self._no_machine_error()

    async def _grade_script(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        folder = _artifacts(context, task)
        state, note = await self._state_after(task, prediction.content, context, folder)
        evaluation = await self._grade_state(task, state, folder)
        return msgspec.structs.replace(
            evaluation, notes=(*evaluation.notes, note), model=prediction.model, patch_kind=PatchKind.SHELL_SCRIPT
        )

    async def _verdict_after(self, task: Task, script: bytes | None, context: GradingContext, folder: Path) -> Verdict:
        state, _ = await self._state_after(task, script, context, folder)
        return (await self._grade_state(task, state, folder)).verdict

    async def _grade_state(self, task: Task, state: Prediction, folder: Path) -> TaskEvaluation:
        """Judge evidence, and keep in `folder` what the grader's commands printed."""
        runs = self.grader_runs(state.content)
        outputs = {f"{name}.out": f"{run.stdout}{run.stderr}".encode() for name, run in runs.items()}
        await asyncio.to_thread(_write_outputs, folder, outputs)
        return TaskEvaluation(
            task_id=task.id,
            verdict=self.judge(task, state.content),
            tags=task.tags,
            model=state.model,
            patch_kind=PatchKind.STATE,
            patch_sha256=hashlib.sha256(state.content).hexdigest(),
            artifacts=str(folder),
        )

    async def _state_after(
        self, task: Task, script: bytes | None, context: GradingContext, artifacts: Path
    ) -> tuple[Prediction, str]:
        """The state of a fresh environment after a script has run in it, or nothing; and how the script ended.

        Raises:
            InfrastructureError: no such environment can be made here.
        """
        if not context.provider.uses_images:
            raise self._no_machine_error()
        with tempfile.TemporaryDirectory(prefix="proctor-state-") as scratch:
            folder = Path(scratch)
            spec = await self.prepare(task, folder)
            spec = msgspec.structs.replace(
                spec,
                image=context.options.image or spec.image,
                build=None if context.options.image else spec.build,
                limits=msgspec.structs.replace(task.public.limits, wall_seconds=None),
                labels={**spec.labels, "task": task.id},
            )
            async with await context.provider.start(spec) as environment:
                seconds = task.public.limits.wall_seconds or _DEFAULT_SECONDS
                async with self.serve(task, environment, folder):
                    ran = await self.work(
                        task,
                        script,
                        environment=environment,
                        folder=folder,
                        options=context.options,
                        seconds=seconds,
                    )
                await asyncio.to_thread(_write_outputs, artifacts, ran.outputs)
                state = await self.collect_with(task, environment, folder, context.options)
        if state.patch_kind is PatchKind.ARTIFACTS:
            state = await self.evidence_for(task, state, context)
        return state, ran.note

    def _no_machine_error(self) -> InfrastructureError:
        return InfrastructureError(
            f"tasks of {self.name} need a container with root",
            fix="use --runner docker",
            cause=Cause.NOT_RUNNABLE_HERE,
        )


async def run_script(
    script: bytes | None, environment: Environment, seconds: float, user: AgentUser | None = None
) -> ScriptRun:
    """Run a script as an agent would; nothing where there is none."""
    if script is None:
        return ScriptRun("no script was run")
    variables = {} if user is None else user.variables
    done = await environment.exec(
        ["/bin/sh", "-c", RUN_SCRIPT],
        stdin=script,
        timeout=seconds,
        variables=variables,
        user=None if user is None else user.name,
    )
    note = f"the script ended with {done.exit_code} after {done.seconds:.1f} s"
    return ScriptRun(note, {"script.out": done.stdout, "script.err": done.stderr})


def blocked_run() -> tuple[ShellResult, QuarantinedEnvironment]:
    """What stands for the checks of a machine on which every command of the grader is killed."""
    code = EnvironmentCode.COMMANDS_BLOCKED
    killed = ShellResult(exit_code=_KILLED_EXIT_CODE, stdout="", stderr=code.meaning, seconds=0.0)
    finding = Finding(code=code.value, path="", detail=code.meaning)
    return killed, QuarantinedEnvironment(grader_dir="", search_path="", findings=(finding,))


def _prediction(task: Task, evidence: Record) -> Prediction:
    return Prediction(task_id=task.id, patch_kind=PatchKind.STATE, content=to_json(evidence))


def _artifacts(context: GradingContext, task: Task) -> Path:
    return context.folder / disk_name(task.id)


def _write_outputs(folder: Path, outputs: Mapping[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in outputs.items():
        (folder / name).write_bytes(content)
