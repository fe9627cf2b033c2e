"""SetupBench as a benchmark: a bare machine, one instruction, one command at the end."""

import asyncio
import hashlib
import random
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.data import repository_url
from proctor.benchmarks.setupbench.altered_commands import altered_commands
from proctor.benchmarks.setupbench.quirks import QUIRKS, hosts, requirements_of
from proctor.benchmarks.setupbench.rows import FAMILY_NAMES, SetupBenchFamily, SetupBenchTask
from proctor.benchmarks.setupbench.verdict_rule import (
    MARKER,
    AlteredRun,
    Rule,
    SetupBenchControlCheck,
    SetupBenchEvidence,
    blocked_evidence,
    judge,
    passes_strict,
    with_token,
)
from proctor.benchmarks.state_graded import StateGradedBenchmark
from proctor.core import VERSION
from proctor.core.benchmark import DatasetInfo, GradeOptions
from proctor.core.causes import Cause, Status
from proctor.core.environment import Checkpoint, Environment, EnvironmentSpec, Limits, Network
from proctor.core.errors import InfrastructureError
from proctor.core.machine import Machine
from proctor.core.record import from_json, to_json
from proctor.core.task import (
    DirectorySource,
    ImageSource,
    PrivatePart,
    PublicPart,
    RepositorySource,
    SubmissionKind,
    Task,
)
from proctor.core.verdict import Finding, Verdict
from proctor.grading.state import (
    CopyFailed,
    GraderMarkers,
    GradingTarget,
    LeftoverPolicy,
    QuarantinedEnvironment,
    ShellResult,
    keep_files,
    kill_processes,
    open_grading_target,
    quarantine,
    retry_without_leftovers,
    run_observed,
    script_words,
    started_since,
    take_snapshot,
    with_findings,
)
from proctor.workspaces import base_of, check_out

WORKDIR: Final = "/testbed"
AGENT_SECONDS: Final = 7200.0  # the paper's only limit
# The published harness waits for ever. Fixed sleeps are up to 90 s, and 28 graders run whole test suites.
SERVICE_SECONDS: Final = 300.0
SUITE_SECONDS: Final = 1800.0
_PRERUNNER: Final = "/run/prerunner.sh"
_PRERUNNER_SECONDS: Final = 600.0


class SetupBench(StateGradedBenchmark):
    """The 93 tasks of SetupBench."""

    name = "setupbench"
    split: str | None = "all"
    grader = f"setupbench/{VERSION}"

    def __init__(self, tasks: Sequence[SetupBenchTask], dataset: DatasetInfo) -> None:
        super().__init__(dataset)
        self._rows = {task.id: task for task in tasks}

    def fingerprint(self, task: Task) -> str:
        """Identifies all of one task that a verdict depends on: the row, its fixture, its script."""
        row = self._rows[task.id]
        whole = hashlib.sha256(msgspec.json.encode(row.row))
        for folder in (row.fixture, row.prerunner):
            for file in _files_of(folder):
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

    def missing_requirement(self, task: Task, machine: Machine, runner: str) -> str | None:
        """A machine of its own, or files that were not fetched."""
        missing = self._rows[task.id].missing
        not_fetched = None if missing is None else _not_fetched_error(task.id, missing).sentence
        return super().missing_requirement(task, machine, runner) or not_fetched

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
        self.require_machine(environment)
        row = self._rows[task.id]
        if row.prerunner is not None:
            # Its exit code says nothing: on some images one of its steps fails, and the task is a task all the same.
            await environment.put(Path(row.prerunner), _PRERUNNER, mode=0o644)
            await environment.exec(["bash", _PRERUNNER], timeout=_PRERUNNER_SECONDS)
            await environment.exec(["rm", "-f", _PRERUNNER])
        await take_snapshot(environment, program_names(row), folder / self.GRADING_DIR)
        yield

    def judge(self, task: Task, evidence: bytes) -> Verdict:
        """By the published rule, corrected where the published grader is wrong."""
        found = from_json(evidence, SetupBenchEvidence, where=task.id)
        row = self._rows[task.id]
        return judge(found, row.rule, QUIRKS.get(task.id), self.grader, row.row.success_command)

    def grader_runs(self, evidence: bytes) -> Mapping[str, ShellResult]:
        """The success command, and ours where the task has one."""
        found = from_json(evidence, SetupBenchEvidence)
        runs = {"success_command": found.official_run, "strict_command": found.strict_run}
        return {name: run for name, run in runs.items() if run is not None}

    async def observe(
        self, task: Task, environment: Environment, folder: Path, options: GradeOptions
    ) -> SetupBenchEvidence:
        """Run the success command on the machine as it is; where it passes, on copies of it, as it is and altered."""
        snapshot = folder / self.GRADING_DIR
        async with keep_files(environment, snapshot, copies=options.controls > 0) as kept:
            run_checks = partial(self._run_checks, options.timeout_seconds, task, environment, folder)
            evidence = await retry_without_leftovers(environment, run_checks, LeftoverPolicy.KEEP)
            if evidence is None:
                return blocked_evidence(task.id, environment.digest)
            evidence = msgspec.structs.replace(
                evidence, quarantine_result=with_findings(evidence.quarantine_result, kept.findings)
            )
            passes = self.judge(task, to_json(evidence)).status is Status.RESOLVED
            if not passes or not options.controls or kept.checkpoint is None:
                return evidence
            control_check = _ControlChecker(self._rows[task.id], environment, kept.checkpoint, snapshot, options)
            return msgspec.structs.replace(evidence, control_check=await control_check.run())

    async def _run_checks(
        self, seconds: float | None, task: Task, environment: Environment, folder: Path, policy: LeftoverPolicy
    ) -> SetupBenchEvidence:
        row, quirk = self._rows[task.id], QUIRKS.get(task.id)
        quarantined = await quarantine(
            environment,
            folder / self.GRADING_DIR,
            names=program_names(row),
            policy=policy,
            markers=GraderMarkers(strings=(MARKER,), directories=(WORKDIR,)),
        )
        token = f"setup-{secrets.token_hex(12)}"
        run = partial(run_observed, environment, quarantined, timeout=seconds or grade_seconds(row), cwd=WORKDIR)
        ran = last = await run(with_token(row.row.success_command, token))
        if quirk is not None and quirk.strict_command:
            last = await run(with_token(quirk.strict_command, token))
        # A server that the command has started would answer in the place of those of the next commands.
        await kill_processes(environment, started_since(ran.before, last.after))
        return SetupBenchEvidence(
            task_id=task.id,
            token=token,
            official_run=ran.result,
            strict_run=None if last is ran else last.result,
            quarantine_result=quarantined,
            environment=environment.digest,
        )


