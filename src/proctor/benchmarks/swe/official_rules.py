"""The four official rules: from test statuses to what the benchmark's own grader says. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from proctor.core.record import Record

PASSING: Final = frozenset({"PASSED", "XFAIL"})
FAILING: Final = frozenset({"FAILED", "ERROR"})


class LabelResults(Record):
    """Labels, divided by whether they came out as they should. The older rule ignores skips: they are in neither."""

    success: tuple[str, ...] = ()
    failure: tuple[str, ...] = ()


class OfficialRuling(Record):
    """What an official rule makes of one test run."""

    resolved: bool
    fail_to_pass: LabelResults = LabelResults()
    pass_to_pass: LabelResults = LabelResults()

    @property
    def fix_rate(self) -> float:
        """SWE-EVO's degree: the share of labels that were fixed, nothing at all once something was broken."""
        labels = len(self.fail_to_pass.success) + len(self.fail_to_pass.failure)
        if self.pass_to_pass.failure or not labels:
            return 0.0
        return len(self.fail_to_pass.success) / labels


_LabelRule = Callable[[str, Mapping[str, str]], bool | None]


def swe_bench(
    statuses: Mapping[str, str], fail_to_pass: Sequence[str], pass_to_pass: Sequence[str], *, fail_only: bool = False
) -> OfficialRuling:
    """SWE-bench from version 5 on.

    A label passes with PASSED or XFAIL. A skipped test is no fix, and no regression either. Ids that the data set has
    cut off within their parameters match by their beginning, where all that begin so agree.
    """
    if fail_only:
        return _rule(statuses, fail_to_pass, pass_to_pass, _not_failed, _not_failed)
    return _rule(statuses, fail_to_pass, pass_to_pass, _fixed, _not_broken)


def swe_bench_v4(
    statuses: Mapping[str, str], fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]
) -> OfficialRuling:
    """SWE-bench up to 4.1, on which SWE-EVO rests: a skipped test is ignored, ids match whole."""
    return _rule(statuses, fail_to_pass, pass_to_pass, _passed_v4, _passed_v4)


def swe_bench_pro(
    statuses: Mapping[str, str], fail_to_pass: Sequence[str], pass_to_pass: Sequence[str]
) -> OfficialRuling:
    """SWE-bench Pro: every label is among the tests with status PASSED."""
    return _rule(statuses, fail_to_pass, pass_to_pass, _is_passed, _is_passed)


def pass_rate(statuses: Mapping[str, str]) -> float:
    """FeatureBench's degree: the share of tests that pass, of those that pass or fail."""
    passed = sum(status in PASSING for status in statuses.values())
    failed = sum(status in FAILING for status in statuses.values())
    return round(passed / (passed + failed), 4) if passed + failed else 0.0


def _rule(
    statuses: Mapping[str, str],
    fail_to_pass: Sequence[str],
    pass_to_pass: Sequence[str],
    fixed: _LabelRule,
    kept: _LabelRule,
) -> OfficialRuling:
    first, second = _label_results(statuses, fail_to_pass, fixed), _label_results(statuses, pass_to_pass, kept)
    return OfficialRuling(resolved=not first.failure and not second.failure, fail_to_pass=first, pass_to_pass=second)


def _label_results(statuses: Mapping[str, str], labels: Sequence[str], judge: _LabelRule) -> LabelResults:
    judged = [(label, judge(label, statuses)) for label in labels]
    return LabelResults(
        success=tuple(label for label, good in judged if good),
        failure=tuple(label for label, good in judged if good is False),
    )


def _fixed(label: str, statuses: Mapping[str, str]) -> bool | None:
    status = _status(label, statuses)
    if status in PASSING:
        return True
    return False if status is None or status in FAILING or status == "SKIPPED" else None


def _not_broken(label: str, statuses: Mapping[str, str]) -> bool | None:
    return True if _status(label, statuses) == "SKIPPED" else _fixed(label, statuses)


def _passed_v4(label: str, statuses: Mapping[str, str]) -> bool | None:
    status = statuses.get(label)
    if status in PASSING:
        return True
    return False if status is None or status in FAILING else None


def _is_passed(label: str, statuses: Mapping[str, str]) -> bool:
    return statuses.get(label) == "PASSED"


def _not_failed(label: str, statuses: Mapping[str, str]) -> bool:
    return statuses.get(label) != "FAILED"


def _status(label: str, statuses: Mapping[str, str]) -> str | None:
    """The status of a label; of one that was cut off, that of all whose ids begin with it, if they agree."""
    if label in statuses:
        return statuses[label]
    if label.count("[") <= label.count("]"):
        return None
    found = [status for name, status in statuses.items() if name.startswith(label)]
    agreed = len({status in PASSING for status in found}) == 1
    return found[0] if agreed else None
