"""One run of an instance's tests in a room of its own, and what is kept of it."""

import asyncio
import tempfile
from collections import Counter
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.suites.format import RepairMode, TestsEval, X07Eval
from proctor.benchmarks.suites.layout import protected_patterns
from proctor.benchmarks.suites.load import Instance, Suite, shipped_root
from proctor.benchmarks.x07.repair import canonicalise, repair, with_first_pass
from proctor.benchmarks.x07.toolchain import Toolchain, X07Failure, find_toolchain, run_x07_test
from proctor.core.benchmark import GradeOptions, GradingContext
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import Environment, EnvironmentSpec, Limits
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.evaluation import RepairSummary, TestSummary
from proctor.core.record import Record, to_json
from proctor.core.verdict import TestStatus
from proctor.grading import (
    Expectation,
    InconclusiveKind,
    InconclusiveRun,
    TestFormat,
    TestPlan,
    TestResults,
    TestRun,
    restore_protected,
    run_tests_in_new_environment,
)
from proctor.workspaces import InvalidSubmission

TEST_SECONDS: Final = 300.0
SETUP_SECONDS: Final = 600.0
LOG_BYTES: Final = 4_000_000
INLINE_WRITE_BYTES: Final = 100_000  # writing this little takes less time than finding a thread for it
_KILLED: Final = 137  # what a shell says of a command that was killed
TEST_LIMITS: Final = Limits(memory_mb=4096, processes=512, disk_mb=4096)


class TestStepResult(Record):
    """A test run, its numbers, and what a linter mended before it."""

    run: TestRun
    summary: TestSummary
    repair: RepairSummary | None = None


@dataclass(frozen=True, slots=True)
class SuiteGradingJob:
    """One instance on the bench: what is graded, where, and the folder for its artifacts."""

    suite: Suite
    instance: Instance
    fingerprint: str
    context: GradingContext
    folder: Path

    @property
    def expectation(self) -> Expectation:
        """What the labels ask for; x07's rule asks for exit code 0 as well."""
        tests = self.instance.file.eval
        return Expectation(
            fail_to_pass=tests.fail_to_pass,
            pass_to_pass=tests.pass_to_pass,
            exit_zero=isinstance(tests, X07Eval),
        )

    @property
    def timeout(self) -> float:
        """The wall clock of one test run."""
        tests = self.instance.file.eval
        own = tests.timeout_seconds if isinstance(tests, TestsEval) else None
        return self.context.options.timeout_seconds or own or TEST_SECONDS

    @property
    def spec(self) -> EnvironmentSpec:
        """The room of a test run, but for its tree."""
        return environment_spec(self.suite, self.instance, self.context.options)


def environment_spec(suite: Suite, instance: Instance, options: GradeOptions) -> EnvironmentSpec:
    """The room of a test run, but for its tree.

    Raises:
        InfrastructureError: it needs a program that this machine does not have.
    """
    return EnvironmentSpec(
        image=options.image or instance.file.image,
        limits=TEST_LIMITS,
        mounts=_toolchain().mounts if isinstance(instance.file.eval, X07Eval) else (),
        hidden=hidden_folders(suite.path),
        labels={"suite": suite.id, "task": instance.id},
    )


def hidden_folders(suite: Path) -> tuple[str, ...]:
    """Where answers lie on this machine: the suite's own folder, and the suites that ship with Proctor."""
    return (str(suite.parent), str(shipped_root()))


def _toolchain() -> Toolchain:
    found = find_toolchain()
    if isinstance(found, X07Failure):
        raise InfrastructureError(found.reason, cause=found.cause)
    return found