@dataclass(frozen=True, slots=True)
class _ControlChecker:
    """The success command on copies of a machine on which it passes."""

    row: SetupBenchTask
    machine: Environment
    checkpoint: Checkpoint
    snapshot: Path
    options: GradeOptions

    async def run(self) -> SetupBenchControlCheck:
        """Find out where the command passes, and whether it fails there once it is altered."""
        plain: ShellResult | None = None
        findings: tuple[Finding, ...] = ()
        fakes: tuple[str, ...] = ()
        for target in (GradingTarget.COPY, GradingTarget.LIVE_FILES):
            try:
                plain, passes, quarantined = await self._run(target, self._command)
            except CopyFailed:
                return SetupBenchControlCheck(target=None, plain=None)
            findings = (*findings, *(finding for finding in quarantined.findings if finding not in findings))
            fakes = (*fakes, *quarantined.fake_programs)
            if passes:
                altered = await self._altered(target)
                return SetupBenchControlCheck(
                    target=target, plain=plain, altered=altered, findings=findings, fake_programs=fakes
                )
        return SetupBenchControlCheck(target=None, plain=plain, findings=findings)

    @property
    def _command(self) -> str:
        quirk = QUIRKS.get(self.row.id)
        return quirk.strict_command if quirk is not None and quirk.strict_command else self.row.row.success_command

    @property
    def _rule(self) -> Rule:
        return self.row.rule if self._command == self.row.row.success_command else "marker"

    async def _altered(self, target: GradingTarget) -> tuple[AlteredRun, ...]:
        """One change of what is expected and one of what is asked, for each pair; other ones each time."""
        runs = []
        chance = random.SystemRandom()
        changes = altered_commands(self._command, f"x{secrets.token_hex(6)}")
        for part in ("answer", "question"):
            known = [change for change in changes if change.part == part]
            for change in chance.sample(known, min(self.options.controls, len(known))):
                ran, passed, _ = await self._run(target, change.command)
                runs.append(
                    AlteredRun(
                        part=change.part, original=change.original, altered=change.altered, run=ran, passed=passed
                    )
                )
        return tuple(runs)

    async def _run(self, target: GradingTarget, command: str) -> tuple[ShellResult, bool, QuarantinedEnvironment]:
        async with open_grading_target(target, self.machine, self.checkpoint) as copy:
            quarantined = await quarantine(
                copy,
                self.snapshot,
                names=program_names(self.row),
                policy=LeftoverPolicy.KEEP,
                is_copy=True,
                checkpoint=self.checkpoint,
                inspect=command == self._command,
                ask_archive=target is GradingTarget.COPY,
            )
            token = f"setup-{secrets.token_hex(12)}"
            observed = await run_observed(
                copy,
                quarantined,
                with_token(command, token),
                timeout=self.options.timeout_seconds or grade_seconds(self.row),
                cwd=WORKDIR,
            )
            ran = observed.result
            return ran, passes_strict(ran, token, self._rule, command), quarantined


def program_names(row: SetupBenchTask) -> tuple[str, ...]:
    """The programs that a task's commands may call."""
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
        "needs": requirements_of(row).value,
        "tier": row.tier,
        "language": published.language,
        "ecosystem": published.ecosystem,
        "grader": quirk.bug.value if quirk else None,
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
        tags=(family, f"needs-{requirements_of(row).value}", *([f"grader-{quirk.bug.value}"] if quirk else [])),
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
        url = repository_url(row.row.repo_url)
        check_out(base_of(RepositorySource(url=url, commit=row.row.base_commit)), workspace)
    elif row.fixture is not None:
        shutil.copytree(row.fixture, workspace)
    else:
        workspace.mkdir(parents=True)


def _files_of(location: str | None) -> list[Path]:
    if location is None:
        return []
    path = Path(location)
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
