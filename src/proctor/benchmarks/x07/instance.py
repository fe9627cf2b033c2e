"""The kind of suite instances that are graded by `x07 test`: their files, their audit, repair and tests."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

from proctor.benchmarks.suites.instance import Instance, TestStepResult
from proctor.benchmarks.x07.audit import x07_findings
from proctor.benchmarks.x07.files import PREDICTION_SCHEMA, SUITE_SCHEMA, X07InstanceFile, X07SuiteFile
from proctor.benchmarks.x07.repair import canonicalise, repair, with_first_pass
from proctor.benchmarks.x07.test_command import X07Failure, run_x07_test
from proctor.benchmarks.x07.toolchain import find_toolchain, find_x07
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.environment import Environment, Mount
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.core.evaluation import TestSummary
from proctor.core.programs import ProgramRequirement
from proctor.core.verdict import Finding
from proctor.grading import GradingJob, InconclusiveKind, InconclusiveRun, TestResults, TestRun, over_limit, summarise
from proctor.workspaces import InvalidSubmission, TreeChange

_ARTIFACT_NAMES: Final = {"pre_patch": "baseline", "post_patch": "after_patch"}
"""What x07's harness calls the artifacts of our runs."""


class X07Instance(Instance):
    """One instance with ``"kind": "x07test"``."""

    file_type = X07InstanceFile
    suite_schema = SUITE_SCHEMA
    suite_type = X07SuiteFile
    prediction_schema = PREDICTION_SCHEMA
    exit_zero = True

    file: X07InstanceFile

    @property
    def protected(self) -> tuple[str, ...]:
        """The files that decide which tests run and what is expected of them."""
        tests = self.file.eval
        return (f"/{tests.manifest}", f"/{tests.stdlib_lock}")

    @property
    def tolerated_problems(self) -> frozenset[str]:
        """x07 accepts another id and a missing statement, so its suites may have them."""
        is_x07s = self.file.schema_version.startswith("x07.")
        return frozenset({"$.instance_id", "$.problem_statement_path"} if is_x07s else ())

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The toolchain of this machine."""
        return find_toolchain().mounts

    @classmethod
    def requirements(cls) -> tuple[ProgramRequirement, ...]:
        """The toolchain."""
        needed_for = "suites whose tests are x07 programs"
        remedy = "install the x07 toolchain and put it on PATH, or set X07_BIN"
        return (ProgramRequirement(name="x07", location=find_x07(), needed_for=needed_for, remedy=remedy),)

    def findings(self, change: TreeChange) -> tuple[Finding, ...]:
        """Modules that lost assertions."""
        return x07_findings(change)

    async def run_tests(
        self,
        job: GradingJob,
        tree: Path,
        name: str,
        *,
        touched: tuple[str, ...] | None,
        permit: AbstractAsyncContextManager[object],
    ) -> TestStepResult:
        """Let x07's linter repair what the submission touched, and run `x07 test`, in one environment."""
        step, _, rerun = name.partition(".")
        artifact = ".".join(filter(None, (_ARTIFACT_NAMES.get(step, step), rerun)))
        try:
            async with permit, await job.start(tree) as environment:
                # x07's tools are given files; of what the submission deleted or renamed, none is left.
                left = None if touched is None else tuple(path for path in touched if _is_there(tree / path))
                return await self._repair_and_test(job, environment, artifact, left)
        except LimitReached as limit:
            # What reaches a limit only after the patch came with the submission.
            if touched is None:
                raise
            run = over_limit(limit)
            return TestStepResult(run=run, summary=summarise(run))

    async def _repair_and_test(
        self, job: GradingJob, environment: Environment, name: str, touched: tuple[str, ...] | None
    ) -> TestStepResult:
        x07, tests, options = find_toolchain(), self.file.eval, job.context.options
        repaired = None
        if touched is not None:
            invalid = await canonicalise(environment, x07, touched)
            if invalid:
                file, error = next(iter(invalid.items()))
                raise InvalidSubmission(Cause.MALFORMED_SUBMISSION, f"not x07AST after the patch: {error}", where=file)
            repaired = await repair(
                environment,
                x07,
                tests,
                touched,
                mode=options.repair,
                world=self.file.world,
                pristine=self.repo,
                artifacts=job.folder,
                max_iters=options.repair_max_iters,
                test_timeout=job.timeout,
                jobs=options.jobs_inside,
            )
        result = await run_x07_test(
            environment,
            x07,
            tests,
            pristine=self.repo,
            name=name,
            artifacts=job.folder,
            patched=touched is not None,
            timeout=job.timeout,
            jobs=options.jobs_inside,
        )
        if isinstance(result, X07Failure):
            summary = result.summary or TestSummary(ok=False, exit_code=result.exit_code)
            return TestStepResult(run=_inconclusive(result), summary=summary)
        summary = result.summary
        run = TestRun(outcome=TestResults(tests=result.statuses), exit_code=result.exit_code, seconds=summary.seconds)
        return TestStepResult(run=run, summary=summary, repair=with_first_pass(repaired, summary))


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _inconclusive(failure: X07Failure) -> TestRun:
    """A run without results, if the submission is the reason.

    Raises:
        InfrastructureError: it is not.
    """
    if CONSEQUENCES[failure.cause].status is Status.ERROR:
        raise InfrastructureError(f"E_BENCH_X07TEST_NO_REPORT: {failure.reason}", cause=failure.cause)
    kind = InconclusiveKind.TIMED_OUT if failure.cause is Cause.TEST_TIMEOUT else InconclusiveKind.NO_REPORT
    return TestRun(outcome=InconclusiveRun(kind=kind, reason=failure.reason), exit_code=failure.exit_code or 1)
