"""The base class of benchmarks whose submissions are patches and whose tests decide.

A subclass gives its tasks, each with the tree that it starts from, and the plan of their tests. Everything else has a
default: the workspace, the diff that is collected, grading and validation. docs/plugins.md has one in 40 lines.
"""

import asyncio
import dataclasses
import hashlib
import os
import shutil
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from proctor.core import VERSION
from proctor.core.benchmark import Benchmark, GradeOptions, GradingContext, TaskHealth
from proctor.core.disk_names import disk_name
from proctor.core.environment import Environment, EnvironmentRequirement, EnvironmentSpec, Limits
from proctor.core.errors import InvalidData
from proctor.core.evaluation import Prediction, TaskEvaluation
from proctor.core.record import to_json
from proctor.core.task import DirectorySource, ImageSource, Task
from proctor.core.trees import read_entry
from proctor.grading import (
    REPORTER_FORMATS,
    TEST_MACHINERY,
    Expectation,
    GradingJob,
    TestPlan,
    TestRun,
    lay_out,
    plan_requirements,
    pre_patch_problem,
    program_patterns,
    replace_files,
)
from proctor.grading.controls import (
    controlled_tests,
    run_controlled,
)
from proctor.workspaces import BaseTree, InvalidSubmission, base_of, check_out, collect_patch, prove_no_leak

_LIMITS: Final = Limits(memory_mb=4096, processes=512, disk_mb=4096)


class PatchBenchmark(Benchmark):
    """A benchmark of patches: `tasks` and `test_plan` are all that a subclass must have.

    Attributes:
        test_seconds: the wall clock of one test run.
        test_limits: of the environments in which tests run.
        private_dirs: directories of this machine that hold solutions or hidden tests; no environment shows them.
    """

    grader = f"patch/{VERSION}"
    uses_permit = True
    test_seconds: float = 300.0
    test_limits: Limits = _LIMITS
    private_dirs: tuple[Path, ...] = ()

    @abstractmethod
    def test_plan(self, task: Task) -> TestPlan:
        """How the tests of this task are run. Its labels are in the task's private part."""

    def hidden_tests(self, task: Task) -> Path | None:
        """A directory whose files are added to the tree before the tests run; none by default."""
        return None

    def protected(self, task: Task) -> tuple[str, ...]:
        """Patterns, as in .gitignore, of paths that are restored before the tests run.

        By default: what decides the outcome of Python's tests, the tests that the plan names, and what the task names.
        """
        return (*TEST_MACHINERY, *_tested_paths(self.test_plan(task)), *task.private.protected)

    def fingerprint(self, task: Task) -> str:
        """Identifies the starting tree, the tests and their labels; the wording and the oracle are not part of it."""
        source, private, hidden = task.public.source, task.private, self.hidden_tests(task)
        labels = (private.fail_to_pass, private.pass_to_pass, private.protected)
        parts = [to_json(labels), to_json(self.test_plan(task))]
        parts.append(_base(task).commit.encode() if isinstance(source, DirectorySource) else to_json(source))
        if hidden is not None:
            parts.append(base_of(DirectorySource(path=str(hidden))).commit.encode())
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    def environment_spec(self, task: Task, options: GradeOptions) -> EnvironmentSpec:
        """The environment of a test run: isolated, without network."""
        return EnvironmentSpec(
            image=options.image, limits=self.test_limits, hidden=self._hidden_paths, labels={"task": task.id}
        )

    def environment_requirements(self, task: Task) -> Sequence[EnvironmentRequirement]:
        """What starts the tests."""
        return plan_requirements(self.test_plan(task))

    async def prepare(self, task: Task, folder: Path) -> EnvironmentSpec:
        """The starting tree as a git repository that has its past and nothing later."""
        workspace = folder / "workspace"
        await asyncio.to_thread(lambda: check_out(_base(task), workspace))
        return EnvironmentSpec(
            workspace=workspace, network=task.public.network, limits=task.public.limits, hidden=self._hidden_paths
        )

    async def collect(self, task: Task, environment: Environment, folder: Path) -> Prediction:
        """The difference between the workspace and the starting tree."""
        return await collect_patch(task.id, environment, lambda: _base(task), folder)

    async def grade(self, task: Task, prediction: Prediction, context: GradingContext) -> TaskEvaluation:
        """The pre-patch run must fail as labelled; then apply, restore protected files, post-patch runs, verdict."""
        job = self._grading_job(task, context)
        await asyncio.to_thread(job.reset_folder)
        expectation = Expectation(fail_to_pass=task.private.fail_to_pass, pass_to_pass=task.private.pass_to_pass)
        plan, hidden = self.test_plan(task), self.hidden_tests(task)
        async with job.scratch() as scratch:
            base, pristine, tree = scratch / "base", scratch / "pre_patch", scratch / "post_patch"
            await asyncio.to_thread(_lay_out_base, task, base)
            await asyncio.to_thread(lay_out, base, pristine, overlay=hidden)
            programs = _program_patterns(plan, pristine, self.oracle(task))
            job = dataclasses.replace(job, protected=(*programs, *job.protected))
            before = await job.run_tests(plan, pristine, pristine=True)
            pre_patch = await job.save_run("pre_patch", before)
            problem = pre_patch_problem(before, expectation)
            if problem is not None:
                return job.evaluation(prediction, job.ungraded_verdict(*problem), pre_patch=pre_patch)
            try:
                applied = await asyncio.to_thread(job.lay_out_submission, base, prediction, tree)
            except InvalidSubmission as invalid:
                return job.evaluation(
                    prediction, job.ungraded_verdict(invalid.cause, str(invalid)), pre_patch=pre_patch
                )
            oracle, whole = self.oracle(task), scratch / "controls"

            async def run_oracle(files: Mapping[str, bytes], name: str) -> TestRun:
                if not whole.exists() and oracle is not None:
                    await asyncio.to_thread(job.lay_out_submission, base, oracle, whole)
                return await _run_variant(job, plan, whole, files, name)

            ended = await run_controlled(
                await controlled_tests(job, base, expectation, oracle, fingerprint=self.fingerprint(task)),
                partial(_run_variant, job, plan, tree),
                run_oracle,
                before,
                repeats=context.options.determinism_runs or 1,
            )
        post_patch = await job.save_run("post_patch", ended.runs[0])
        verdict = job.verdict(before, ended, applied)
        return job.evaluation(prediction, verdict, pre_patch=pre_patch, post_patch=post_patch)

    async def validate(self, task: Task, context: GradingContext) -> TaskHealth:
        """As every benchmark; and the agent cannot find the oracle in its workspace."""
        health = await super().validate(task, context)
        leaks = await asyncio.to_thread(self._leaks, task)
        return msgspec.structs.replace(health, leaks=leaks, healthy=health.healthy and not leaks)

    def _leaks(self, task: Task) -> tuple[str, ...]:
        oracle = self.oracle(task)
        if oracle is None:
            return ()
        base = _base(task)
        with tempfile.TemporaryDirectory(prefix="proctor-leaks-") as scratch:
            workspace = Path(scratch, "workspace")
            check_out(base, workspace)
            proof = prove_no_leak(oracle.content, workspace, commit=base.commit, kind=oracle.patch_kind)
        return proof.descriptions

    @property
    def _hidden_paths(self) -> tuple[str, ...]:
        return tuple(map(str, self.private_dirs))

    def _grading_job(self, task: Task, context: GradingContext) -> GradingJob:
        return GradingJob(
            task_id=task.id,
            grader=self.grader,
            context=context,
            folder=context.folder / disk_name(task.id),
            spec=self.environment_spec(task, context.options),
            timeout=context.options.timeout_seconds or self.test_seconds,
            protected=self.protected(task),
            overlay=self.hidden_tests(task),
            tags=task.tags,
        )


