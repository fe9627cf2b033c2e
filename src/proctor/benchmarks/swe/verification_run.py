"""A verification run for every submission that would be resolved: its tests again, unaltered and altered.

The official rule reads what a test program prints, so a program under test may print it. So the tests that decide are
run by our own reporter, where it can run them, in fresh environments, with test files and test program that nothing
can change, and with variants of altered tests (docs/grading.md). Where our reporter cannot run them, the variants are
given by the official script: a program that prints passes prints them for altered tests too. What the oracle does in
the same run says which labels count.
"""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic

import msgspec

from proctor.benchmarks.swe.environment_steps import SweTestRun, apply_in_environment, put_variant, run_bash
from proctor.benchmarks.swe.grading_job import SweGradingJob
from proctor.benchmarks.swe.official_grader import SweSubmission
from proctor.benchmarks.swe.patches import touched_paths, with_final_newline
from proctor.benchmarks.swe.reporter_step import ReporterStep, reporter_step
from proctor.benchmarks.swe.reverse_diff import reversed_diff
from proctor.benchmarks.swe.rows import FeatureBenchRow, R, SweEvoRow
from proctor.benchmarks.swe.tasks import row_fingerprint
from proctor.core.environment import Environment
from proctor.core.errors import LimitReached
from proctor.core.record import Record
from proctor.core.submission import PatchKind
from proctor.core.trees import EXECUTABLE, FILE, LINK, FileEntry, read_entry, write_entry
from proctor.core.verdict import TestStatus
from proctor.grading import (
    Expectation,
    InconclusiveKind,
    InconclusiveRun,
    TestFormat,
    TestPlan,
    TestResults,
    TestRun,
    over_limit,
    pytest_config,
    run_tests,
)
from proctor.grading.controls import (
    ControlledRun,
    ControlledTests,
    ControlSet,
    find_or_prove,
    run_controlled,
)
from proctor.results.cache import RecordCache, cache_key
from proctor.workspaces import InvalidSubmission, apply_patch

VERSION: Final = "swe-witness/1"
PASSING: Final = (TestStatus.PASSED, TestStatus.XFAILED)
STATUSES: Final = {
    "PASSED": TestStatus.PASSED,
    "FAILED": TestStatus.FAILED,
    "ERROR": TestStatus.ERROR,
    "SKIPPED": TestStatus.SKIPPED,
    "XFAIL": TestStatus.XFAILED,
}
_PYTHON_FILE: Final = "/tmp/proctor-python"  # noqa: S108 - inside an environment of our own
_VARIABLES_FILE: Final = "/tmp/proctor-variables"  # noqa: S108 - as above
_MAX_SOURCES: Final = 200_000_000
_SHELL_VARIABLES: Final = frozenset({"_", "OLDPWD", "PWD", "SHLVL"})
_APPLY_COMMANDS: Final = (
    "git apply --verbose",
    "git apply --verbose --3way",
    "git apply --verbose --reject",
    "patch --batch --forward --fuzz=5 -p1 -i",
)
_PYTEST_CONFIGS: Final = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)


class OracleVerification(Record):
    """What the oracle does in the verification run.

    Attributes:
        by_reporter: our reporter runs the tests; otherwise the official script does.
        fail_to_pass, pass_to_pass: the labels that it passes.
        tampered: parts of the test machinery that change without anybody's bad intent.
    """

    by_reporter: bool
    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    tampered: tuple[str, ...] = ()


class TestSources(Record):
    """The files that decide, as they are when tests run: those of the test patch, and the test program's.

    `configs`: those that may configure pytest, as they are before anything is applied.
    """

    __test__ = False

    tests: dict[str, bytes]
    program: dict[str, FileEntry]
    configs: dict[str, bytes]

    def with_variant(self, variant: Mapping[str, bytes]) -> "TestSources":
        """The same with some test files altered."""
        return msgspec.structs.replace(self, tests={**self.tests, **variant})


