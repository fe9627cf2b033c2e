"""The log of SWE-bench's eval script: where the tests' output is in it, and when it says nothing at all."""

import re
from typing import Final

from proctor.benchmarks.swe.official_rules import FAILING
from proctor.benchmarks.swe.parsers import Parser, Statuses
from proctor.core.record import Record

START_MARKER: Final = ">>>>> Start Test Output"
END_MARKER: Final = ">>>>> End Test Output"
EXIT_CODE_MARKER: Final = ">>>>> Test Exit Code"
_VARIABLE: Final = "SWEBENCH_TEST_EXIT_CODE"
_FAILURE_MARKERS: Final = (
    ">>>>> Patch Apply Failed",
    ">>>>> Reset Failed",
    ">>>>> Tests Errored",
    ">>>>> Tests Timed Out",
)
_CODE: Final = re.compile(rf"{EXIT_CODE_MARKER}:\s*(-?\d+)")
# What a test program says when it has run at least one test, even if it names none.
_RAN_TESTS: Final = re.compile(
    r"Executed [1-9]\d* of \d+"
    r"|TOTAL: [1-9]\d* (?:SUCCESS|FAILED)"
    r"|[1-9]\d* passing"
    r"|Tests:\s+[1-9]\d*"
    r"|Test Suites:\s+(?:\d+ \w+, )*[1-9]\d* total"
    r"|^# tests [1-9]\d*"
    r"|[1-9]\d* specs?, \d+ failures?"
    r"|': ok$",
    re.MULTILINE,
)


class ParsedLog(Record):
    """What a log says.

    Attributes:
        unreadable: why nothing can be read from it; empty when something can.
    """

    statuses: dict[str, str]
    exit_code: int | None = None
    parse_error: str = ""


def read_log(log: str, parser: Parser) -> ParsedLog:
    """Read a log as SWE-bench 5 does."""
    log = _normalised_newlines(log)
    code = _CODE.search(log)
    exit_code = int(code[1]) if code else None
    if (problem := _log_problem(log)) is not None:
        return ParsedLog(statuses={}, exit_code=exit_code, parse_error=problem)
    statuses = parser(log.split(START_MARKER)[1].split(END_MARKER)[0]) or parser(log)
    if not statuses and not _RAN_TESTS.search(log):
        return ParsedLog(statuses={}, exit_code=exit_code, parse_error="no test has run")
    if exit_code and statuses and FAILING.isdisjoint(statuses.values()):
        reason = f"the tests ended with exit code {exit_code}, and the log shows no failure"
        return ParsedLog(statuses={}, exit_code=exit_code, parse_error=reason)
    return ParsedLog(statuses=statuses, exit_code=exit_code)


def read_log_v4(log: str, parser: Parser) -> ParsedLog:
    """Read a log as SWE-bench 4 did: without looking at the exit code."""
    log = _normalised_newlines(log)
    if (problem := _log_problem(log)) is not None:
        return ParsedLog(statuses={}, parse_error=problem)
    statuses: Statuses = parser(log.split(START_MARKER)[1].split(END_MARKER)[0]) or parser(log)
    return ParsedLog(statuses=statuses)


def _normalised_newlines(log: str) -> str:
    """The official graders read logs back in Python's text mode, in which a carriage return ends a line."""
    return log.replace("\r\n", "\n").replace("\r", "\n")


def _log_problem(log: str) -> str | None:
    for bad in _FAILURE_MARKERS:
        if bad in log:
            return f"the log says {bad!r}"
    return None if START_MARKER in log and END_MARKER in log else "the log ends before the tests do"


def with_line_before_tests(script: str, line: str) -> str:
    """An eval script that does one thing more before its tests."""
    lines = script.split("\n")
    marker = next((number for number, text in enumerate(lines) if START_MARKER in text), None)
    if marker is None or line == ":":
        return script
    return "\n".join([*lines[:marker], line, *lines[marker:]])


def with_exit_code(script: str) -> str:
    """An eval script that also says how the tests' own command ended, outside of what the parser reads."""
    lines = script.split("\n")
    for number, line in enumerate(lines):
        if END_MARKER in line:
            lines[number:number] = [f"{_VARIABLE}=$?"]
            lines.insert(number + 2, f'echo "{EXIT_CODE_MARKER}: ${_VARIABLE}"')
            break
    return "\n".join(lines)
