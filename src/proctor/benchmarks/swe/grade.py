"""From an answer to a verdict: what the official grader says, what we say, and what a second try says alone.

The official verdict is that of the benchmark's own procedure, on the answer as it was handed in. Ours is that of the
same procedure with the protected files put back before the tests run; where an answer touches none, one run gives
both. An answer that passes and smells must also pass before our own reporter. A run that fails is made once more with
nothing else beside it before it counts, and both are kept.
"""

import asyncio
import contextlib
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.benchmarks.swe.bench import Bench, R, furnished
from proctor.benchmarks.swe.confirm import contradiction, smells
from proctor.benchmarks.swe.patches import ended
from proctor.benchmarks.swe.report import official_report
from proctor.benchmarks.swe.rows import Row
from proctor.benchmarks.swe.rules import FAILING, PASSING
from proctor.benchmarks.swe.steps import Trial
from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.errors import LimitReached
from proctor.core.evaluation import Evaluated, Prediction, TestSummary
from proctor.core.record import to_json
from proctor.core.verdict import TestOutcome, TestStatus, Verdict
from proctor.grading import audit_diff, protected_paths

LOG_BYTES: Final = 20_000_000
_STATUSES: Final = {
    "PASSED": TestStatus.PASSED,
    "FAILED": TestStatus.FAILED,
    "ERROR": TestStatus.ERROR,
    "SKIPPED": TestStatus.SKIPPED,
    "XFAIL": TestStatus.XFAILED,
}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """A run, and the one that was made after it alone, where it failed."""

    first: Trial
    again: Trial | None = None

    @property
    def counts(self) -> Trial:
        return self.again if self.again is not None else self.first

    @property
    def flaky(self) -> tuple[str, ...]:
        """The tests whose two results differ."""
        if self.again is None or not self.first.statuses or not self.again.statuses:
            return ()
        names = self.first.statuses.keys() | self.again.statuses.keys()
        return tuple(sorted(name for name in names if self.first.statuses.get(name) != self.again.statuses.get(name)))


async def grade(bench: Bench[R], prediction: Prediction) -> Evaluated:
    """Grade one answer."""
    patch = ended(prediction.content)
    shutil.rmtree(bench.folder, ignore_errors=True)
    bench.folder.mkdir(parents=True)
    (bench.folder / "patch.diff").write_bytes(patch)
    if not patch.strip() and not bench.procedure.grades_empty:
        return _evaluated(bench, prediction, _verdict(bench, Cause.EMPTY, "the patch is empty", None), None)
    official = await _outcome(bench, prediction.content, "official")
    protected = tuple(bench.task.private.protected)
    restored = protected_paths(official.first.touched, protected)
    # A diff without a line end at its end is torn to some graders, and nothing is lost by giving it one.
    apart = bool(restored) or patch != prediction.content
    strict = await _outcome(bench, patch, "strict", restore=restored) if apart else official
    repeated = await _repeat(bench, patch, restored, strict.counts)
    cause, reason = _judge(official.counts, strict.counts, restored, is_empty=not patch.strip())
    if repeated is not None and cause is Cause.SOLVED and not repeated.resolved:
        cause, reason = Cause.TESTS_FAILED, "the tests pass once and fail when they are run again"
    findings = audit_diff(patch, protected=protected)
    if cause is Cause.SOLVED and smells(findings, restored):
        async with bench.floor.shared():
            against = await contradiction(bench, patch, restored)
        if against is not None:
            cause, reason = Cause.TAMPERED, f"passes by what is printed alone: {against}"
    verdict = _verdict(bench, cause, reason, strict.counts)
    theirs = Status.RESOLVED if official.counts.resolved else Status.UNRESOLVED
    twice = _Outcome(strict.counts, repeated).flaky
    verdict = msgspec.structs.replace(
        verdict,
        official=theirs if theirs is not verdict.status else None,
        tests=_tests(bench.row, strict.counts),
        findings=findings,
        applied_with=strict.counts.applied_with,
        flaky=tuple(dict.fromkeys((*strict.flaky, *official.flaky, *twice))),
        seconds=strict.counts.seconds,
    )
    notes = [*_twice("official", official), *(_twice("strict", strict) if apart else ())]
    if restored:
        notes.append(f"put back before the tests: {', '.join(restored)}")
    (bench.folder / "outcomes.json").write_bytes(to_json(_outcomes(official, strict if apart else None)))
    return _evaluated(bench, prediction, verdict, strict.counts, notes=tuple(notes))


