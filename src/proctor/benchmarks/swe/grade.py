"""From a submission to a verdict: the official one, ours, and what a retest says.

The official verdict is that of the benchmark's own procedure, on the submission as it is. Ours is that of the same
procedure with the protected files restored before the tests run; where a submission touches none, one run gives both.
A submission that passes must also pass a verification run, and fail its altered tests (`verification_run`). A run that
fails is repeated with nothing else beside it before it counts, and both runs are stored.
"""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from proctor.benchmarks.swe.environment_steps import SweTestRun
from proctor.benchmarks.swe.grading_job import SweGradingJob
from proctor.benchmarks.swe.instance_report import official_report
from proctor.benchmarks.swe.official_grader import SweSubmission
from proctor.benchmarks.swe.official_rules import FAILING, PASSING
from proctor.benchmarks.swe.patches import with_final_newline
from proctor.benchmarks.swe.rows import R, SweRow
from proctor.benchmarks.swe.verification_run import STATUSES, check_submission
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import LimitReached
from proctor.core.evaluation import Prediction, TaskEvaluation, TestSummary
from proctor.core.record import to_json
from proctor.core.verdict import ControlSummary, TestOutcome, TestStatus, Verdict
from proctor.grading import audit_change, protected_paths
from proctor.grading.controls import ControlledRun
from proctor.grading.job import truncate_log

LOG_BYTES: Final = 20_000_000


@dataclass(frozen=True, slots=True)
class _RunWithRetest:
    """A run, and its repetition with nothing beside it, where it failed."""

    first: SweTestRun
    retest: SweTestRun | None = None

    @property
    def final(self) -> SweTestRun:
        return self.retest if self.retest is not None else self.first

    @property
    def flaky(self) -> tuple[str, ...]:
        """The tests whose two results differ."""
        if self.retest is None or not self.first.statuses or not self.retest.statuses:
            return ()
        names = self.first.statuses.keys() | self.retest.statuses.keys()
        return tuple(sorted(name for name in names if self.first.statuses.get(name) != self.retest.statuses.get(name)))


async def grade(job: SweGradingJob[R], prediction: Prediction) -> TaskEvaluation:
    """Grade one submission."""
    patch = with_final_newline(prediction.content)
    job.reset_folder()
    (job.folder / "patch.diff").write_bytes(patch)
    if not patch.strip() and not job.official_grader.grades_empty:
        return job.evaluation(prediction, _verdict(job, Cause.EMPTY, "the patch is empty", None))
    official = await _run_and_retest(job, prediction.content, "official")
    # A diff without a line end at its end is torn to some graders, and nothing is lost by giving it one.
    apart = bool(protected_paths(official.first.touched, job.protected)) or patch != prediction.content
    strict = await _run_and_retest(job, patch, "strict", protected=job.protected) if apart else official
    restored = strict.final.restored
    repeated = await _repeat(job, patch, strict.final, protected=job.protected if apart else ())
    cause, reason = _cause_and_reason(official.final, strict.final, is_empty=not patch.strip())
    if repeated is not None and cause is Cause.SOLVED and not repeated.resolved:
        cause, reason = Cause.TESTS_FAILED, "the tests pass once and fail when they are run again"
    change = strict.first.change
    findings = () if change is None else audit_change(change, protected=job.protected)
    control_check = await _check_submission(job, patch) if cause is Cause.SOLVED else None
    if control_check is not None and control_check.resolution.status is not Status.RESOLVED:
        cause, reason = Cause.TAMPERED, control_check.resolution.reason
        if not control_check.findings:
            reason = f"passes only by its log; in the verification run: {reason}"
    verdict = _verdict(job, cause, reason, strict.final)
    official_status = Status.RESOLVED if official.final.resolved else Status.UNRESOLVED
    twice = _RunWithRetest(strict.final, repeated).flaky
    verdict = msgspec.structs.replace(
        verdict,
        official=official_status if official_status is not verdict.status else None,
        tests=_test_outcomes(job.row, strict.final),
        findings=(*(control_check.findings if control_check is not None else ()), *findings),
        controls=control_check.controls if control_check is not None else _no_controls(job, cause),
        applied_with=strict.final.applied_with,
        flaky=tuple(dict.fromkeys((*strict.flaky, *official.flaky, *twice))),
        seconds=strict.final.seconds,
    )
    notes = [*_retest_notes("official", official), *(_retest_notes("strict", strict) if apart else ())]
    if restored:
        notes.append(f"restored before the tests: {', '.join(restored)}")
    (job.folder / "outcomes.json").write_bytes(to_json(_outcomes_document(official, strict if apart else None)))
    post_patch = _summary(strict.final) if strict.final.applied else None
    return job.evaluation(prediction, verdict, post_patch=post_patch, notes=tuple(notes))


