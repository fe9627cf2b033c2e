"""One candidate: laid out, installed, tested before and after, described, proved. It becomes a task, or is dropped."""

import asyncio
import shutil
import time
from pathlib import Path
from typing import Final, Literal

import msgspec

from proctor.benchmarks.suites.benchmark import SuiteBenchmark
from proctor.benchmarks.suites.format import Provenance, TestsEval
from proctor.benchmarks.suites.installed import installed_environment
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.environment import EnvironmentProvider
from proctor.core.errors import InfrastructureError, InvalidData, LimitReached, ProctorError, RetryableError
from proctor.core.record import Record
from proctor.core.task import Task
from proctor.core.trees import disk_bytes
from proctor.mining.candidates import Candidate, Stage
from proctor.mining.flags import find_flags
from proctor.mining.hints import setup_hint
from proctor.mining.history import RepositoryHistory
from proctor.mining.instruction import Instruction, diff_words, is_new_identifier, make_instruction, scrub
from proctor.mining.issue_writer import IssueWriter
from proctor.mining.issues import FindIssue, find_issue
from proctor.mining.label_runs import BeforeAfterRuns, NoLabels, draft_benchmark, run_before_and_after
from proctor.mining.languages import EnvironmentPlan, SetupFailed, plan_environment, plan_tests
from proctor.mining.leaks import find_copies
from proctor.mining.settings import SETTINGS_FILE, MineOptions, MineSettings
from proctor.mining.split import PathRole
from proctor.mining.task_files import (
    TaskDraft,
    find_licence,
    lay_out_draft,
    project_of,
    protected_patterns,
    task_id_of,
    tree_names,
    write_environment,
    write_instance,
)
from proctor.workspaces import InvalidSubmission
from proctor.workspaces.git import GitFailed

LOGS_FOLDER: Final = "logs"  # beside the drafts: what the tests of dropped candidates printed
_MAX_REASON: Final = 600


class Measures(Record):
    """What one candidate took: not part of the suite."""

    install_seconds: float = 0.0
    truth_seconds: float = 0.0
    proof_seconds: float = 0.0
    test_seconds: float = 0.0
    seconds: float = 0.0
    disk_bytes: int = 0
    environment_bytes: int = 0


class CandidateResult(Record):
    """What became of a candidate; `log` is where it says more about one that was dropped."""

    commit: str
    stage: Stage
    code: str = ""
    reason: str = ""
    task_id: str | None = None
    language: str = ""
    flags: tuple[str, ...] = ()
    environment: str = ""
    log: str = ""
    measures: Measures = Measures()
    schema_version: Literal["proctor.mined_candidate@1"] = "proctor.mined_candidate@1"


class _Dropped(Exception):
    """A candidate that does not become a task."""

    def __init__(self, stage: Stage, code: str, reason: str) -> None:
        super().__init__(reason)
        self.stage = stage
        self.code = code


class TaskMaker:
    """Makes tasks of candidates, in environments of one provider.

    Args:
        history: the repository.
        provider: of the environments.
        scratch: for drafts; each candidate has a folder of its own there.
        options: of mining.
        settings: the repository's own.
        look_up: gives issues; None: instructions are made from messages.
        writer: lets a model write instructions.
    """

    def __init__(
        self,
        history: RepositoryHistory,
        provider: EnvironmentProvider,
        scratch: Path,
        options: MineOptions,
        settings: MineSettings,
        *,
        look_up: FindIssue | None = None,
        writer: IssueWriter | None = None,
    ) -> None:
        self.history = history
        self.provider = provider
        self.options = options
        self.settings = settings
        self.look_up = look_up
        self.writer = writer
        self._scratch = scratch

    def draft_folder(self, candidate: Candidate) -> Path:
        """Where a candidate's draft is; of one that became a task, until it is moved."""
        return self._scratch / task_id_of(self.history.name, candidate)

    async def make(self, candidate: Candidate) -> CandidateResult:
        """Try one candidate.

        Raises:
            RetryableError: a package index, the forge or the model cannot be reached.
            LimitReached: the model's budget is spent.
            InfrastructureError: no space is left on the disk.
        """
        started = time.monotonic()
        attempt = _Attempt(self, candidate)
        folder = self.draft_folder(candidate)
        details: tuple[str, ...] = ()
        try:
            result = await attempt.run(folder)
        except (RetryableError, LimitReached):
            raise
        except (_Dropped, SetupFailed, NoLabels, InvalidSubmission, ProctorError) as error:
            stage, code, reason = _why_dropped(error)
            details = _details(error)
            result = CandidateResult(
                commit=candidate.change.commit,
                stage=stage,
                code=code,
                reason=" ".join(reason.split())[:_MAX_REASON],
                language=candidate.language,
            )
        measures = msgspec.structs.replace(attempt.measures, seconds=round(time.monotonic() - started, 1))
        if result.stage is not Stage.TASK:
            log = await asyncio.to_thread(self._keep_logs, folder, attempt.log, details)
            result = msgspec.structs.replace(result, log=str(log) if log is not None else "")
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        return msgspec.structs.replace(result, measures=measures, environment=attempt.environment)

    def _keep_logs(self, draft: Path, log: Path | None, details: tuple[str, ...]) -> Path | None:
        """What the tests of a dropped candidate printed, moved to where it stays; else what its set-up printed, which
        is in the log or, where it did not come so far, as when an image cannot be built, in the details of the error.
        """
        kept = self._scratch.parent / LOGS_FOLDER / draft.name
        shutil.rmtree(kept, ignore_errors=True)
        for number, file in enumerate(sorted((draft / "artifacts").rglob("logs/*.txt"))):
            kept.mkdir(parents=True, exist_ok=True)
            target = kept / file.name
            file.rename(target if not target.exists() else target.with_name(f"{number}-{file.name}"))
        if kept.is_dir():
            return kept
        if log is not None and not log.is_file():
            if not details:
                return None
            log.write_text("".join(f"{line}\n" for line in details), encoding="utf-8")
        return log