async def run_once(bench: Bench[R], patch: bytes, name: str, *, restore: tuple[str, ...] = ()) -> Trial:
    """One test run in a room of its own; what it printed is kept under `name`."""
    with tempfile.TemporaryDirectory(prefix="proctor-swe-") as scratch:
        spec = await furnished(bench, Path(scratch))
        async with await bench.place.provider.start(spec) as room:
            try:
                tested = await bench.procedure.test(
                    room, bench.row, bench.recipe, patch, restore=restore, seconds=bench.seconds
                )
            except LimitReached as limit:
                # A limit of the whole room: what reaches it came with the answer.
                tested = Trial(applied=True, unreadable=str(limit))
    await asyncio.to_thread(_keep, bench, tested, name)
    return msgspec.structs.replace(tested, log=b"")


async def _outcome(bench: Bench[R], patch: bytes, name: str, *, restore: tuple[str, ...] = ()) -> _Outcome:
    async with bench.floor.shared():
        first = await run_once(bench, patch, name, restore=restore)
    if first.resolved or not first.applied or not patch.strip() or not bench.again:
        return _Outcome(first)
    async with bench.floor.alone():
        return _Outcome(first, await run_once(bench, patch, f"{name}.alone", restore=restore))


async def _repeat(bench: Bench[R], patch: bytes, restore: tuple[str, ...], counted: Trial) -> Trial | None:
    """Further runs of an answer that passes, as many as were asked for; the first that fails, or the last."""
    again = None
    for number in range(1, bench.place.options.determinism_runs or 1):
        if not counted.resolved or (again is not None and not again.resolved):
            break
        async with bench.floor.shared():
            again = await run_once(bench, patch, f"repeat{number}", restore=restore)
    return again


def _judge(official: Trial, strict: Trial, restored: tuple[str, ...], *, is_empty: bool) -> tuple[Cause, str]:
    """Our verdict, from the run with protected files put back."""
    if strict.resolved:
        return Cause.SOLVED, _counts(strict)
    if is_empty:
        return Cause.EMPTY, "the patch is empty"
    if not strict.applied:
        return Cause.DOES_NOT_APPLY, f"the patch does not apply: {_last_line(strict.complaint)}"
    if official.resolved:
        return Cause.TAMPERED, f"passes only with its own {', '.join(restored)}; {why_unresolved(strict)[1]}"
    return why_unresolved(strict)


def why_unresolved(tested: Trial) -> tuple[Cause, str]:
    """Why an answer that applies does not solve the task."""
    if tested.timed_out:
        return Cause.TEST_TIMEOUT, "the tests took too long"
    if tested.ruling is None:
        return Cause.TESTS_VANISHED, tested.unreadable or tested.complaint or "no test results were found"
    fixed, kept = tested.ruling.fail_to_pass, tested.ruling.pass_to_pass
    if fixed.failure or not kept.failure:
        return Cause.TESTS_FAILED, f"{_counts(tested)}; first to fail: {next(iter(fixed.failure), 'the test program')}"
    return Cause.REGRESSION, f"{_counts(tested)}; first to break: {kept.failure[0]}"


def _counts(tested: Trial) -> str:
    ruling = tested.ruling
    if ruling is None:
        return "no test results"
    parts = [
        f"{len(tally.success)} of {len(tally.success) + len(tally.failure)} {name}"
        for name, tally in (("fail-to-pass", ruling.fail_to_pass), ("pass-to-pass", ruling.pass_to_pass))
        if tally.success or tally.failure
    ]
    return f"{' and '.join(parts)} pass" if parts else "no labels"


