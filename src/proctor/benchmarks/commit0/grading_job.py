"""One library in grading, its trees, and the listed tests on one of them by our own reporter."""

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from proctor.benchmarks.commit0.library import Commit0Library
from proctor.benchmarks.commit0.verdicts import TreeResults
from proctor.core.trees import read_tree
from proctor.core.verdict import TestStatus
from proctor.grading import GradingJob, InconclusiveRun, TestFormat, TestPlan, TestRun, pytest_config
from proctor.workspaces.changes import write_changes

TEST_SECONDS: Final = 1800.0
# The reporter takes one test after the other, and tests of another process would not be reported.
_PARALLEL_OPTIONS: Final = {"-n": 2, "--dist": 2, "--numprocesses": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit0GradingJob(GradingJob):
    """One library in grading.

    Attributes:
        tree: the stubs as the agent was given them, generated files included.
        generated: files that installing has made beside the repository's own.
        python: the interpreter inside that has the tests' packages.
        search_path: the folders inside where the official command finds its programs.
    """

    library: Commit0Library
    tree: Path
    generated: Path | None
    python: str
    search_path: str | None


def lay_out(source: Path, generated: Path | None, tree: Path) -> None:
    """Make `tree` a tree of the library among what installing has generated; where both have a file, it is its own."""
    if generated is None:
        tree.mkdir()
    else:
        shutil.copytree(generated, tree, symlinks=True)
    write_changes(tree, read_tree(source))


async def strict_run(job: Commit0GradingJob, tree: Path) -> tuple[TreeResults, TestRun]:
    """The listed tests on a tree, by our own reporter."""
    row = job.library.row
    words = shlex.split(row.test.test_cmd)[1:]
    options, parallel = _without_parallel(words)
    plan = TestPlan(
        format=TestFormat.PYTEST,
        targets=(row.test.test_dir,),
        python=job.python,
        config=pytest_config(lambda name: _read(job.tree / name)),
        autoload=True,
        options=(*options, *(("-n", "0") if parallel else ())),
    )
    run = await job.run_tests(plan, tree)
    error = "" if run.complete or not isinstance(run.outcome, InconclusiveRun) else run.outcome.reason
    statuses = {test: run.tests.get(test, TestStatus.MISSING) for test in job.library.test_ids}
    seconds = round(run.seconds, 3)
    return TreeResults(statuses=statuses, error=error, seconds=seconds, tampered=run.outcome.tampered), run


def _without_parallel(arguments: Sequence[str]) -> tuple[list[str], bool]:
    kept: list[str] = []
    skip, found = 0, False
    for word in arguments:
        if skip:
            skip -= 1
        elif word.partition("=")[0] in _PARALLEL_OPTIONS:
            found = True
            skip = 0 if "=" in word else 1
        else:
            kept.append(word)
    return kept, found


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
