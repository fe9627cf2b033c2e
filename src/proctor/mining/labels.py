"""From test runs before and after a change to labels: which tests decide, and which decide nothing, and why."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from proctor.benchmarks.suites.format import ExcludedTest
from proctor.core.record import Record
from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveRun, TestRun

_FAILING: Final = frozenset({TestStatus.FAILED, TestStatus.ERROR, TestStatus.MISSING})
DEPENDS_ON_DATE: Final = "depends on the date"
NEEDS_NETWORK: Final = "needs the network"
# Ids made from what differs from run to run: addresses of objects, times, random numbers.
_UNSTABLE: Final = re.compile(r"0x[0-9a-f]{6,}|\bat \d{6,}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d|[0-9a-f]{8}-[0-9a-f]{4}-")


class Labels(Record):
    """What the runs showed."""

    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    excluded: tuple[ExcludedTest, ...]


def label_tests(
    before: Sequence[TestRun],
    after: Sequence[TestRun],
    other_date: TestRun | None = None,
    *,
    need_network: Collection[str] = (),
) -> Labels:
    """Label every test by what really happened.

    A test decides when it ended alike in all runs before and in all runs after, also under another date. Those of
    `need_network` failed after the change, and passed with the network.
    """
    results_before, results_after = [_known(run) for run in before], [_known(run) for run in after]
    shifted = _known(other_date) if other_date is not None and other_date.complete else None
    fail, keep, excluded = [], [], {}
    for test in sorted({name for run in (*results_before, *results_after) for name in run}):
        was = {run.get(test, TestStatus.MISSING) for run in results_before}
        became = {run.get(test, TestStatus.MISSING) for run in results_after}
        if len(was) > 1 or len(became) > 1:
            excluded[_pattern(test, was | became)] = "flips between runs"
            continue
        (first,), (last,) = was, became
        if shifted is not None and last is TestStatus.PASSED and shifted.get(test, TestStatus.MISSING) is not last:
            excluded[_pattern(test, {shifted.get(test, TestStatus.MISSING)})] = DEPENDS_ON_DATE
        elif test in need_network:
            excluded[test] = NEEDS_NETWORK
        elif _UNSTABLE.search(test) and TestStatus.MISSING in {first, last}:
            excluded[_pattern(test, {TestStatus.MISSING})] = "its name differs from run to run"
        elif last is TestStatus.PASSED and first is TestStatus.PASSED:
            keep.append(test)
        elif last is TestStatus.PASSED and first in _FAILING:
            fail.append(test)
        elif first is not last:
            excluded[test] = f"goes from {first.value} to {last.value}"
    patterns = tuple(name[:-1] for name in excluded if name.endswith("*"))

    def decides(test: str) -> bool:
        return not (patterns and test.startswith(patterns))

    return Labels(
        fail_to_pass=tuple(filter(decides, fail)),
        pass_to_pass=tuple(filter(decides, keep)),
        excluded=tuple(ExcludedTest(id=test, reason=reason) for test, reason in sorted(excluded.items())),
    )


def _pattern(test: str, statuses: set[TestStatus]) -> str:
    """The id of a test that is left out; where the id itself comes and goes, all ids of the same function."""
    if TestStatus.MISSING in statuses and test.endswith("]") and "[" in test:
        return f"{test.partition('[')[0]}[*"
    return test


def _known(run: TestRun) -> Mapping[str, TestStatus]:
    return run.outcome.partial if isinstance(run.outcome, InconclusiveRun) else run.outcome.tests