async def run_step(
    job: SuiteGradingJob,
    tree: Path,
    name: str,
    *,
    touched: tuple[str, ...] | None = None,
    permit: AbstractAsyncContextManager[object] | None = None,
) -> TestStepResult:
    """Run the tests on `tree` once. `touched` are the paths that a submission changed; None: none is in place.

    Whatever is run is run within `turn`, or the place's.

    Raises:
        InfrastructureError: the room, or the test program, failed in a way that says nothing about the submission.
        UnfitSubmission: what the submission left is not what the test program can read.
    """
    tests = job.instance.file.eval
    permit = permit or job.context.permit
    try:
        if isinstance(tests, X07Eval):
            async with permit, await _start_environment(job, tree) as room:
                return await _x07_step(job, tests, room, name, touched)
        run = await _run_suite_tests(job, tests, tree, is_pristine=touched is None, permit=permit)
    except LimitReached as limit:
        # The pristine tree stays within a room's limits, or has no verdict to give; what reaches them now came with
        # the submission, and must not count as an error of ours.
        if touched is None:
            raise
        run = TestRun(outcome=InconclusiveRun(kind=InconclusiveKind.CUT_SHORT, reason=str(limit)), exit_code=_KILLED)
    summary = _summary(run, report=f"{name}.tests.json")
    if len(run.log) < INLINE_WRITE_BYTES:
        _save_run(job.folder, name, run)
    else:
        await asyncio.to_thread(_save_run, job.folder, name, run)
    return TestStepResult(run=run, summary=summary)


async def _start_environment(job: SuiteGradingJob, tree: Path) -> Environment:
    return await job.context.provider.start(msgspec.structs.replace(job.spec, workspace=tree))


async def _run_suite_tests(
    job: SuiteGradingJob,
    tests: TestsEval,
    tree: Path,
    *,
    is_pristine: bool,
    permit: AbstractAsyncContextManager[object],
) -> TestRun:
    needed = job.instance.file.requires if is_pristine else ()
    if not tests.setup and not needed:
        return await _run_plan(job, tests, tree, permit)
    async with permit:
        return await _set_up_and_run_plan(job, tests, tree, needed)


async def _set_up_and_run_plan(job: SuiteGradingJob, tests: TestsEval, tree: Path, needed: tuple[str, ...]) -> TestRun:
    if not tests.setup:
        async with await _start_environment(job, tree) as room:
            await _check_programs(room, needed)
        return await _run_plan(job, tests, tree)
    with tempfile.TemporaryDirectory(prefix="proctor-setup-") as folder:
        ready = Path(folder) / "tree"
        async with await _start_environment(job, tree) as room:
            await _check_programs(room, needed)
            failed = await _set_up(room, tests)
            if failed is not None:
                return failed
            await room.get(room.workdir, ready)
        # What was run there may have been the submission's own: nothing of it is left running, and the tests are put
        # back to what they were.
        patterns = protected_patterns(job.instance)
        await asyncio.to_thread(restore_protected, tree, ready, protected=patterns, overlay=job.instance.hidden)
        return await _run_plan(job, tests, ready)


async def _run_plan(
    job: SuiteGradingJob, tests: TestsEval, tree: Path, permit: AbstractAsyncContextManager[object] | None = None
) -> TestRun:
    room = msgspec.structs.replace(job.spec, workspace=tree)
    return await run_tests_in_new_environment(
        job.context.provider, room, _plan(tests), timeout=job.timeout, permit=permit
    )


def _plan(tests: TestsEval) -> TestPlan:
    return TestPlan(
        format=TestFormat(tests.format), targets=tests.arguments, command=tests.command, variables=tests.variables
    )


async def _check_programs(environment: Environment, programs: tuple[str, ...]) -> None:
    """See that the room has what the instance says it needs.

    Raises:
        InfrastructureError: it lacks one, so the instance cannot be run here.
    """
    if not programs:
        return
    missing = 'for name; do command -v "$name" >/dev/null || { echo "$name"; exit 1; }; done'
    done = await environment.exec(["sh", "-c", missing, "sh", *programs], timeout=SETUP_SECONDS)
    if done.exit_code != 0:
        name = done.stdout.decode(errors="replace").strip()
        raise InfrastructureError(
            f"it needs {name}, which the room does not have",
            fix=f"install {name} where rooms see it, or choose an image that has it",
            cause=Cause.NOT_RUNNABLE_HERE,
        )


