"""One instance of a suite, and what a kind of instances decides for itself: its files, and how its tests run.

A kind is a subclass of `Instance`. It registers through the entry point group ``proctor.suite_kinds``, under the value
of ``eval.kind`` in its files.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar

from proctor.benchmarks.suites.format import SUITE_SCHEMA, InstanceFile, ProctorSuiteFile, SuiteFile
from proctor.core.environment import EnvironmentRequirement, Mount, required_program
from proctor.core.evaluation import RepairSummary, TestSummary
from proctor.core.programs import ProgramRequirement
from proctor.core.record import Record
from proctor.core.verdict import Finding
from proctor.grading import GradingJob, TestRun
from proctor.workspaces import TreeChange


class TestStepResult(Record):
    """A test run, its numbers, and what a linter repaired before it."""

    __test__ = False

    run: TestRun
    summary: TestSummary
    repair: RepairSummary | None = None


class Instance(Record):
    """One instance that can be used.

    Attributes:
        file_type: of its `instance.json`.
        suite_schema, suite_type: the `schema_version` and the type of the `suite.json` of suites of this kind.
        prediction_schema: the `schema_version` of prediction lines for such suites, where they say one.
        exit_zero: the test program must end with exit code 0 besides.
    """

    file_type: ClassVar[type[InstanceFile]]
    suite_schema: ClassVar[str] = SUITE_SCHEMA
    suite_type: ClassVar[type[SuiteFile]] = ProctorSuiteFile
    prediction_schema: ClassVar[str | None] = None
    exit_zero: ClassVar[bool] = False

    id: str
    file: InstanceFile
    path: Path
    notes: tuple[str, ...]

    @property
    def repo(self) -> Path:
        """The tree that the agent starts from."""
        return self.path.parent / self.file.repo_path

    @property
    def hidden(self) -> Path | None:
        """The files that are laid over the workspace before the tests run."""
        return None

    @property
    def oracle(self) -> Path | None:
        """The reference solution."""
        return self.path.parent / self.file.oracle.patch_path if self.file.oracle else None

    @property
    def environment(self) -> Path | None:
        """The folder that says what its tests need installed, where that is more than its environment has."""
        return None

    @property
    def created(self) -> str | None:
        """The day of the change that it was made from, where it was made from one."""
        return None

    @property
    def protected(self) -> tuple[str, ...]:
        """Patterns of the paths that a submission cannot change for good."""
        return ()

    @property
    def tolerated_problems(self) -> frozenset[str]:
        """Places in `instance.json` whose problems are noted, and are no reason to refuse the instance."""
        return frozenset()

    @property
    def timeout_seconds(self) -> float | None:
        """The wall clock of one test run; None: the suite's."""
        return None

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What a test run needs of this machine, besides its tree.

        Raises:
            InfrastructureError: the machine does not have it.
        """
        return ()

    @property
    def environment_requirements(self) -> tuple[EnvironmentRequirement, ...]:
        """What the environment of a test run must have: by default, what the instance says it requires."""
        return tuple(map(required_program, self.file.requires))

    @classmethod
    def requirements(cls) -> tuple[ProgramRequirement, ...]:
        """The programs of this machine that instances of this kind need."""
        return ()

    def statement(self) -> str:
        """What the agent is asked to do."""
        file = self.path.parent / self.file.problem_statement_path
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""

    def digest(self) -> str:
        """Identifies all that a verdict on this instance depends on; the wording and the oracle are not part of it."""
        digest = hashlib.sha256(self.path.read_bytes())
        for tree in filter(None, (self.repo, self.hidden, self.environment)):
            for line in _tree_lines(tree):
                digest.update(line)
        return digest.hexdigest()

    def problems(self) -> Iterator[tuple[str, str]]:
        """What is wrong with `eval` and a schema cannot say: each problem's place and message."""
        return iter(())

    def findings(self, change: TreeChange) -> tuple[Finding, ...]:
        """What the audit of this kind says of a submission, besides the audit that all kinds have."""
        del change
        return ()

    async def run_tests(
        self,
        job: GradingJob,
        tree: Path,
        name: str,
        *,
        touched: tuple[str, ...] | None,
        permit: AbstractAsyncContextManager[object],
    ) -> TestStepResult:
        """Run the tests on `tree` once, within `permit`; `name` is that of the run's artifacts.

        Args:
            job: where it is run, and where its artifacts go.
            tree: laid out, with protected and hidden files in place.
            name: `pre_patch`, `post_patch` or `oracle`, and the number of a rerun.
            touched: the paths that the submission changed; None: no submission is in place.
            permit: held while anything runs.

        Raises:
            InfrastructureError: the environment or the test program failed, and the submission is not the reason.
            InvalidSubmission: what the submission left is not what the test program can read.
        """
        raise NotImplementedError


def _tree_lines(tree: Path) -> Iterator[bytes]:
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix().encode(errors="surrogateescape")
        if path.is_symlink():
            yield b"l %s\0%s\0" % (name, str(path.readlink()).encode(errors="surrogateescape"))
        elif path.is_file():
            kind = b"x" if path.stat().st_mode & 0o111 else b"f"
            yield b"%s %s\0%s\0" % (kind, name, hashlib.sha256(path.read_bytes()).digest())
