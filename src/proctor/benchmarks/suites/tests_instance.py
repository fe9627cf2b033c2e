"""Instances whose tests are any command with a result format, or are run by our reporter."""

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Final

from proctor.benchmarks.suites.format import TestsInstanceFile
from proctor.benchmarks.suites.instance import Instance, TestStepResult
from proctor.core.causes import Cause
from proctor.core.environment import Environment
from proctor.core.errors import InfrastructureError, LimitReached
from proctor.grading import (
    REPORTER_FORMATS,
    TEST_MACHINERY,
    GradingJob,
    InconclusiveKind,
    InconclusiveRun,
    TestFormat,
    TestPlan,
    TestRun,
    over_limit,
    restore_protected,
)

SETUP_SECONDS: Final = 600.0
_FIRST_MISSING: Final = 'for name; do command -v "$name" >/dev/null || { echo "$name"; exit 1; }; done'


class TestsInstance(Instance):
    """One instance with ``"kind": "tests"``."""

    __test__ = False
    file_type = TestsInstanceFile

    file: TestsInstanceFile

    @property
    def hidden(self) -> Path | None:
        """The folder that `eval.hidden_path` names."""
        hidden = self.file.eval.hidden_path
        return self.path.parent / hidden if hidden else None

    @property
    def protected(self) -> tuple[str, ...]:
        """Test machinery, and what the instance names."""
        return (*TEST_MACHINERY, *self.file.eval.protected)

    @property
    def timeout_seconds(self) -> float | None:
        """As the instance says."""
        return self.file.eval.timeout_seconds

    def problems(self) -> Iterator[tuple[str, str]]:
        """Fields that depend on each other, and folders that must be there."""
        tests = self.file.eval
        if self.hidden is not None and not self.hidden.is_dir():
            yield ("$.eval.hidden_path", f"there is no folder {tests.hidden_path}")
        if tests.format in REPORTER_FORMATS:
            if tests.command:
                yield ("$.eval.command", f"our reporter runs {tests.format}; `arguments` says what")
        elif not tests.command:
            yield ("$.eval.command", f"the format {tests.format} needs a command")
        elif tests.arguments:
            yield ("$.eval.arguments", "only pytest and unittest take arguments")
        elif tests.format == "junit" and not any("{report}" in word for word in tests.command):
            yield ("$.eval.command", "junit needs `{report}` where the report is to be written")

    async def run_tests(
        self,
        job: GradingJob,
        tree: Path,
        name: str,
        *,
        touched: tuple[str, ...] | None,
        permit: AbstractAsyncContextManager[object],
    ) -> TestStepResult:
        """Set up, where the instance asks for it, and run the tests in an environment of their own."""
        pristine = touched is None
        if self.file.eval.setup or (pristine and self.file.requires):
            async with permit:
                run = await self._set_up_and_run(job, tree, pristine=pristine)
        else:
            run = await job.run_tests(self._plan(), tree, pristine=pristine, permit=permit)
        return TestStepResult(run=run, summary=await job.save_run(name, run))

    async def _set_up_and_run(self, job: GradingJob, tree: Path, *, pristine: bool) -> TestRun:
        with tempfile.TemporaryDirectory(prefix="proctor-setup-") as folder:
            ready = tree
            try:
                async with await job.start(tree) as environment:
                    if pristine:
                        await _check_programs(environment, self.file.requires)
                    failed = await self._set_up(environment)
                    if failed is not None:
                        return failed
                    if self.file.eval.setup:
                        ready = Path(folder) / "tree"
                        await environment.get(environment.workdir, ready)
            except LimitReached as limit:
                if pristine:
                    raise
                return over_limit(limit)
            if ready is not tree:
                # What ran there may have been the submission's own code: none of it is left running, and the tests are
                # restored.
                await asyncio.to_thread(restore_protected, tree, ready, protected=self.protected, overlay=self.hidden)
            return await job.run_tests(self._plan(), ready, pristine=pristine, permit=nullcontext())

    def _plan(self) -> TestPlan:
        tests = self.file.eval
        return TestPlan(
            format=TestFormat(tests.format), targets=tests.arguments, command=tests.command, variables=tests.variables
        )

    async def _set_up(self, environment: Environment) -> TestRun | None:
        """Run the instance's own preparations; None when all of them succeeded."""
        for command in self.file.eval.setup:
            done = await environment.exec(command, timeout=SETUP_SECONDS, variables=self.file.eval.variables)
            if done.exit_code != 0:
                reason = f"setting up failed: `{' '.join(command)}` ended with exit code {done.exit_code}"
                return TestRun(
                    outcome=InconclusiveRun(kind=InconclusiveKind.NOT_STARTED, reason=reason),
                    exit_code=done.exit_code,
                    log=done.stdout + done.stderr,
                )
        return None


async def _check_programs(environment: Environment, programs: tuple[str, ...]) -> None:
    """See that the environment has what the instance requires.

    Raises:
        InfrastructureError: a program is missing, so the instance cannot be run here.
    """
    if not programs:
        return
    done = await environment.exec(["sh", "-c", _FIRST_MISSING, "sh", *programs], timeout=SETUP_SECONDS)
    if done.exit_code != 0:
        name = done.stdout.decode(errors="replace").strip()
        raise InfrastructureError(
            f"it needs {name}, which the environment does not have",
            fix=f"install {name} where environments see it, or choose an image that has it",
            cause=Cause.NOT_RUNNABLE_HERE,
        )