async def check_submission(job: SweGradingJob[R], patch: bytes) -> ControlledRun | None:
    """Verify a submission that would be resolved; None where no verification run sees the oracle solve the task."""
    tests = await _VerificationRun.make(job)
    return None if tests is None else await tests.check(patch)


async def make_controls(job: SweGradingJob[R]) -> ControlSet | None:
    """The control set of an instance, proved with its oracle; None as above."""
    tests = await _VerificationRun.make(job)
    return None if tests is None else await find_or_prove(tests.controlled_tests(), tests.run_oracle, None)


@dataclass(frozen=True, slots=True)
class _VerificationRun(Generic[R]):
    """One instance in the verification run; `key` identifies it for caches."""

    job: SweGradingJob[R]
    step: ReporterStep | None
    sources: TestSources
    oracle_patch: bytes
    oracle: OracleVerification
    key: str

    @classmethod
    async def make(cls, job: SweGradingJob[R]) -> "_VerificationRun[R] | None":
        oracle_patch = job.official_grader.oracle_patch(job.row)
        if oracle_patch is None:
            return None
        step, tested = reporter_step(job.row), SweSubmission(patch=with_final_newline(oracle_patch))
        environment = await job.context.provider.digest(job.spec)
        key = cache_key(VERSION, job.grader, environment, row_fingerprint(job.row), str(job.timeout))
        sources = await _cached_sources(job, step, key)
        if sources is None:
            return None
        if job.context.use_cache:
            cache = RecordCache(OracleVerification, "swe_oracle_witness")
            oracle = await cache.get_or_make(key, lambda: _observe_oracle(job, step, sources, tested))
        else:
            oracle = await _observe_oracle(job, step, sources, tested)
        if not oracle.fail_to_pass:
            return None
        return cls(job, step if oracle.by_reporter else None, sources, tested.patch, oracle, key)

    def controlled_tests(self) -> ControlledTests:
        pairs = self.job.context.options.controls
        return ControlledTests(
            key=cache_key(self.key, str(self.oracle.by_reporter), str(pairs)),
            expectation=Expectation(
                fail_to_pass=self.oracle.fail_to_pass, pass_to_pass=self.oracle.pass_to_pass, passing=PASSING
            ),
            sources=lambda: self.sources.tests,
            has_oracle=True,
            pairs=pairs,
            use_cache=self.job.context.use_cache,
        )

    async def check(self, patch: bytes) -> ControlledRun:
        return await run_controlled(
            self.controlled_tests(),
            lambda files, name: self._run(SweSubmission(patch=patch, protected=self.job.protected), files, name),
            self.run_oracle,
            None,
        )

    async def run_oracle(self, files: Mapping[str, bytes], name: str) -> TestRun:
        return await self._run(SweSubmission(patch=self.oracle_patch), files, f"oracle.{name}")

    async def _run(self, tested: SweSubmission, variant: Mapping[str, bytes], name: str) -> TestRun:
        run = await _run_once(self.job, self.step, self.sources, tested, variant)
        await self.job.save_run(f"witness.{name}", run)
        usual = self.oracle.tampered
        tampered = tuple(part for part in run.outcome.tampered if part not in usual)
        return msgspec.structs.replace(run, outcome=msgspec.structs.replace(run.outcome, tampered=tampered))


async def _observe_oracle(
    job: SweGradingJob[R], step: ReporterStep | None, sources: TestSources, tested: SweSubmission
) -> OracleVerification:
    found = OracleVerification(by_reporter=False)
    for one in (step, None) if step is not None else (None,):
        run = await _run_once(job, one, sources, tested, {})
        await job.save_run("witness.oracle" if one is not None else "witness.oracle.official", run)
        fail_to_pass, pass_to_pass = job.row.fail_to_pass, job.row.pass_to_pass
        if isinstance(job.row, FeatureBenchRow):
            # Its labels are files; what decides are the tests in them.
            fail_to_pass, pass_to_pass = tuple(test for test in run.tests if "::" in test), ()
        found = OracleVerification(
            by_reporter=one is not None,
            fail_to_pass=tuple(label for label in fail_to_pass if run.tests.get(label) in PASSING),
            pass_to_pass=tuple(label for label in pass_to_pass if run.tests.get(label) in PASSING),
            tampered=run.outcome.tampered,
        )
        if found.fail_to_pass:
            break
    return found


