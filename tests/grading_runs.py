"""Test runs in short, for the tests of the rules."""

from collections.abc import Mapping

from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveKind, InconclusiveRun, TestResults, TestRun

LETTERS = {
    "p": TestStatus.PASSED,
    "f": TestStatus.FAILED,
    "e": TestStatus.ERROR,
    "s": TestStatus.SKIPPED,
    "x": TestStatus.XFAILED,
    "X": TestStatus.XPASSED,
}


def ran(
    text: str, *, exit_code: int | None = None, broken: Mapping[str, str] | None = None, tampered: str = ""
) -> TestRun:
    """A complete run, in short: ``"a:p b:f"``."""
    tests = {name: LETTERS[letter] for name, _, letter in (item.partition(":") for item in text.split())}
    bad = broken or any(status in {TestStatus.FAILED, TestStatus.ERROR} for status in tests.values())
    code = exit_code if exit_code is not None else int(bool(bad))
    return TestRun(
        outcome=TestResults(tests=tests, broken=dict(broken or {}), tampered=tuple(tampered.split())), exit_code=code
    )


def failed(trouble: InconclusiveKind, partial: str = "") -> TestRun:
    known = ran(partial).tests
    return TestRun(outcome=InconclusiveRun(kind=trouble, reason="because", partial=dict(known)), exit_code=1)
