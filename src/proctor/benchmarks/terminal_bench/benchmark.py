"""Terminal-Bench as a benchmark: a container, an instruction, and a verifier that runs after the agent."""

import asyncio
import base64
import os
import re
import shlex
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import msgspec

import proctor
from proctor.benchmarks.state_graded import RUN_SCRIPT, StateGradedBenchmark
from proctor.benchmarks.terminal_bench.exam import VerifierExam
from proctor.benchmarks.terminal_bench.harbor_task import CONFIG, HarborTask, read_task
from proctor.benchmarks.terminal_bench.verdict_rule import TerminalBenchEvidence, judge
from proctor.benchmarks.terminal_bench.verifier import VerifierSetup, verifier_programs, verify, verify_paper
from proctor.core.benchmark import DatasetInfo, GradeOptions, InvalidTask
from proctor.core.causes import Cause, Status
from proctor.core.environment import Environment, EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError, InvalidData
from proctor.core.machine import Machine
from proctor.core.record import from_json
from proctor.core.task import ImageSource, Oracle, PrivatePart, PublicPart, SubmissionKind, Task
from proctor.core.verdict import Verdict
from proctor.grading.state import (
    KeptFiles,
    ServiceGrace,
    ShellResult,
    keep_files,
    load_snapshot,
    take_snapshot,
    wait_for_services,
    with_findings,
)

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_START_ENTRYPOINT: Final = 'nohup "$@" </dev/null >/dev/null 2>&1 & sleep 1'
# What was started last has this long to listen; Harbor's verifiers take about as long to be installed.
SERVICE_GRACE_SECONDS: Final = 30.0
# An environment does not start in its root; commands there can.
_ROOT_SUBSTITUTE: Final = "/root"