def _base(task: Task) -> BaseTree:
    if isinstance(task.public.source, ImageSource):
        raise InvalidData("a patch needs a directory or a repository to start from, not an image", where=task.id)
    return base_of(task.public.source)


def _tested_paths(plan: TestPlan) -> tuple[str, ...]:
    """Patterns of the files that our reporter looks for tests in; a command's tests are only known to the task."""
    if plan.format not in REPORTER_FORMATS:
        return ()
    targets = [target.partition("::")[0].removeprefix("./").rstrip("/") for target in plan.targets]
    if not targets or "." in targets:
        return (plan.pattern, "test_*.py", "*_test.py")
    # A target of unittest may be a dotted name, of a module or of something in it.
    modules = [target.split(".") for target in targets if "/" not in target]
    files = [f"/{'/'.join(parts[:depth])}.py" for parts in modules for depth in range(1, len(parts) + 1)]
    return (*(f"/{target}" for target in targets), *files)


def _program_patterns(plan: TestPlan, tree: Path, oracle: Prediction | None) -> tuple[str, ...]:
    """What the test command executes, besides what `protected` names."""

    def read(path: str) -> bytes | None:
        entry = read_entry(tree, os.fsencode(path))
        return entry.data if entry is not None else None

    return () if oracle is None else program_patterns(plan.command, read, oracle.content, oracle.patch_kind)


def _lay_out_base(task: Task, tree: Path) -> None:
    """The files that the agent starts from, without their past, which tests need not see."""
    check_out(_base(task), tree)
    shutil.rmtree(tree / ".git")


async def _run_variant(job: GradingJob, plan: TestPlan, tree: Path, files: Mapping[str, bytes], name: str) -> TestRun:
    replace_files(tree, files)
    ended = await job.run_tests(plan, tree)
    await job.save_run(name, ended)
    return ended
