"""The official evaluation: its command, its report, and its rule, quirks included.

The rule divides by one test too many: the list of ids is joined from two, the second of which holds one empty name, so
that a perfect library scores N / (N + 1). It also means to count a test that fails as expected, but looks for a word
(``xfail``) that pytest-json-report does not write: such a test has ``skipped`` as the outcome of its call.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from proctor.benchmarks.commit0.rows import Commit0Row
from proctor.core.record import Record

REPORT: Final = "report.json"
COVERAGE: Final = "coverage.json"
_EXTRA_EMPTY_ID: Final = ""
_COUNTED: Final = frozenset({"passed", "xfail"})


class Commit0OfficialScore(Record):
    """What the official evaluation says.

    Attributes:
        score: passed / (number of tests + 1).
        resolved: as the leaderboard counts it: every test that was run passed or was skipped.
        coverage: the share of lines and branches that the tests ran, between 0 and 1.
    """

    passed: int
    tests: int
    score: float
    resolved: bool
    reported: bool
    coverage: float | None = None


def official_command(row: Commit0Row) -> str:
    """The shell command that runs the tests, with coverage."""
    source = shlex.quote(row.src_dir)
    return (
        f"{row.test.test_cmd} --json-report --json-report-file={REPORT} --continue-on-collection-errors"
        f" --cov={source} --cov-branch --cov-report json {shlex.quote(row.test.test_dir)}"
        " > test_output.txt 2>&1"
    )


def official_score(ids: Sequence[str], report: bytes | None, coverage: bytes | None) -> Commit0OfficialScore:
    """Apply the rule. A report that is not there, or cannot be read, is a score of 0."""
    wanted = (*ids, _EXTRA_EMPTY_ID)
    read = _object(report)
    outcomes = _call_outcomes(read)
    passed = sum(outcomes.get(test, "failed") in _COUNTED for test in wanted)
    summary = read.get("summary") if isinstance(read.get("summary"), dict) else {}
    return Commit0OfficialScore(
        passed=passed,
        tests=len(wanted),
        score=passed / len(wanted),
        resolved=_is_resolved(summary or {}),
        reported=bool(read),
        coverage=_coverage(_object(coverage)),
    )


def _object(data: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(data) if data else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _call_outcomes(report: Mapping[str, Any]) -> dict[str, str]:
    """The outcome of each test's call; a test that was skipped, or failed before, has none."""
    found = {}
    tests = report.get("tests")
    for test in tests if isinstance(tests, list) else ():
        call = test.get("call") if isinstance(test, dict) else None
        if isinstance(call, dict):
            found[str(test.get("nodeid"))] = str(call.get("outcome"))
    return found


def _is_resolved(summary: Mapping[str, Any]) -> bool:
    total = summary.get("total")
    good = sum(number for name in ("passed", "skipped") if isinstance(number := summary.get(name), int))
    return isinstance(total, int) and total > 0 and good == total


def _coverage(report: Mapping[str, Any]) -> float | None:
    totals = report.get("totals")
    percent = totals.get("percent_covered") if isinstance(totals, dict) else None
    return percent / 100 if isinstance(percent, int | float) and 0 <= percent <= 100 else None  # noqa: PLR2004 - percent
