"""What a finished test command proved."""

from collections.abc import Callable, Mapping
from typing import Final

from proctor.core.environment import ErrandResult, ExecResult
from proctor.core.verdict import TestStatus
from proctor.grading.go_events import parse_go_events
from proctor.grading.junit import parse_junit
from proctor.grading.outcome import Results, TestRun, Trouble, Unreadable, note
from proctor.grading.plan import NO_DIRECTORY, REPORTED, Prepared, TestFormat
from proctor.grading.records import parse_records, parse_worker_records
from proctor.grading.tap import parse_tap

EXIT_CODE_TEST: Final = "exit code"
_CANNOT_RUN: Final = {126, 127}
_PARSERS: Final[dict[TestFormat, Callable[[bytes], Results | Unreadable]]] = {
    TestFormat.JUNIT: parse_junit,
    TestFormat.TAP: parse_tap,
    TestFormat.GO: parse_go_events,
}


def read_outcome(prepared: Prepared, ended: ExecResult, reports: Mapping[str, bytes] | None) -> TestRun:
    """Judge how a command ended. `reports` are the files found at its fresh path; None: none was there."""
    is_ours = prepared.format in REPORTED
    return TestRun(
        outcome=_reported(prepared, ended) if is_ours else _foreign(prepared, ended, reports),
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        log=ended.stderr if is_ours else ended.stdout + ended.stderr,
    )


def read_errand(result: ErrandResult, token: bytes) -> TestRun:
    """Judge how a worker ended that had a room to itself."""
    ended = result.ended
    outcome = parse_worker_records(result.report, token, ended.exit_code)
    return TestRun(
        outcome=_believed(outcome, ended, truncated=result.report_truncated),
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        log=ended.stdout,
    )


def _reported(prepared: Prepared, ended: ExecResult) -> Results | Unreadable:
    return _believed(parse_records(ended.stdout, prepared.key), ended, truncated=ended.truncated)


def _believed(outcome: Results | Unreadable, ended: ExecResult, *, truncated: bool) -> Results | Unreadable:
    if ended.timed_out:
        return _timed_out(ended, outcome)
    if truncated and isinstance(outcome, Unreadable) and outcome.trouble is Trouble.FORGED:
        # What looks like a forged record is the place where the middle was left out.
        return _TOO_MUCH
    return outcome


def _foreign(prepared: Prepared, ended: ExecResult, reports: Mapping[str, bytes] | None) -> Results | Unreadable:
    if ended.timed_out:
        return _timed_out(ended, Results())
    if ended.exit_code in _CANNOT_RUN:
        reason = f"the test command could not be run (exit code {ended.exit_code})"
        return Unreadable(trouble=Trouble.NOT_STARTED, reason=reason)
    if prepared.report is not None and ended.exit_code == NO_DIRECTORY and not reports:
        return Unreadable(trouble=Trouble.NOT_STARTED, reason="no fresh directory could be made for the report")
    if prepared.format is TestFormat.EXIT_CODE:
        return Results(tests={EXIT_CODE_TEST: TestStatus.FAILED if ended.exit_code else TestStatus.PASSED})
    parse = _PARSERS[prepared.format]
    if prepared.report is None:
        return _TOO_MUCH if ended.truncated else parse(ended.stdout)
    if not reports:
        return Unreadable(trouble=Trouble.NO_REPORT, reason="the test command left no report")
    return _merge([parse(data) for _, data in sorted(reports.items())])


_TOO_MUCH: Final = Unreadable(trouble=Trouble.MALFORMED, reason="the tests printed more than can be kept")


def _timed_out(ended: ExecResult, heard: Results | Unreadable) -> Unreadable:
    return Unreadable(
        trouble=Trouble.TIMED_OUT,
        reason=f"the tests were still running after {ended.seconds:.0f} s",
        partial=heard.tests if isinstance(heard, Results) else heard.partial,
        tampered=heard.tampered,
    )


def _merge(outcomes: list[Results | Unreadable]) -> Results | Unreadable:
    tests: dict[str, TestStatus] = {}
    broken: dict[str, str] = {}
    for outcome in outcomes:
        if isinstance(outcome, Unreadable):
            return outcome
        for test, status in outcome.tests.items():
            note(tests, test, status)
        broken |= outcome.broken
    return Results(tests=tests, broken=broken)
