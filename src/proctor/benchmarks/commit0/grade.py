"""How a library is graded: as its official evaluation does it, and as it ought to be done.

Official: the submission as it is, its own tests included; whatever the tests' process reports is believed. Strict:
tests and test machinery put back as they were, run by our own reporter, each listed test counted once. Every run has a
room of its own. What the stubs and the reference have is found the strict way, once, and kept.
"""

import asyncio
import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from proctor.benchmarks.commit0.columns import GRADER, Column, Columns, unfit_verdict, verdict_of
from proctor.benchmarks.commit0.library import Library
from proctor.benchmarks.commit0.official import COVERAGE, REPORT, Official, command, judge
from proctor.benchmarks.commit0.statics import findings, static_mounts
from proctor.core.benchmark import Place
from proctor.core.environment import Environment, EnvironmentSpec
from proctor.core.errors import LimitReached
from proctor.core.evaluation import Evaluated, Prediction, TestSummary
from proctor.core.record import to_json
from proctor.core.verdict import Finding, TestStatus, Verdict
from proctor.grading import (
    TestFormat,
    TestPlan,
    TestRun,
    Trouble,
    Unreadable,
    audit_trees,
    protected_paths,
    pytest_config,
    run_tests,
    tampering,
)
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.workspaces import Applied, UnfitSubmission, apply_patch
from proctor.workspaces.changes import write_changes
from proctor.workspaces.trees import Entry, read_entry, read_tree

TEST_SECONDS: Final = 1800.0
_KILLED: Final = 137
# The reporter takes one test after the other, and tests of another process would not be heard.
_PARALLEL: Final = {"-n": 2, "--dist": 2, "--numprocesses": 2}


@dataclass(frozen=True, slots=True)
class Bench:
    """One library on the bench.

    Attributes:
        tree: the stubs as the agent was given them, generated files included.
        generated: files that installing has made beside the repository's own.
        spec: the room of a test run, but for its tree.
        python: the interpreter inside that has the tests' packages.
        path: the folders inside where the official command finds its programs.
        notes: what is out of the ordinary with its environment.
    """

    library: Library
    place: Place
    folder: Path
    tree: Path
    generated: Path | None
    spec: EnvironmentSpec
    python: str
    path: str | None
    notes: tuple[str, ...] = ()

    @property
    def timeout(self) -> float:
        """The wall clock of one test run."""
        return self.place.options.timeout_seconds or TEST_SECONDS


async def grade(bench: Bench, prediction: Prediction) -> Evaluated:
    """Grade one submission."""
    stub, gold = await stub_column(bench), await gold_column(bench)
    with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
        try:
            handed_in, restored = Path(scratch) / "official", Path(scratch) / "strict"
            applied, found = await asyncio.to_thread(_lay_out, bench, prediction, handed_in, restored)
        except UnfitSubmission as unfit:
            return _evaluated(bench, prediction, unfit_verdict(bench.library, unfit, stub, gold), None, stub)
        official, static = await official_run(bench, handed_in)
        column, run = await strict_run(bench, restored)
        await asyncio.to_thread(_keep, bench.folder, prediction, run)
    honest = {*stub.tampered, *(gold.tampered if gold else ())}  # tools that measure coverage do it, too
    found = (*found, *tampering(name for name in column.tampered if name not in honest))
    columns = Columns(after=column, stub=stub, gold=gold, official=official, static=static)
    verdict = verdict_of(bench.library, columns, found, applied)
    return _evaluated(bench, prediction, verdict, column, stub)


def lay_out(source: Path, generated: Path | None, tree: Path) -> None:
    """Make `tree` a tree of the library among what installing has generated; where both have a file, it is its own."""
    if generated is None:
        tree.mkdir()
    else:
        shutil.copytree(generated, tree, symlinks=True)
    write_changes(tree, read_tree(source))


async def stub_column(bench: Bench) -> Column:
    """What the stubs pass: more than nothing, mostly."""
    return await _known(bench, "stub", bench.tree)


async def gold_column(bench: Bench) -> Column | None:
    """What the reference passes here: the most that can be had, and seldom everything."""
    tree = await asyncio.to_thread(bench.library.reference)
    if tree is None:
        return None
    with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
        whole = Path(scratch) / "gold"
        await asyncio.to_thread(lay_out, tree, bench.generated, whole)
        return await _known(bench, "gold", whole)


async def _known(bench: Bench, name: str, tree: Path) -> Column:
    cache = RecordCache(Column, "commit0") if bench.place.use_cache else None
    digest = await bench.place.provider.digest(bench.spec)
    key = cache_key(GRADER, name, digest, bench.library.digest(), str(bench.timeout))
    column = cache.get(key) if cache else None
    if column is None:
        column, _ = await strict_run(bench, tree)
        if cache is not None:
            cache.put(key, column)
    return column