class TerminalBench(StateGradedBenchmark):
    """The tasks of one version of Terminal-Bench."""

    name = "terminal_bench"
    grader = f"terminal_bench/{proctor.__version__}"

    def __init__(
        self,
        folder: Path,
        dataset: DatasetInfo,
        split: str,
        *,
        variables: Mapping[str, str] | None = None,
        grace_seconds: float = SERVICE_GRACE_SECONDS,
    ) -> None:
        super().__init__(dataset)
        self.split = split
        self._folder = folder
        self._grace_seconds = grace_seconds
        self._variables = os.environ if variables is None else variables

    def fingerprint(self, task: Task) -> str:
        """Harbor's digest of the task."""
        return self._read_tasks[0][task.id].digest

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The container: from its ready image, or built from its Dockerfile, where it has none or builds are forced."""
        harbor = self._read_tasks[0][task.id]
        folder = harbor.path / "environment"
        builds = options.image is None and (folder / "Dockerfile").is_file()
        return EnvironmentSpec(
            workdir=_ROOT_SUBSTITUTE if harbor.workdir == "/" else harbor.workdir,
            image=options.image or harbor.image,
            build=folder if builds else None,
            network=task.public.network,
            limits=task.public.limits,
        )

    def tasks(self) -> Sequence[Task]:
        """Every task that Proctor can run."""
        return self._tasks

    @cached_property
    def _tasks(self) -> tuple[Task, ...]:
        return tuple(as_task(harbor) for harbor in self._read_tasks[0].values())

    def invalid_tasks(self) -> Sequence[InvalidTask]:
        """Tasks that are broken, or that need what Proctor has not."""
        return self._read_tasks[1]

    @cached_property
    def _read_tasks(self) -> tuple[dict[str, HarborTask], tuple[InvalidTask, ...]]:
        tasks: dict[str, HarborTask] = {}
        bad = []
        for folder in sorted(file.parent for file in self._folder.glob(f"*/{CONFIG}")):
            try:
                task = read_task(folder)
            except InvalidData as error:
                bad.append(InvalidTask(task_id=folder.name, problems=(str(error),)))
                continue
            if task.unsupported:
                bad.append(
                    InvalidTask(task_id=task.name, problems=tuple(f"it needs {what}" for what in task.unsupported))
                )
            else:
                tasks[task.name] = task
        return dict(sorted(tasks.items())), tuple(bad)

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """A machine of its own, a GPU, memory, or a variable that the task asks for."""
        no_machine = super().missing_requirement(task, machine, runner)
        if no_machine is not None:
            return no_machine
        harbor = self._read_tasks[0][task.id]
        if harbor.gpus > machine.gpus:
            return f"{harbor.name} needs {harbor.gpus} GPU, and environments have {machine.gpus or 'none'}"
        if harbor.memory_mb is not None and harbor.memory_mb > machine.memory_mb:
            return f"{task.id} needs {harbor.memory_mb} MB of memory, and this machine has {machine.memory_mb}"
        try:
            for variables in (harbor.variables, harbor.verifier_variables):
                self._resolve_variables(harbor, variables)
        except InfrastructureError as error:
            return error.sentence
        return None

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """The container; all that the agent starts from is in its image.

        Raises:
            InfrastructureError: a variable that the task asks of this machine is not set.
        """
        harbor = self._read_tasks[0][task.id]
        self._resolve_variables(harbor, harbor.verifier_variables)
        return msgspec.structs.replace(
            self.environment_spec(task, GradeOptions()), variables=self._resolve_variables(harbor, harbor.variables)
        )

    @asynccontextmanager
    async def serve(self, task: Task, environment: Environment, folder: Path) -> AsyncIterator[None]:
        """Wait until the environment says that it is up, and note what its programs are."""
        self.require_machine(environment)
        harbor = self._read_tasks[0][task.id]
        done = await environment.exec(["mkdir", "-p", "/logs/agent", "/logs/artifacts"], cwd="/")
        if done.exit_code != 0:
            raise InfrastructureError("the image has no mkdir", where=task.id)
        if harbor.entrypoint:
            # In Harbor it is the container's first process; an environment has one of its own.
            words = [*harbor.entrypoint, "sh", "-c", "sleep infinity"]
            await environment.exec(["sh", "-c", _START_ENTRYPOINT, "sh", *words], cwd=harbor.workdir)
        await _wait_until_healthy(harbor, environment)
        await take_snapshot(environment, verifier_programs(harbor), folder / self.GRADING_DIR, guard_settings=True)
        yield

    def judge(self, task: Task, evidence: bytes) -> Verdict:
        """By the verifier's reward."""
        return judge(from_json(evidence, TerminalBenchEvidence, where=task.id), self.grader)

    def grader_runs(self, evidence: bytes) -> Mapping[str, ShellResult]:
        """The verifier."""
        return {"verifier": from_json(evidence, TerminalBenchEvidence).verifier_run}

    async def observe(
        self, task: Task, environment: Environment, folder: Path, options: GradeOptions
    ) -> TerminalBenchEvidence:
        """Run the verifier on the machine; where it passes, on copies of it, with tests as they are and altered."""
        harbor, snapshot = self._read_tasks[0][task.id], folder / self.GRADING_DIR
        seconds = options.timeout_seconds or harbor.verifier_seconds
        variables = self._resolve_variables(harbor, harbor.verifier_variables)
        started = time.time()
        async with keep_files(environment, snapshot) as kept:
            # Where the files are not kept, nothing could tell what was done in that time.
            grace = ServiceGrace(seconds=self._grace_seconds, since=started, named=harbor.text())
            setup = VerifierSetup(
                task=harbor,
                folder=snapshot,
                seconds=seconds,
                variables=variables,
                checkpoint=kept.checkpoint,
                grace=grace if kept.checkpoint is not None else None,
            )
            evidence = await verify(setup, environment)
            evidence = msgspec.structs.replace(
                evidence, quarantine_result=with_findings(evidence.quarantine_result, kept.findings)
            )
            passes = judge(evidence, self.grader).status is Status.RESOLVED
            seen = evidence.quarantine_result
            may_be_late = bool(seen.waited_for or seen.late_files)
            if not passes or kept.checkpoint is None or not (options.controls or may_be_late):
                return evidence
            with tempfile.TemporaryDirectory(prefix="proctor-oracle-") as scratch:
                exam = VerifierExam(
                    task=harbor,
                    machine=environment,
                    kept=kept,
                    started=started,
                    search_path=seen.search_path,
                    late_files=seen.late_files,
                    run_on=partial(verify_paper, setup),
                    live=evidence.statuses,
                    oracle=partial(self._keep_oracle, task, Path(scratch)) if harbor.has_solution else None,
                    pairs=options.controls,
                    key=f"{harbor.digest} {environment.digest} {self.grader}",
                )
                return msgspec.structs.replace(evidence, exam=await exam.run())

    @asynccontextmanager
    async def _keep_oracle(self, task: Task, folder: Path, environment: Environment) -> AsyncIterator[KeptFiles]:
        """Let the solution work in an untouched environment, and keep what it has made."""
        harbor = self._read_tasks[0][task.id]
        async with self.serve(task, environment, folder):
            await environment.exec(
                ["/bin/sh", "-c", RUN_SCRIPT], stdin=solution_script(harbor).encode(), timeout=harbor.agent_seconds
            )
        snapshot = folder / self.GRADING_DIR
        async with keep_files(environment, snapshot) as kept:
            before = load_snapshot(snapshot)
            await wait_for_services(environment, before.processes, path=before.path, seconds=self._grace_seconds)
            yield kept

    def _resolve_variables(self, task: HarborTask, variables: Mapping[str, str]) -> dict[str, str]:
        """The variables of a task, with ``${NAME}`` and ``${NAME:-default}`` filled in from this machine's."""

        def value(match: re.Match[str]) -> str:
            name, default = match[1], match[2]
            found = self._variables.get(name, default)
            if found is None:
                raise _not_runnable(f"{task.name} needs the variable {name}, which is not set")
            return found

        return {name: _VARIABLE.sub(value, text) for name, text in variables.items()}