async def _check_submission(job: SweGradingJob[R], patch: bytes) -> ControlledRun | None:
    """What the verification run says; as everywhere, a failure is seen twice before it counts."""
    control_check = await check_submission(job, patch)
    if (
        control_check is None
        or control_check.resolution.status is Status.RESOLVED
        or control_check.findings
        or not job.retest_failures
    ):
        return control_check
    return await check_submission(job, patch)


def _no_controls(job: SweGradingJob[R], cause: Cause) -> ControlSummary | None:
    """What is said of a submission that is resolved without a verification run: none of its tests is controlled."""
    if cause is not Cause.SOLVED or not job.context.options.controls:
        return None
    return ControlSummary(pairs=0, controlled=0, uncontrolled=(*job.row.fail_to_pass, *job.row.pass_to_pass))


async def run_once(job: SweGradingJob[R], patch: bytes, name: str, *, protected: tuple[str, ...] = ()) -> SweTestRun:
    """One test run in an environment of its own; what it printed is stored under `name`."""
    async with job.start_prepared() as environment:
        try:
            submission = SweSubmission(patch=patch, protected=protected)
            tested = await job.official_grader.run_tests(environment, job.row, job.setup, submission, job.timeout)
        except LimitReached as limit:
            # A limit of the whole environment: what reaches it came with the submission.
            tested = SweTestRun(applied=True, parse_error=str(limit))
    await asyncio.to_thread(_write_artifacts, job, tested, name)
    return msgspec.structs.replace(tested, log=b"")


async def _run_and_retest(
    job: SweGradingJob[R], patch: bytes, name: str, *, protected: tuple[str, ...] = ()
) -> _RunWithRetest:
    async with job.lock.shared():
        first = await run_once(job, patch, name, protected=protected)
    if first.resolved or not first.applied or not patch.strip() or not job.retest_failures:
        return _RunWithRetest(first)
    async with job.lock.exclusive():
        return _RunWithRetest(first, await run_once(job, patch, f"{name}.retest", protected=protected))


async def _repeat(
    job: SweGradingJob[R], patch: bytes, final: SweTestRun, *, protected: tuple[str, ...]
) -> SweTestRun | None:
    """Further runs of a submission that passes, as many as the options ask for; the first that fails, or the last."""
    again = None
    for number in range(1, job.context.options.determinism_runs or 1):
        if not final.resolved or (again is not None and not again.resolved):
            break
        async with job.lock.shared():
            again = await run_once(job, patch, f"repeat{number}", protected=protected)
    return again


def _cause_and_reason(official: SweTestRun, strict: SweTestRun, *, is_empty: bool) -> tuple[Cause, str]:
    """Our verdict, from the run with protected files restored."""
    if strict.resolved:
        return Cause.SOLVED, _label_counts(strict)
    if is_empty:
        return Cause.EMPTY, "the patch is empty"
    if not strict.applied:
        return Cause.DOES_NOT_APPLY, f"the patch does not apply: {_last_line(strict.error)}"
    if official.resolved:
        return Cause.TAMPERED, f"passes only with its own {', '.join(strict.restored)}; {why_unresolved(strict)[1]}"
    return why_unresolved(strict)


