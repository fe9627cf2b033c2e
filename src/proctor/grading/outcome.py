"""What a run of the tests gave: a result for each test, or the reason why there is none."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import field, structs

from proctor.core.record import Record
from proctor.core.verdict import TestStatus

FROM_BEST_TO_WORST: Final = (
    TestStatus.PASSED,
    TestStatus.XFAILED,
    TestStatus.XPASSED,
    TestStatus.SKIPPED,
    TestStatus.FAILED,
    TestStatus.ERROR,
    TestStatus.MISSING,
)
_RANK: Final = {status: rank for rank, status in enumerate(FROM_BEST_TO_WORST)}


class InconclusiveKind(StrEnum):
    """Why a run gave no results."""

    NOT_STARTED = "not_started"  # the test program is missing, or could not be loaded
    TIMED_OUT = "timed_out"
    CUT_SHORT = "cut_short"  # it ended, by itself or by a signal, before every test was accounted for
    NO_REPORT = "no_report"  # the file that it should have written is not there
    FORGED = "forged"  # something else wrote into the channel
    MALFORMED = "malformed"  # what it wrote does not follow the format


class TestResults(Record, tag="results"):
    """A complete run.

    Attributes:
        tests: each test's status; where one id was reported more than once, the worst.
        broken: what failed without being a test (a module that cannot be imported, a package that does not build),
            with what is known of it.
        tampered: parts of the test machinery that changed while it was running.
    """

    tests: dict[str, TestStatus] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    tampered: tuple[str, ...] = ()


class InconclusiveRun(Record, tag="inconclusive"):
    """A run that proves nothing.

    Attributes:
        partial: what was reported before it went wrong: a hint, never a pass.
        tampered: as in `TestResults`.
    """

    kind: InconclusiveKind
    reason: str
    partial: dict[str, TestStatus] = field(default_factory=dict)
    tampered: tuple[str, ...] = ()


class TestRun(Record):
    """One run of the tests in an environment. `log` is what the tests printed, for people."""

    __test__ = False

    outcome: TestResults | InconclusiveRun
    exit_code: int
    seconds: float = 0.0
    log: bytes = b""

    @property
    def complete(self) -> bool:
        """Whether every test was accounted for."""
        return isinstance(self.outcome, TestResults)

    @property
    def tests(self) -> Mapping[str, TestStatus]:
        """Results that can be believed; empty when the run proves nothing."""
        return self.outcome.tests if isinstance(self.outcome, TestResults) else {}


def record_status(tests: dict[str, TestStatus], test_id: str, status: TestStatus) -> None:
    """Enter a status; what is already known of the test can only get worse."""
    known = tests.get(test_id)
    if known is None or _RANK[status] > _RANK[known]:
        tests[test_id] = status


def without_tests(run: TestRun, excluded: Sequence[str]) -> TestRun:
    """A run without the results of some tests; an id that ends in ``*`` names all that begin so.

    Where one of them failed, the exit code is what it is without them: such tests flip, and would take it along.
    """
    exact = {test for test in excluded if not test.endswith("*")}
    prefixes = tuple(test[:-1] for test in excluded if test.endswith("*"))

    def kept(tests: dict[str, TestStatus]) -> dict[str, TestStatus]:
        return {
            test: status
            for test, status in tests.items()
            if test not in exact and not (prefixes and test.startswith(prefixes))
        }

    if not excluded:
        return run
    if isinstance(run.outcome, InconclusiveRun):
        return structs.replace(run, outcome=structs.replace(run.outcome, partial=kept(run.outcome.partial)))
    tests = kept(run.outcome.tests)
    failing = {TestStatus.FAILED, TestStatus.ERROR, TestStatus.XPASSED}
    is_failing = bool(run.outcome.broken) or not failing.isdisjoint(tests.values())
    exit_code = run.exit_code if is_failing or len(tests) == len(run.outcome.tests) else 0
    return structs.replace(run, outcome=structs.replace(run.outcome, tests=tests), exit_code=exit_code)
