"""The official rule, with its two quirks."""

import json
from collections.abc import Mapping

import pytest

from proctor.benchmarks.commit0.official_score import official_command, official_score
from proctor.benchmarks.commit0.rows import Commit0Row, Commit0Setup, Commit0Tests

ROW = Commit0Row(
    instance_id="commit-0/a",
    repo="commit-0/a",
    setup=Commit0Setup(python="3.12"),
    test=Commit0Tests(test_cmd="pytest -n auto", test_dir="tests/"),
    src_dir="src/a/",
)


def report(outcomes: Mapping[str, str | None], summary: Mapping[str, int] | None = None) -> bytes:
    tests = [
        {"nodeid": name, **({"call": {"outcome": outcome}} if outcome else {"setup": {"outcome": "skipped"}})}
        for name, outcome in outcomes.items()
    ]
    return json.dumps({"tests": tests, "summary": summary or {}}).encode()


def test_a_phantom_test_always_fails() -> None:
    """With 140 of 140 passed, the official score of simpy is 140 / 141."""
    ids = [f"t{number}" for number in range(140)]
    given = official_score(ids, report(dict.fromkeys(ids, "passed")), None)
    assert (given.passed, given.tests) == (140, 141)
    assert given.score == pytest.approx(0.9929, abs=1e-4)


def test_a_test_that_fails_as_expected_is_meant_to_count_and_does_not() -> None:
    """pytest-json-report writes `skipped` where the rule looks for `xfail`."""
    assert official_score(["a", "b"], report({"a": "passed", "b": "skipped"}), None).passed == 1
    assert official_score(["a", "b"], report({"a": "passed", "b": "xfail"}), None).passed == 2


def test_skipped_and_missing_tests_count_as_failed() -> None:
    assert official_score(["a", "b", "c"], report({"a": None, "b": "failed", "z": "passed"}), None).passed == 0


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b'{"tests": 3, "summary": []}', b'{"tests": [1, {}]}'])
def test_without_a_report_nothing_has_passed(data: bytes | None) -> None:
    given = official_score(["a"], data, data)
    assert (given.passed, given.tests, given.resolved, given.coverage) == (0, 2, False, None)


def test_the_leaderboard_calls_resolved_what_passed_or_was_skipped() -> None:
    assert official_score([], report({}, {"passed": 3, "skipped": 1, "total": 4}), None).resolved
    assert not official_score([], report({}, {"passed": 3, "xfailed": 1, "total": 4}), None).resolved
    assert not official_score([], report({}, {"total": 0}), None).resolved


def test_coverage_is_a_share() -> None:
    assert official_score([], None, b'{"totals": {"percent_covered": 87.5}}').coverage == pytest.approx(0.875)
    assert official_score([], None, b'{"totals": {"percent_covered": 8750}}').coverage is None


def test_the_command_is_the_official_one() -> None:
    assert official_command(ROW) == (
        "pytest -n auto --json-report --json-report-file=report.json --continue-on-collection-errors"
        " --cov=src/a/ --cov-branch --cov-report json tests/ > test_output.txt 2>&1"
    )