def why_unresolved(run: SweTestRun) -> tuple[Cause, str]:
    """Why a submission that applies does not solve the task."""
    if run.timed_out:
        return Cause.TEST_TIMEOUT, "the tests took too long"
    if run.ruling is None:
        return Cause.TESTS_VANISHED, run.parse_error or run.error or "no test results were found"
    fixed, kept = run.ruling.fail_to_pass, run.ruling.pass_to_pass
    if fixed.failure or not kept.failure:
        return (
            Cause.TESTS_FAILED,
            f"{_label_counts(run)}; first to fail: {next(iter(fixed.failure), 'the test program')}",
        )
    return Cause.REGRESSION, f"{_label_counts(run)}; first to break: {kept.failure[0]}"


def _label_counts(run: SweTestRun) -> str:
    ruling = run.ruling
    if ruling is None:
        return "no test results"
    parts = [
        f"{len(tally.success)} of {len(tally.success) + len(tally.failure)} {name}"
        for name, tally in (("fail-to-pass", ruling.fail_to_pass), ("pass-to-pass", ruling.pass_to_pass))
        if tally.success or tally.failure
    ]
    return f"{' and '.join(parts)} pass" if parts else "no labels"


def _test_outcomes(row: SweRow, run: SweTestRun) -> tuple[TestOutcome, ...]:
    def after(test: str) -> TestStatus:
        word = run.statuses.get(test)
        if word is None and run.ruling is not None:
            fixed, kept = run.ruling.fail_to_pass, run.ruling.pass_to_pass
            if test in fixed.success or test in kept.success:
                return TestStatus.PASSED  # found by the beginning of its id
            if test in run.ruling.fail_to_pass.failure and not run.statuses:
                return TestStatus.FAILED
        return TestStatus.MISSING if word is None else STATUSES.get(word, TestStatus.ERROR)

    if run.ruling is None:
        return ()
    return tuple(
        TestOutcome(id=test, before=None, after=after(test)) for test in (*row.fail_to_pass, *row.pass_to_pass)
    )


def _verdict(job: SweGradingJob[R], cause: Cause, reason: str, run: SweTestRun | None) -> Verdict:
    name = job.official_grader.score_name
    scores = {} if name is None else {name: 0.0 if run is None else run.scores.get(name, 0.0)}
    return Verdict(
        task_id=job.task_id,
        status=CONSEQUENCES[cause].status or Status.UNRESOLVED,
        cause=cause,
        reason=reason,
        score=None if name is None else scores[name],
        scores=scores,
        deviations=job.setup.deviations(),
        grader=job.grader,
    )


def _retest_notes(name: str, outcome: _RunWithRetest) -> Iterator[str]:
    if outcome.retest is not None:
        first, retest = ("resolved" if run.resolved else "unresolved" for run in (outcome.first, outcome.retest))
        yield f"graded twice ({name}): {first}, then {retest} in a retest"


def _outcomes_document(official: _RunWithRetest, strict: _RunWithRetest | None) -> dict[str, Any]:
    runs = {"official": official.first, "official_retest": official.retest}
    if strict is not None:
        runs |= {"strict": strict.first, "strict_retest": strict.retest}
    return {name: msgspec.structs.replace(run, change=None) for name, run in runs.items() if run is not None}


def _write_artifacts(job: SweGradingJob[R], run: SweTestRun, name: str) -> None:
    folder = job.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_output.txt").write_bytes(truncate_log(run.log, LOG_BYTES))
    (folder / "report.json").write_text(json.dumps(official_report(job.row.instance_id, run), indent=4))


def _summary(run: SweTestRun) -> TestSummary:
    words = list(run.statuses.values())
    return TestSummary(
        ok=run.resolved,
        exit_code=run.exit_code,
        passed=sum(word in PASSING for word in words),
        failed=words.count("FAILED"),
        skipped=words.count("SKIPPED"),
        errors=sum(word in FAILING for word in words) - words.count("FAILED"),
        seconds=run.seconds,
        report="report.json",
    )


def _last_line(text: str) -> str:
    with contextlib.suppress(IndexError):
        return text.strip().splitlines()[-1]
    return "no command takes it"