async def _run_once(
    job: SweGradingJob[R],
    step: ReporterStep | None,
    sources: TestSources,
    tested: SweSubmission,
    variant: Mapping[str, bytes],
) -> TestRun:
    """The tests once, in an environment of their own: by our reporter, or without a step by the official script."""
    async with job.lock.shared(), job.start_prepared() as environment:
        try:
            if step is None:
                submission = msgspec.structs.replace(tested, variant=variant)
                run = await job.official_grader.run_tests(environment, job.row, job.setup, submission, job.timeout)
                return _as_test_run(run, (*job.row.fail_to_pass, *job.row.pass_to_pass))
            return await _run_by_reporter(job, environment, step, sources.with_variant(variant), tested)
        except LimitReached as limit:
            return over_limit(limit)


async def _run_by_reporter(
    job: SweGradingJob[R],
    environment: Environment,
    step: ReporterStep,
    sources: TestSources,
    tested: SweSubmission,
) -> TestRun:
    config = pytest_config(sources.configs.get) if step.format is TestFormat.PYTEST else None
    applied = await apply_in_environment(
        environment, tested.patch, _APPLY_COMMANDS, protected=tested.protected, clean=True, accept_reversible=True
    )
    if applied.command_index is None:
        reason = f"the patch does not apply: {applied.output[-200:]}"
        return TestRun(outcome=InconclusiveRun(kind=InconclusiveKind.NOT_STARTED, reason=reason), exit_code=1)
    if isinstance(job.row, SweEvoRow):
        tests = with_final_newline(job.row.test_patch.encode("utf-8", "surrogateescape"))
        await apply_in_environment(environment, tests, ("git apply --verbose",))
    unpack_variant = await put_variant(environment, sources.tests)
    script = f"{step.setup_script}\n{unpack_variant}\ncommand -v python > {_PYTHON_FILE}\nenv -0 > {_VARIABLES_FILE}\n"
    await run_bash(environment, job.setup.adapt_script(script), seconds=job.timeout)
    python, variables = await _script_state(environment)
    plan = TestPlan(
        format=step.format,
        targets=step.targets,
        python=python or "python3",
        config=config,
        autoload=True,
        variables={**variables, **step.variables},
    )
    fixed = {path: FileEntry(FILE, data) for path, data in sources.tests.items()} | sources.program
    return await run_tests(environment, plan, timeout=job.timeout, provider=job.context.provider, fixed=fixed)


async def _script_state(environment: Environment) -> tuple[str, dict[str, str]]:
    """Which Python the official script has when its tests begin, and what it has exported."""
    read = await environment.exec(["sh", "-c", f"cat {_PYTHON_FILE}; printf '\\0'; cat {_VARIABLES_FILE}"])
    python, *entries = read.stdout.decode("utf-8", "replace").split("\0")
    pairs = (entry.partition("=") for entry in entries if entry)
    return python.strip(), {name: value for name, _, value in pairs if name not in _SHELL_VARIABLES}


