"""Instances whose tests are any command with a result format, or are run by our reporter."""

import asyncio
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from pathlib import Path
from typing import Final

from proctor.benchmarks.suites.format import DEPS_DIR, ENVIRONMENT_FILE, TestsInstanceFile
from proctor.benchmarks.suites.instance import Instance, TestStepResult
from proctor.core.environment import (
    Environment,
    EnvironmentRequirement,
    EnvironmentSpec,
    find_missing_requirements,
    get_tree,
)
from proctor.core.errors import LimitReached
from proctor.core.trees import file_paths, read_entry
from proctor.grading import (
    REPORTER_FORMATS,
    TEST_MACHINERY,
    ConfigFile,
    GradingJob,
    InconclusiveKind,
    InconclusiveRun,
    TestFormat,
    TestPlan,
    TestRun,
    bare_program,
    over_limit,
    plan_requirements,
    program_patterns,
    restore_protected,
    without_tests,
)

SETUP_SECONDS: Final = 600.0


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
        """Test machinery, what the test command executes, and what the instance names."""
        return (*TEST_MACHINERY, *self._program_patterns, *self.file.eval.protected)

    @property
    def _program_patterns(self) -> tuple[str, ...]:
        oracle, command = self.file.oracle, self.file.eval.command
        if oracle is None or self.oracle is None or not command or not self.oracle.is_file():
            return ()
        return program_patterns(command, self._read_tested, self.oracle.read_bytes(), oracle.patch_kind)

    def _read_tested(self, path: str) -> bytes | None:
        """A file of the tree that the tests run on."""
        for root in filter(None, (self.hidden, self.repo)):
            entry = read_entry(root, os.fsencode(path))
            if entry is not None:
                return entry.data
        return None

    @property
    def environment(self) -> Path | None:
        """The folder of what its tests need installed; paths are the suite's, whose file is above `instances`."""
        named = self.file.environment_path
        if named is None:
            return None
        return next((up / named for up in self.path.parents if (up / named / ENVIRONMENT_FILE).is_file()), None)

    @property
    def created(self) -> str | None:
        """The day of the change that it was made from."""
        return self.file.created

    @property
    def timeout_seconds(self) -> float | None:
        """As the instance says."""
        return self.file.eval.timeout_seconds

    @property
    def environment_requirements(self) -> tuple[EnvironmentRequirement, ...]:
        """What the instance says it requires, and the program that runs its tests."""
        return tuple(dict.fromkeys((*super().environment_requirements, *self._test_programs)))

    @property
    def _test_programs(self) -> tuple[EnvironmentRequirement, ...]:
        """What the tests, or the preparations for them, are started with, but for what the tree brings."""
        setup = self.file.eval.setup
        if self.environment is not None:
            return ()  # it is built when it is first needed, and brings them
        if setup:
            return bare_program(setup[0])  # it may bring the others
        brings_pytest = any(
            (tree / name).exists() for tree in (self.repo, self.hidden) if tree for name in ("pytest", "pytest.py")
        )
        plan = self._plan()
        return tuple(one for one in plan_requirements(plan) if not brings_pytest or one.command[0] != plan.python)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Fields that depend on each other, and folders that must be there."""
        tests = self.file.eval
        if self.file.environment_path is not None and self.environment is None:
            yield ("$.environment_path", f"there is no {self.file.environment_path}/{ENVIRONMENT_FILE} in the suite")
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
        if any(mount.target == DEPS_DIR for mount in job.spec.mounts):
            await asyncio.to_thread(add_installed_files, job.spec, tree)
        async with AsyncExitStack() as stack:
            failed = None
            if self.file.eval.setup or (pristine and self.file.requires):
                await stack.enter_async_context(permit)
                permit = nullcontext()
                set_up = tree.with_name(f"{name}.set_up")
                stack.push_async_callback(asyncio.to_thread, shutil.rmtree, set_up, ignore_errors=True)
                failed = await self._set_up(job, tree, set_up, pristine=pristine)
                tree = set_up if set_up.exists() else tree
            run = failed or await job.run_tests(self._plan(), tree, pristine=pristine, permit=permit)
            run = without_tests(run, self.file.eval.excluded)
        return TestStepResult(run=run, summary=await job.save_run(name, run))

    async def _set_up(self, job: GradingJob, tree: Path, target: Path, *, pristine: bool) -> TestRun | None:
        """Check what the instance requires, and run its preparations, whose tree is then `target`.

        Gives the run that failed with them; None when all succeeded.
        """
        try:
            async with await job.start(tree) as environment:
                if pristine:
                    await _check_requirements(environment, super().environment_requirements)
                if not self.file.eval.setup:
                    return None
                failed = await self._run_preparations(environment)
                if failed is not None:
                    return failed
                await get_tree(environment, environment.workdir, target)
        except LimitReached as limit:
            if pristine:
                raise
            return over_limit(limit)
        # The submission's own code may have run there: none of it is left running, and the tests are restored.
        await asyncio.to_thread(restore_protected, tree, target, protected=self.protected, overlay=self.hidden)
        return None

    def _plan(self) -> TestPlan:
        tests = self.file.eval
        return TestPlan(
            format=TestFormat(tests.format),
            targets=tests.arguments,
            command=tests.command,
            variables=tests.variables,
            python=tests.python or "python3",
            paths=tests.paths,
            config=self._config(),
            autoload=tests.autoload,
            options=tests.options,
            services=tests.services,
        )

    def _config(self) -> ConfigFile | None:
        """What configures pytest, as the pristine tree has it."""
        path = self.file.eval.config_path
        data = self._read_tested(path) if path is not None else None
        return None if path is None or data is None else ConfigFile(name=path, text=data.decode("utf-8", "replace"))

    async def _run_preparations(self, environment: Environment) -> TestRun | None:
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


def add_installed_files(spec: EnvironmentSpec, tree: Path) -> None:
    """Add what was made in the tree when the project was installed, such as a file with its version."""
    for mount in spec.mounts:
        made = Path(mount.source) / "tree"
        if mount.target == DEPS_DIR and made.is_dir():
            for path in file_paths(made):
                target = tree / os.fsdecode(path)
                if not os.path.lexists(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(made / os.fsdecode(path), target)


async def _check_requirements(environment: Environment, requirements: Sequence[EnvironmentRequirement]) -> None:
    """See that the environment has what the instance requires.

    Raises:
        InfrastructureError: a program is missing, so the instance cannot be run here.
    """
    for missing in await find_missing_requirements(environment, requirements) if requirements else ():
        raise missing.missing_error()