async def strict_run(bench: Bench, tree: Path) -> tuple[Column, TestRun]:
    """The listed tests on a tree, by our own reporter."""
    row = bench.library.row
    words = shlex.split(row.test.test_cmd)[1:]
    options, parallel = _without_parallel(words)
    plan = TestPlan(
        format=TestFormat.PYTEST,
        targets=(row.test.test_dir,),
        python=bench.python,
        config=pytest_config(lambda name: _read(bench.tree / name)),
        autoload=True,
        options=(*options, *(("-n", "0") if parallel else ())),
    )
    try:
        async with await _room(bench, tree) as room:
            run = await run_tests(room, plan, timeout=bench.timeout)
    except LimitReached as limit:
        run = TestRun(outcome=Unreadable(trouble=Trouble.CUT_SHORT, reason=str(limit)), exit_code=_KILLED)
    trouble = "" if run.complete or not isinstance(run.outcome, Unreadable) else run.outcome.reason
    statuses = {test: run.tests.get(test, TestStatus.MISSING) for test in bench.library.ids}
    seconds = round(run.seconds, 3)
    return Column(statuses=statuses, trouble=trouble, seconds=seconds, tampered=run.outcome.tampered), run


async def official_run(bench: Bench, tree: Path) -> tuple[Official, dict[str, float]]:
    """The official command on a tree, and what static analysis says of it before anything of it has run."""
    variables = {} if bench.path is None else {"PATH": bench.path}
    report = coverage = None
    static: dict[str, float] = {}
    try:
        async with await _room(bench, tree) as room:
            static = await findings(room, bench.library.row.src_dir)
            await room.exec(["sh", "-c", command(bench.library.row)], timeout=bench.timeout, variables=variables)
            report, coverage = await _fetch(room, REPORT), await _fetch(room, COVERAGE)
    except LimitReached:
        pass  # the official rule for a run without a report: nothing passed
    return judge(bench.library.ids, report, coverage), static


def _evaluated(
    bench: Bench, prediction: Prediction, verdict: Verdict, after: Column | None, before: Column
) -> Evaluated:
    return Evaluated(
        task_id=verdict.task_id,
        verdict=verdict,
        notes=bench.notes,
        model=prediction.model,
        patch_kind=prediction.patch_kind,
        patch_sha256=hashlib.sha256(prediction.content).hexdigest(),
        baseline=_summary(before),
        after_patch=None if after is None else _summary(after),
        artifacts=str(bench.folder),
    )


def _summary(column: Column) -> TestSummary:
    statuses = list(column.statuses.values())
    passed, skipped = statuses.count(TestStatus.PASSED), statuses.count(TestStatus.SKIPPED)
    broken = statuses.count(TestStatus.ERROR)
    return TestSummary(
        ok=passed == len(statuses),
        exit_code=None if column.trouble else int(passed != len(statuses)),
        passed=passed,
        skipped=skipped,
        errors=broken,
        failed=len(statuses) - passed - skipped - broken,
        seconds=column.seconds,
    )


def _lay_out(
    bench: Bench, prediction: Prediction, handed_in: Path, restored: Path
) -> tuple[Applied, tuple[Finding, ...]]:
    """The submission as it is, and with everything protected put back; also what the audit says of it."""
    shutil.copytree(bench.tree, handed_in, symlinks=True)
    applied = apply_patch(handed_in, prediction.content, prediction.patch_kind)
    shutil.copytree(handed_in, restored, symlinks=True)
    patterns = bench.library.protected()
    old, new = _entries(bench.tree, applied.touched), _entries(handed_in, applied.touched)
    found = audit_trees(
        {path: entry.data for path, entry in old.items()},
        {path: entry.data for path, entry in new.items()},
        modes={path: entry.mode for path, entry in new.items()},
        protected=patterns,
    )
    back = protected_paths(applied.touched, patterns)
    write_changes(restored, {os.fsencode(path): read_entry(bench.tree, os.fsencode(path)) for path in back})
    return applied, found


def _entries(tree: Path, paths: Sequence[str]) -> dict[str, Entry]:
    entries = {path: read_entry(tree, os.fsencode(path)) for path in paths}
    return {path: entry for path, entry in entries.items() if entry is not None}


def _without_parallel(words: Sequence[str]) -> tuple[list[str], bool]:
    kept: list[str] = []
    skip, found = 0, False
    for word in words:
        if skip:
            skip -= 1
        elif word.partition("=")[0] in _PARALLEL:
            found = True
            skip = 0 if "=" in word else 1
        else:
            kept.append(word)
    return kept, found


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


async def _room(bench: Bench, tree: Path) -> Environment:
    spec = msgspec.structs.replace(bench.spec, workspace=tree, mounts=(*bench.spec.mounts, *static_mounts()))
    return await bench.place.provider.start(spec)


async def _fetch(room: Environment, name: str) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="proctor-report-") as folder:
        target = Path(folder) / "file"
        try:
            await room.get(f"{room.workdir}/{name}", target)
        except FileNotFoundError:
            return None
        return target.read_bytes() if target.is_file() and not target.is_symlink() else None


def _keep(folder: Path, prediction: Prediction, run: TestRun) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "submission.diff").write_bytes(prediction.content)
    (folder / "tests.json").write_bytes(to_json(msgspec.structs.replace(run, log=b"")))
    (folder / "tests.log").write_bytes(run.log[-4_000_000:])