async def _set_up(environment: Environment, tests: TestsEval) -> TestRun | None:
    """Run the instance's own preparations; None when all went well."""
    for command in tests.setup:
        done = await environment.exec(command, timeout=SETUP_SECONDS, variables=tests.variables)
        if done.exit_code != 0:
            reason = f"setting up failed: `{' '.join(command)}` ended with exit code {done.exit_code}"
            return TestRun(
                outcome=InconclusiveRun(kind=InconclusiveKind.NOT_STARTED, reason=reason),
                exit_code=done.exit_code,
                log=done.stdout + done.stderr,
            )
    return None


async def _x07_step(
    job: SuiteGradingJob, tests: X07Eval, environment: Environment, name: str, touched: tuple[str, ...] | None
) -> TestStepResult:
    x07, options = _toolchain(), job.context.options
    repaired = None
    if touched is not None:
        broken = await canonicalise(environment, x07, touched)
        if broken:
            file, said = next(iter(broken.items()))
            raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, f"not x07AST after the patch: {said}", where=file)
        repaired = await repair(
            environment,
            x07,
            tests,
            touched,
            mode=RepairMode(options.repair),
            world=job.instance.file.world,
            pristine=job.instance.repo,
            artifacts=job.folder,
            max_iters=options.repair_max_iters,
            test_timeout=job.timeout,
            jobs=options.jobs_inside,
        )
    ended = await run_x07_test(
        environment,
        x07,
        tests,
        pristine=job.instance.repo,
        name=name,
        artifacts=job.folder,
        patched=touched is not None,
        timeout=job.timeout,
        jobs=options.jobs_inside,
    )
    if isinstance(ended, X07Failure):
        return TestStepResult(
            run=_run_of_failure(ended), summary=ended.summary or TestSummary(ok=False, exit_code=ended.exit_code)
        )
    run = TestRun(outcome=TestResults(tests=ended.statuses), exit_code=ended.exit_code, seconds=ended.summary.seconds)
    return TestStepResult(run=run, summary=ended.summary, repair=with_first_pass(repaired, ended.summary))


def _run_of_failure(failure: X07Failure) -> TestRun:
    """A run without results, if that is the submission's doing.

    Raises:
        InfrastructureError: it is not.
    """
    if CONSEQUENCES[failure.cause].status is Status.ERROR:
        raise InfrastructureError(f"E_BENCH_X07TEST_NO_REPORT: {failure.reason}", cause=failure.cause)
    trouble = InconclusiveKind.TIMED_OUT if failure.cause is Cause.TEST_TIMEOUT else InconclusiveKind.NO_REPORT
    return TestRun(outcome=InconclusiveRun(kind=trouble, reason=failure.reason), exit_code=failure.exit_code or 1)


def _summary(run: TestRun, *, report: str) -> TestSummary:
    counts = Counter(run.tests.values())
    broken = len(run.outcome.broken) if isinstance(run.outcome, TestResults) else 0
    return TestSummary(
        ok=run.complete and run.exit_code == 0,
        exit_code=run.exit_code,
        passed=counts[TestStatus.PASSED] + counts[TestStatus.XFAILED],
        failed=counts[TestStatus.FAILED] + counts[TestStatus.XPASSED],
        skipped=counts[TestStatus.SKIPPED],
        errors=counts[TestStatus.ERROR] + broken,
        seconds=round(run.seconds, 3),
        report=report,
    )


def _save_run(folder: Path, name: str, run: TestRun) -> None:
    """Keep results and output apart: one is for programs, the other for people."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    (folder / "logs" / f"{name}.txt").write_bytes(_shortened(run.log))
    (folder / f"{name}.tests.json").write_bytes(to_json(msgspec.structs.replace(run, log=b"")))


def _shortened(log: bytes) -> bytes:
    """The two ends of a log: many tasks may print without end, and the disk has one."""
    if len(log) <= LOG_BYTES:
        return log
    half = LOG_BYTES // 2
    return log[:half] + b"\n[%d bytes left out]\n" % (len(log) - 2 * half) + log[-half:]