def _tests(row: Row, tested: Trial) -> tuple[TestOutcome, ...]:
    def after(test: str) -> TestStatus:
        word = tested.statuses.get(test)
        if word is None and tested.ruling is not None:
            fixed, kept = tested.ruling.fail_to_pass, tested.ruling.pass_to_pass
            if test in fixed.success or test in kept.success:
                return TestStatus.PASSED  # found by the beginning of its id
            if test in tested.ruling.fail_to_pass.failure and not tested.statuses:
                return TestStatus.FAILED
        return TestStatus.MISSING if word is None else _STATUSES.get(word, TestStatus.ERROR)

    if tested.ruling is None:
        return ()
    return tuple(
        TestOutcome(id=test, before=None, after=after(test)) for test in (*row.fail_to_pass, *row.pass_to_pass)
    )


def _verdict(bench: Bench[R], cause: Cause, reason: str, tested: Trial | None) -> Verdict:
    degree = bench.procedure.degree
    scores = {} if degree is None else {degree: 0.0 if tested is None else tested.scores.get(degree, 0.0)}
    return Verdict(
        task_id=bench.task.id,
        status=CONSEQUENCES[cause].status or Status.UNRESOLVED,
        cause=cause,
        reason=reason,
        score=None if degree is None else scores[degree],
        scores=scores,
        deviations=bench.recipe.deviations(),
        grader=bench.grader,
    )


def _twice(name: str, outcome: _Outcome) -> Iterator[str]:
    if outcome.again is not None:
        said = ["resolved" if run.resolved else "unresolved" for run in (outcome.first, outcome.again)]
        yield f"graded twice ({name}): {said[0]}, then {said[1]} alone"


def _outcomes(official: _Outcome, strict: _Outcome | None) -> dict[str, Any]:
    runs = {"official": official.first, "official_alone": official.again}
    if strict is not None:
        runs |= {"strict": strict.first, "strict_alone": strict.again}
    return {name: run for name, run in runs.items() if run is not None}


def _keep(bench: Bench[R], tested: Trial, name: str) -> None:
    folder = bench.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test_output.txt").write_bytes(_two_ends(tested.log))
    (folder / "report.json").write_text(json.dumps(official_report(bench.row.instance_id, tested), indent=4))


def _two_ends(log: bytes) -> bytes:
    """A log of a size that many tasks can leave behind."""
    if len(log) <= LOG_BYTES:
        return log
    half = LOG_BYTES // 2
    return log[:half] + b"\n[%d bytes left out]\n" % (len(log) - 2 * half) + log[-half:]


def _evaluated(
    bench: Bench[R], prediction: Prediction, verdict: Verdict, tested: Trial | None, *, notes: tuple[str, ...] = ()
) -> Evaluated:
    return Evaluated(
        task_id=bench.task.id,
        verdict=verdict,
        tags=bench.task.tags,
        notes=notes,
        model=prediction.model,
        patch_kind=prediction.patch_kind,
        patch_sha256=hashlib.sha256(prediction.content).hexdigest(),
        after_patch=None if tested is None or not tested.applied else _summary(tested),
        artifacts=str(bench.folder),
    )


def _summary(tested: Trial) -> TestSummary:
    words = list(tested.statuses.values())
    return TestSummary(
        ok=tested.resolved,
        exit_code=tested.exit_code,
        passed=sum(word in PASSING for word in words),
        failed=words.count("FAILED"),
        skipped=words.count("SKIPPED"),
        errors=sum(word in FAILING for word in words) - words.count("FAILED"),
        seconds=tested.seconds,
        report="report.json",
    )


def _last_line(text: str) -> str:
    with contextlib.suppress(IndexError):
        return text.strip().splitlines()[-1]
    return "no command takes it"