def as_task(task: HarborTask) -> Task:
    """A task of Harbor's as one of ours."""
    metadata = task.metadata
    categories = {name: str(metadata[name]) for name in ("difficulty", "category") if metadata.get(name)}
    tags = metadata.get("tags")
    return Task(
        id=task.name,
        benchmark=TerminalBench.name,
        public=PublicPart(
            instruction=task.instruction,
            source=ImageSource(image=task.image or f"built from {task.name}", workdir=task.workdir),
            submission=SubmissionKind.STATE,
            network=Network.OPEN if task.network == "public" else Network.MODEL,
            limits=Limits(wall_seconds=task.agent_seconds, cpus=task.cpus, memory_mb=task.memory_mb, gpus=task.gpus),
        ),
        private=PrivatePart(
            oracle=Oracle(text=solution_script(task)) if task.has_solution else None,
            extra={"digest": task.digest, "schema": task.schema, "verifier_seconds": task.verifier_seconds},
        ),
        categories=categories,
        tags=(*categories.values(), *(str(tag) for tag in tags if isinstance(tags, list)))
        if tags
        else tuple(categories.values()),
    )


def solution_script(task: HarborTask) -> str:
    """One script that unpacks the solution's folder where Harbor puts it, runs it, and takes it away again."""
    solution = task.path / "solution"
    lines = ["trap 'rm -rf /solution' EXIT", "mkdir -p /solution || exit 1"]
    for file in sorted(path for path in solution.rglob("*") if path.is_file()):
        place = shlex.quote(f"/solution/{file.relative_to(solution).as_posix()}")
        content = base64.encodebytes(file.read_bytes()).decode()
        lines += [f"mkdir -p $(dirname {place})", f"base64 -d >{place} <<'END'\n{content}END"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in task.solution_variables.items()]
    lines += [f"cd {shlex.quote(task.workdir)}", "chmod +x /solution/solve.sh && /solution/solve.sh"]
    return "\n".join(lines) + "\n"


async def _wait_until_healthy(task: HarborTask, environment: Environment) -> None:
    check = task.healthcheck
    if check is None:
        return
    await asyncio.sleep(check.start_period)
    for left in reversed(range(check.retries)):
        done = await environment.exec(["sh", "-c", check.command], timeout=check.timeout)
        if done.exit_code == 0:
            return
        if left:
            await asyncio.sleep(check.interval)
    raise InfrastructureError(f"the environment is not up after {check.retries} checks", where=task.name)


def _not_runnable(what: str) -> InfrastructureError:
    return InfrastructureError(what, cause=Cause.NOT_RUNNABLE_HERE)