async def _committed_files(environment: Environment, names: Sequence[str]) -> dict[str, bytes]:
    """The files with these names, each `COMMIT:PATH`, as far as there are such."""
    names = [name for name in names if "\n" not in name]
    found: dict[str, bytes] = {}
    read = await environment.exec(
        ["git", "-c", "safe.directory=*", "cat-file", "--batch"],
        stdin="".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape"),
        output_bytes=_MAX_SOURCES,
    )
    rest = b"" if read.truncated else read.stdout
    for name in names:
        header, _, rest = rest.partition(b"\n")
        words = header.rsplit(b" ", 2)
        if len(words) == 3 and words[2].isdigit():  # noqa: PLR2004 - object, type, size; or `… missing`
            size = int(words[2])
            if words[1] == b"blob":
                found[name] = rest[:size]
            rest = rest[size + 1 :]
    return found


async def _cached_sources(job: SweGradingJob[R], step: ReporterStep | None, key: str) -> TestSources | None:
    cache = RecordCache(TestSources, "swe_test_sources")
    if job.context.use_cache and (known := cache.get(key)) is not None:
        return known
    sources = await read_test_sources(job, step)
    if sources is not None and job.context.use_cache:
        cache.put(key, sources)
    return sources


async def read_test_sources(job: SweGradingJob[R], step: ReporterStep | None) -> TestSources | None:
    """The test files with the test patch, and the test program; None where the patch does not apply to the base."""
    text = job.row.test_patch
    if isinstance(job.row, FeatureBenchRow):
        text = reversed_diff(text, excluding=frozenset()) or ""  # it takes the tests away
    patch = with_final_newline(text.encode("utf-8", "surrogateescape"))
    changed = touched_paths(job.official_grader.oracle_patch(job.row) or b"")
    program = [path for path in step.program if path not in changed] if step is not None else []
    groups = (job.row.base_commit, touched_paths(patch)), ("HEAD", program), ("HEAD", _PYTEST_CONFIGS)
    async with job.start_prepared() as environment:
        asked = dict.fromkeys(f"{commit}:{path}" for commit, paths in groups for path in paths)
        found = await _committed_files(environment, tuple(asked))
    base, scripts, configs = (
        {path: found[name] for path in paths if (name := f"{commit}:{path}") in found} for commit, paths in groups
    )
    tests = await asyncio.to_thread(_with_test_patch, base, patch)
    if tests is None:
        return None
    return TestSources(
        tests=tests,
        program={path: FileEntry(EXECUTABLE, data) for path, data in scripts.items()},
        configs=configs,
    )


def _with_test_patch(base: Mapping[str, bytes], patch: bytes) -> dict[str, bytes] | None:
    with tempfile.TemporaryDirectory(prefix="proctor-swe-") as folder:
        tree = Path(folder)
        for path, data in base.items():
            write_entry(tree, os.fsencode(path), FileEntry(FILE, data))
        try:
            apply_patch(tree, patch, PatchKind.UNIFIED_DIFF)
        except InvalidSubmission:
            return None
        entries = {path: read_entry(tree, os.fsencode(path)) for path in touched_paths(patch)}
    return {path: entry.data for path, entry in entries.items() if entry is not None and entry.mode != LINK}


def _as_test_run(run: SweTestRun, labels: tuple[str, ...]) -> TestRun:
    """What the official script showed of the labels."""
    exit_code = run.exit_code or 0
    if run.ruling is None:
        kind = InconclusiveKind.TIMED_OUT if run.timed_out else InconclusiveKind.CUT_SHORT
        reason = run.parse_error or run.error or ("the tests took too long" if run.timed_out else "no test results")
        return TestRun(outcome=InconclusiveRun(kind=kind, reason=reason), exit_code=exit_code, log=run.log)
    tests = {name: STATUSES.get(word, TestStatus.ERROR) for name, word in run.statuses.items()}
    passed = {*run.ruling.fail_to_pass.success, *run.ruling.pass_to_pass.success}
    # A label that the data set has cut off is found by the beginning of its id.
    tests |= {label: TestStatus.PASSED for label in labels if label in passed and label not in tests}
    return TestRun(outcome=TestResults(tests=tests), exit_code=exit_code, seconds=run.seconds, log=run.log)
