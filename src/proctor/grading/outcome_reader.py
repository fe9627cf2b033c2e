"""What a finished test command proved."""

import signal
from collections.abc import Callable, Mapping
from typing import Final

from proctor.core.environment import ExecResult, OneShotResult
from proctor.core.verdict import TestStatus
from proctor.grading.go_test_json import parse_go_events
from proctor.grading.junit import parse_junit
from proctor.grading.outcome import InconclusiveKind, InconclusiveRun, TestResults, TestRun, record_status
from proctor.grading.plan import EXIT_NO_REPORT_DIRECTORY, REPORTER_FORMATS, TestCommand, TestFormat
from proctor.grading.reporter_records import parse_records, parse_worker_records
from proctor.grading.tap import parse_tap

EXIT_CODE_TEST: Final = "exit code"
_CANNOT_RUN: Final = {126, 127}
_KILLED: Final = 128  # plus the signal's number, as in a shell
_FAILING: Final = frozenset({TestStatus.FAILED, TestStatus.ERROR, TestStatus.XPASSED})
_PARSERS: Final[dict[TestFormat, Callable[[bytes], TestResults | InconclusiveRun]]] = {
    TestFormat.JUNIT: parse_junit,
    TestFormat.TAP: parse_tap,
    TestFormat.GO: parse_go_events,
}


def read_outcome(test_command: TestCommand, result: ExecResult, reports: Mapping[str, bytes] | None) -> TestRun:
    """Judge how a command ended. `reports` are the files found at its fresh path; None: none was there."""
    is_ours = test_command.format in REPORTER_FORMATS
    return TestRun(
        outcome=_reporter_outcome(test_command, result)
        if is_ours
        else _external_outcome(test_command, result, reports),
        exit_code=result.exit_code,
        seconds=result.seconds,
        log=result.stderr if is_ours else result.stdout + result.stderr,
    )


def read_worker_outcome(result: OneShotResult, token: bytes) -> TestRun:
    """Judge how a worker ended that had an environment to itself."""
    ended = result.exec_result
    outcome = parse_worker_records(result.report, token, ended.exit_code)
    return TestRun(
        outcome=_checked_outcome(outcome, ended, truncated=result.report_truncated),
        exit_code=ended.exit_code,
        seconds=ended.seconds,
        log=ended.stdout,
    )


def _reporter_outcome(test_command: TestCommand, result: ExecResult) -> TestResults | InconclusiveRun:
    return _checked_outcome(parse_records(result.stdout, test_command.key), result, truncated=result.truncated)


def _checked_outcome(
    outcome: TestResults | InconclusiveRun, result: ExecResult, *, truncated: bool
) -> TestResults | InconclusiveRun:
    if result.timed_out:
        return _timed_out(result, outcome)
    if truncated and isinstance(outcome, InconclusiveRun) and outcome.kind is InconclusiveKind.FORGED:
        # What looks like a forged record is the place where the middle was left out.
        return _OUTPUT_TRUNCATED
    return outcome


def _external_outcome(
    test_command: TestCommand, result: ExecResult, reports: Mapping[str, bytes] | None
) -> TestResults | InconclusiveRun:
    if result.timed_out:
        return _timed_out(result, TestResults())
    if result.exit_code in _CANNOT_RUN:
        reason = f"the test command could not be run (exit code {result.exit_code})"
        return InconclusiveRun(kind=InconclusiveKind.NOT_STARTED, reason=reason)
    if test_command.report_path is not None and result.exit_code == EXIT_NO_REPORT_DIRECTORY and not reports:
        return InconclusiveRun(
            kind=InconclusiveKind.NOT_STARTED, reason="no fresh directory could be made for the report"
        )
    if test_command.format is TestFormat.EXIT_CODE:
        return TestResults(tests={EXIT_CODE_TEST: TestStatus.FAILED if result.exit_code else TestStatus.PASSED})
    parse = _PARSERS[test_command.format]
    if test_command.report_path is None:
        outcome = _OUTPUT_TRUNCATED if result.truncated else parse(result.stdout)
    elif not reports:
        outcome = InconclusiveRun(kind=InconclusiveKind.NO_REPORT, reason="the test command left no report")
    else:
        outcome = _merge([parse(data) for _, data in sorted(reports.items())])
    return _agreed_outcome(outcome, result.exit_code)


def _agreed_outcome(outcome: TestResults | InconclusiveRun, exit_code: int) -> TestResults | InconclusiveRun:
    """What a program reported, as far as the way it ended agrees with that: anybody can print a report."""
    if isinstance(outcome, InconclusiveRun) or exit_code == 0:
        return outcome
    if exit_code > _KILLED:
        number = exit_code - _KILLED
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        reason = f"the test command was killed by {name}"
    elif outcome.broken or not _FAILING.isdisjoint(outcome.tests.values()):
        return outcome
    else:
        reason = f"the test command ended with exit code {exit_code}, and its report has no failure"
    return InconclusiveRun(kind=InconclusiveKind.CUT_SHORT, reason=reason, partial=outcome.tests)


_OUTPUT_TRUNCATED: Final = InconclusiveRun(
    kind=InconclusiveKind.MALFORMED, reason="the tests printed more than can be kept"
)


def _timed_out(result: ExecResult, outcome: TestResults | InconclusiveRun) -> InconclusiveRun:
    return InconclusiveRun(
        kind=InconclusiveKind.TIMED_OUT,
        reason=f"the tests were still running after {result.seconds:.0f} s",
        partial=outcome.tests if isinstance(outcome, TestResults) else outcome.partial,
        tampered=outcome.tampered,
    )


def _merge(outcomes: list[TestResults | InconclusiveRun]) -> TestResults | InconclusiveRun:
    tests: dict[str, TestStatus] = {}
    broken: dict[str, str] = {}
    for outcome in outcomes:
        if isinstance(outcome, InconclusiveRun):
            return outcome
        for test, status in outcome.tests.items():
            record_status(tests, test, status)
        broken |= outcome.broken
    return TestResults(tests=tests, broken=broken)