def _details(error: BaseException) -> tuple[str, ...]:
    """What the error that a candidate was dropped for, or the one that led to it, says beside its sentence."""
    found = error if isinstance(error, ProctorError) else error.__cause__
    return tuple(found.details) if isinstance(found, ProctorError) else ()


def _why_dropped(error: Exception) -> tuple[Stage, str, str]:
    """Where a candidate left the funnel: the stage, a code for counting, and the reason."""
    match error:
        case _Dropped():
            return error.stage, error.code, str(error)
        case SetupFailed():
            return Stage.SETUP, error.code, str(error)
        case NoLabels(code="tests-do-not-run"):
            return Stage.TESTS, error.code, _with_hint(str(error), str(error), default="say how they run in [test]")
        case NoLabels():
            return Stage.TESTS, error.code, str(error)
        case GitFailed():
            return Stage.COMMIT, "unreadable", f"git cannot read it: {error.what}"
        case InvalidSubmission():
            return Stage.COMMIT, "patch", f"its diff cannot be applied: {error}"
        case InvalidData():
            return Stage.COMMIT, "tree", error.sentence
        case InfrastructureError():
            return Stage.SETUP, "install", _with_hint(error.what, "\n".join((error.what, *error.details)))
        case ProctorError():
            return Stage.TESTS, "tests-do-not-run", error.sentence
    return Stage.TESTS, "tests-do-not-run", str(error)


def _with_hint(reason: str, printed: str, **default: str) -> str:
    """A reason, cut to its length, with what to put into the settings."""
    hint = f"; in {SETTINGS_FILE}: {setup_hint(printed, **default)}"
    return f"{' '.join(reason.split())[: _MAX_REASON - len(hint)]}{hint}"


