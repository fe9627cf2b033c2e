"""How a library is graded: as its official evaluation does it, and as it ought to be done.

Official: the submission as it is, its own tests included; whatever the tests' process reports is believed. Strict:
tests and test machinery restored, run by our own reporter, each listed test counted once. Every run has an environment
of its own. What the stubs and the oracle have is found the strict way, once, and kept.
"""

import asyncio
import shutil
import tempfile
from pathlib import Path

from proctor.benchmarks.commit0.control_check import check_submission, make_controls, with_control_check
from proctor.benchmarks.commit0.grading_job import Commit0GradingJob, lay_out, strict_run
from proctor.benchmarks.commit0.official_score import (
    COVERAGE,
    REPORT,
    Commit0OfficialScore,
    official_command,
    official_score,
)
from proctor.benchmarks.commit0.static_analysis import count_findings, tool_mounts
from proctor.benchmarks.commit0.verdicts import (
    GRADER,
    SubmissionResults,
    TreeResults,
    passed_count,
    unapplied_verdict,
    verdict_of,
)
from proctor.core.environment import Environment
from proctor.core.errors import LimitReached
from proctor.core.evaluation import Prediction, TaskEvaluation, TestSummary
from proctor.core.verdict import TestStatus
from proctor.grading import (
    AppliedSubmission,
    apply_submission,
    restore_paths,
    tampering_findings,
)
from proctor.results import RecordCache
from proctor.results.cache import cache_key
from proctor.workspaces import InvalidSubmission


async def grade(job: Commit0GradingJob, prediction: Prediction) -> TaskEvaluation:
    """Grade one submission."""
    stub, oracle = await stub_results(job), await oracle_results(job)
    with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
        try:
            submitted, restored = Path(scratch) / "official", Path(scratch) / "strict"
            applied = await asyncio.to_thread(_lay_out_submission, job, prediction, submitted, restored)
        except InvalidSubmission as invalid:
            verdict = unapplied_verdict(job.library, invalid, stub, oracle)
            return job.evaluation(prediction, verdict, pre_patch=_summary(stub))
        official, static = await official_run(job, submitted)
        column, run = await strict_run(job, restored)
        controls = control_check = None
        if job.context.options.controls and passed_count(column, oracle) > passed_count(stub, oracle):
            controls = await make_controls(job, stub, oracle, Path(scratch))
            control_check = await check_submission(job, restored, column, controls) if controls.pairs else None
    job.folder.mkdir(parents=True, exist_ok=True)
    (job.folder / "submission.diff").write_bytes(prediction.content)
    await job.save_run("strict", run)
    honest = {*stub.tampered, *(oracle.tampered if oracle else ())}  # tools that measure coverage do it, too
    found = (*applied.findings, *tampering_findings(name for name in column.tampered if name not in honest))
    columns = SubmissionResults(submission=column, stub=stub, oracle=oracle, official=official, static_findings=static)
    verdict = with_control_check(verdict_of(job.library, columns, found, applied), controls, control_check)
    return job.evaluation(prediction, verdict, pre_patch=_summary(stub), post_patch=_summary(column))


async def stub_results(job: Commit0GradingJob) -> TreeResults:
    """What the stubs pass: more than nothing, mostly."""
    return await _cached_results(job, "stub", job.tree)


async def oracle_results(job: Commit0GradingJob) -> TreeResults | None:
    """What the oracle passes here: the most that can be reached, and seldom everything."""
    tree = await asyncio.to_thread(job.library.oracle_tree)
    if tree is None:
        return None
    with tempfile.TemporaryDirectory(prefix="proctor-commit0-") as scratch:
        whole = Path(scratch) / "oracle"
        await asyncio.to_thread(lay_out, tree, job.generated, whole)
        return await _cached_results(job, "oracle", whole)


async def _cached_results(job: Commit0GradingJob, name: str, tree: Path) -> TreeResults:
    cache = RecordCache(TreeResults, "commit0_results") if job.context.use_cache else None
    digest = await job.context.provider.digest(job.spec)
    key = cache_key(GRADER, name, digest, job.library.digest(), str(job.timeout))
    column = cache.get(key) if cache else None
    if column is None:
        column, _ = await strict_run(job, tree)
        if cache is not None:
            cache.put(key, column)
    return column


async def official_run(job: Commit0GradingJob, tree: Path) -> tuple[Commit0OfficialScore, dict[str, float]]:
    """The official command on a tree, and what static analysis says of it before anything of it has run."""
    variables = {} if job.search_path is None else {"PATH": job.search_path}
    report = coverage = None
    static: dict[str, float] = {}
    try:
        async with await job.start(tree, mounts=tool_mounts()) as environment:
            static = await count_findings(environment, job.library.row.src_dir)
            await environment.exec(
                ["sh", "-c", official_command(job.library.row)], timeout=job.timeout, variables=variables
            )
            report, coverage = await _fetch_file(environment, REPORT), await _fetch_file(environment, COVERAGE)
    except LimitReached:
        pass  # the official rule for a run without a report: nothing passed
    return official_score(job.library.test_ids, report, coverage), static


def _summary(results: TreeResults) -> TestSummary:
    statuses = list(results.statuses.values())
    passed, skipped = statuses.count(TestStatus.PASSED), statuses.count(TestStatus.SKIPPED)
    broken = statuses.count(TestStatus.ERROR)
    return TestSummary(
        ok=passed == len(statuses),
        exit_code=None if results.error else int(passed != len(statuses)),
        passed=passed,
        skipped=skipped,
        errors=broken,
        failed=len(statuses) - passed - skipped - broken,
        seconds=results.seconds,
    )


def _lay_out_submission(
    job: Commit0GradingJob, prediction: Prediction, submitted: Path, restored: Path
) -> AppliedSubmission:
    """The submission as it is, and with everything protected restored."""
    applied = apply_submission(job.tree, prediction, submitted, protected=job.protected)
    shutil.copytree(submitted, restored, symlinks=True)
    restore_paths(job.tree, restored, applied.restore)
    return applied


async def _fetch_file(environment: Environment, name: str) -> bytes | None:
    with tempfile.TemporaryDirectory(prefix="proctor-report-") as folder:
        target = Path(folder) / "file"
        try:
            await environment.get(f"{environment.workdir}/{name}", target)
        except FileNotFoundError:
            return None
        return target.read_bytes() if target.is_file() and not target.is_symlink() else None