class _Attempt:
    """One candidate on its way."""

    def __init__(self, maker: TaskMaker, candidate: Candidate) -> None:
        self.maker = maker
        self.candidate = candidate
        self.measures = Measures()
        self.environment = ""
        self.log: Path | None = None

    async def run(self, folder: Path) -> CandidateResult:
        maker, candidate = self.maker, self.candidate
        draft = await asyncio.to_thread(lay_out_draft, maker.history, candidate, folder)
        tests = await self._plan(draft)
        self._write(draft, tests, Instruction(text="-\n", source="commit-message"))
        benchmark, task = draft_benchmark(draft, maker.provider)
        await self._install(benchmark, task)
        started = time.monotonic()
        runs = await run_before_and_after(benchmark, task, maker.provider, folder, runs=maker.options.runs)
        self._measure(truth_seconds=time.monotonic() - started, test_seconds=runs.seconds)
        tests = msgspec.structs.replace(
            tests,
            fail_to_pass=runs.labels.fail_to_pass,
            pass_to_pass=runs.labels.pass_to_pass,
            excluded=tuple(test.id for test in runs.labels.excluded),
        )
        written = await self._written_issue(draft, runs) if maker.writer is not None else None
        instruction, flags = await asyncio.to_thread(self._describe, draft, runs, written)
        if maker.options.fair and flags:
            raise _Dropped(Stage.PROOF, "unfair", f"flags: {', '.join(flags)}")
        self._write(draft, tests, instruction, flags, runs)
        await asyncio.to_thread(shutil.rmtree, draft.after)
        await self._prove(draft)
        self._measure(disk_bytes=await asyncio.to_thread(disk_bytes, draft.instance))
        return CandidateResult(
            commit=candidate.change.commit,
            stage=Stage.TASK,
            task_id=draft.task_id,
            language=candidate.language,
            flags=flags,
        )

    def _measure(self, **values: float) -> None:
        rounded = {name: value if isinstance(value, int) else round(value, 1) for name, value in values.items()}
        self.measures = msgspec.structs.replace(self.measures, **rounded)

    async def _plan(self, draft: TaskDraft) -> TestsEval:
        maker, candidate = self.maker, self.candidate
        project = await asyncio.to_thread(project_of, draft, candidate, maker.history)
        tests = plan_tests(candidate.language, project, maker.settings)
        started = time.monotonic()

        async def install(plan: EnvironmentPlan) -> Path:
            folder = draft.folder / "resolution"
            path = write_environment(folder, candidate.language, plan)
            installed = installed_environment(
                folder / path, maker.provider.name, in_image=maker.provider.uses_images, image=None
            )
            self.log = installed.log
            await installed.build(maker.provider, draft.after, task_id=draft.task_id)
            return installed.deps

        plan = await plan_environment(
            candidate.language, project, maker.settings, install, in_image=maker.provider.uses_images
        )
        self._measure(install_seconds=time.monotonic() - started)
        self.environment = write_environment(draft.folder, candidate.language, plan)
        return msgspec.structs.replace(tests, hidden_path="hidden", protected=protected_patterns(candidate))

    async def _install(self, benchmark: SuiteBenchmark, task: Task) -> None:
        self.log = benchmark.install_log(task)
        seconds = await benchmark.install(task, self.maker.provider)
        size = 0 if self.log is None else await asyncio.to_thread(disk_bytes, self.log.parent)
        self._measure(install_seconds=self.measures.install_seconds + seconds, environment_bytes=size)

    async def _written_issue(self, draft: TaskDraft, runs: BeforeAfterRuns) -> str:
        maker, change = self.maker, self.candidate.change
        assert maker.writer is not None  # noqa: S101 - the caller has looked
        tests = [path.path for path in self.candidate.split.tests]
        return await maker.writer.write(
            draft.task_id,
            name=maker.history.name,
            note=change.message,
            tests=await asyncio.to_thread(maker.history.diff, change, tests),
            names=runs.labels.fail_to_pass,
            log=runs.failure_log,
        )

    def _describe(
        self, draft: TaskDraft, runs: BeforeAfterRuns, written: str | None
    ) -> tuple[Instruction, tuple[str, ...]]:
        maker, candidate = self.maker, self.candidate
        change, split = candidate.change, candidate.split
        oracle = diff_words(maker.history.diff(change, [path.path for path in split.oracle]))
        source = diff_words(maker.history.diff(change, [path.path for path in split.of(PathRole.SOURCE)]))
        tests = diff_words(maker.history.diff(change, [path.path for path in split.tests]))
        new_names = frozenset(filter(is_new_identifier, source.names)) - tree_names(draft.repo)
        instruction = make_instruction(
            change,
            find_issue(change.message, maker.look_up) if maker.look_up is not None else None,
            oracle,
            fix_only=new_names - tests.names,
            merged=maker.history.merged_messages(change),
        )
        if written is not None:
            instruction = Instruction(text=f"{scrub(written, oracle, ())}\n", source="model")
        if not instruction.text.strip():
            raise _Dropped(Stage.PROOF, "no-instruction", "its message says nothing beyond the change itself")
        flags = find_flags(
            instruction.text,
            oracle,
            tests,
            new_names=new_names,
            lines=split.source_lines,
            files=split.source_files,
            only_loading=set(runs.loaded_only_after) >= set(runs.labels.fail_to_pass),
            by_model=instruction.source == "model",
        )
        return instruction, flags

    def _write(
        self,
        draft: TaskDraft,
        tests: TestsEval,
        instruction: Instruction,
        flags: tuple[str, ...] = (),
        runs: BeforeAfterRuns | None = None,
    ) -> None:
        change, split = self.candidate.change, self.candidate.split
        provenance = Provenance(
            repository=self.maker.history.address,
            commit=change.commit,
            parent=change.parent,
            authored_at=change.authored_at,
            committed_at=change.committed_at,
            subject=change.subject,
            licence=find_licence(draft.repo),
            instruction=instruction.source,  # type: ignore[arg-type]
            issue=instruction.issue,
            flags=flags,
            lines=split.source_lines,
            files=split.source_files,
            loaded_only_after=runs.loaded_only_after if runs else (),
            excluded=runs.labels.excluded if runs else (),
        )
        write_instance(
            draft,
            language=self.candidate.language,
            tests=tests,
            environment_path=self.environment,
            provenance=provenance,
            instruction=instruction.text,
        )

    async def _prove(self, draft: TaskDraft) -> None:
        """Leaks and health, by the same means as `bench validate`."""
        maker, started = self.maker, time.monotonic()
        changed = frozenset(path.path for path in self.candidate.split.oracle)
        oracle = (draft.instance / "oracle.diff").read_bytes()
        copies = await asyncio.to_thread(find_copies, draft.repo, oracle, changed)
        if copies:
            raise _Dropped(Stage.PROOF, "leak", f"the solution appears in {', '.join(copies[:3])}")
        benchmark, task = draft_benchmark(draft, maker.provider)
        options = GradeOptions(determinism_runs=2, controls=maker.options.controls)
        context = GradingContext(
            provider=maker.provider, folder=draft.folder / "artifacts", options=options, use_cache=False
        )
        health = await benchmark.validate(task, context)
        self._measure(proof_seconds=time.monotonic() - started)
        if health.leaks:
            raise _Dropped(Stage.PROOF, "leak", f"the solution can be found: {health.leaks[0]}")
        if not health.healthy:
            raise _Dropped(Stage.PROOF, "not-healthy", "; ".join(health.problems))
        await asyncio.to_thread(shutil.rmtree, draft.folder / "artifacts", ignore_errors=True)
