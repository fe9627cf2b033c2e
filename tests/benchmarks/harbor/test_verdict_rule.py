"""What a verifier leaves behind, and what is made of it."""

import json
import math
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observations import task_result
from proctor.benchmarks.harbor import HarborEvidence, judge
from proctor.benchmarks.harbor.verdict_rule import HarborControlCheck, read_rewards, read_statuses, read_tests
from proctor.benchmarks.terminal_bench.leaderboard import (
    LeaderboardScore,
    LeaderboardTrial,
    leaderboard_score,
    trials_of,
)
from proctor.core.causes import Cause, Status
from proctor.core.errors import UsageError
from proctor.core.record import from_json, read_record, to_json
from proctor.core.verdict import ControlSummary, Finding, TestStatus
from proctor.grading.state import GradingTarget, QuarantinedEnvironment, ShellResult
from proctor.results import new_run
from proctor.results.formats import ExportOptions, ImportOptions, export_run, find_format
from stored_runs import finish, store_trial


def seen(
    rewards: dict[str, float] | None,
    tests: dict[str, int] | None = None,
    *,
    expected: bool = True,
    timed_out: bool = False,
    fakes: tuple[str, ...] = (),
) -> HarborEvidence:
    return HarborEvidence(
        task_id="t",
        rewards=rewards,
        problem="" if rewards is not None else "the verifier wrote no reward",
        tests=tests,
        tests_expected=expected,
        verifier_run=ShellResult(exit_code=0, stdout="", stderr="", seconds=1.0, timed_out=timed_out),
        quarantine_result=QuarantinedEnvironment(grader_dir="", search_path="", fake_programs=fakes),
        environment="e",
    )


FULL, NONE = {"reward": 1.0}, {"reward": 0.0}


@pytest.mark.parametrize(
    ("what", "status", "cause", "official", "score"),
    [
        (seen(FULL, {"passed": 3}), Status.RESOLVED, Cause.SOLVED, None, 1.0),
        # Pytest that only collects prints a summary, and ends well.
        (seen(FULL, {"test": 3}), Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED, 0.0),
        (seen(FULL, {"passed": 0, "failed": 0}), Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED, 0.0),
        (seen(FULL, {"skipped": 3}), Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED, 0.0),
        (seen(NONE, {"passed": 2, "failed": 1}), Status.UNRESOLVED, Cause.TESTS_FAILED, None, 0.0),
        (seen({"reward": 0.25}, {"passed": 1}), Status.UNRESOLVED, Cause.TESTS_FAILED, None, 0.25),
        (seen({"a": 1.0, "b": 0.0}, expected=False), Status.UNRESOLVED, Cause.TESTS_FAILED, None, 0.5),
        (seen(FULL, expected=False), Status.RESOLVED, Cause.SOLVED, None, 1.0),
        (seen(NONE, expected=False), Status.UNRESOLVED, Cause.TESTS_FAILED, None, 0.0),
        # The verifier could not be installed: no sign of tests, and no reward.
        (seen(NONE), Status.ERROR, Cause.GRADER_FAILED, Status.UNRESOLVED, None),
        (seen(None), Status.ERROR, Cause.GRADER_FAILED, Status.UNRESOLVED, None),
        # It breaks where the agent has worked, and nowhere else.
        (msgspec.structs.replace(seen(NONE), works_untouched=True), Status.UNRESOLVED, Cause.TESTS_FAILED, None, 0.0),
        (msgspec.structs.replace(seen(None), works_untouched=True), Status.UNRESOLVED, Cause.TESTS_FAILED, None, 0.0),
        # A reward that nothing stands behind.
        (seen(FULL), Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED, 0.0),
        (seen(FULL, {"passed": 2, "failed": 1}), Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED, 0.0),
        (seen(FULL, {"passed": 2}, fakes=("uvx",)), Status.UNRESOLVED, Cause.TAMPERED, Status.RESOLVED, 0.0),
        (seen(FULL, {"passed": 2}, fakes=("git",)), Status.RESOLVED, Cause.SOLVED, None, 1.0),
        (seen(None, timed_out=True), Status.UNRESOLVED, Cause.TEST_TIMEOUT, None, 0.0),
        (seen(FULL, {"passed": 1}, timed_out=True), Status.UNRESOLVED, Cause.TEST_TIMEOUT, None, 0.0),
    ],
)
def test_the_verdicts(
    what: HarborEvidence, status: Status, cause: Cause, official: Status | None, score: float | None
) -> None:
    verdict = judge(what, "g")
    assert (verdict.status, verdict.cause, verdict.official) == (status, cause, official), verdict.reason
    assert verdict.score == score


@pytest.mark.parametrize(
    ("files", "rewards"),
    [
        ({"reward.txt": b"1\n"}, {"reward": 1.0}),
        ({"reward.txt": b"0.5"}, {"reward": 0.5}),
        ({"reward.txt": b"1", "reward.json": b'{"reward": 0}'}, {"reward": 0.0}),
        ({"reward.json": b'{"a": 1, "b": 0.5}'}, {"a": 1.0, "b": 0.5}),
        ({}, None),
        ({"reward.txt": b""}, None),
        ({"reward.txt": b"nan"}, None),
        ({"reward.txt": b"inf"}, None),
        ({"reward.txt": b"yes"}, None),
        ({"reward.txt": "\u0661".encode()}, None),
        ({"reward.json": b"1"}, None),
        ({"reward.json": b"{}"}, None),
        ({"reward.json": b'{"reward": true}'}, None),
        ({"reward.json": b'{"reward": NaN}'}, None),
        ({"reward.json": b'{"reward": {"a": 1}}'}, None),
        ({"reward.json": b'{"reward": 1', "reward.txt": b"1"}, None),
        # An integer that no float holds, and numbers whose sum is infinite.
        ({"reward.json": b'{"reward": 1' + b"0" * 400 + b"}"}, None),
        ({"reward.json": b'{"a": 1e308, "b": 1e308}'}, None),
        ({"reward.txt": b"1e308"}, None),
        ({"reward.json": json.dumps(dict.fromkeys(map(str, range(1000)), 1)).encode()}, None),
        ({"reward.json": json.dumps({"a" * 10_000: 1}).encode()}, None),
    ],
)
def test_rewards_are_finite_numbers_from_the_first_file_that_there_is(
    files: dict[str, bytes], rewards: dict[str, float] | None
) -> None:
    read, problem = read_rewards(files)
    assert read == rewards
    assert bool(problem) == (rewards is None)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([10**400, "a::b", "passed", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("results summary tests name status passed reward".split()), inner)  # noqa: SIM905 - names read best as words
    ),
)
_REPORT = st.fixed_dictionaries(
    {"results": st.fixed_dictionaries({}, optional={"summary": _JSON, "tests": st.lists(_JSON, max_size=3)})}
)


@given(
    st.dictionaries(
        st.sampled_from(["reward.json", "reward.txt", "ctrf.json"]),
        st.binary(max_size=40) | (_JSON | _REPORT).map(lambda value: json.dumps(value).encode()),
    )
)
def test_no_file_breaks_the_reading_of_what_a_verifier_left(files: dict[str, bytes]) -> None:
    read, _ = read_rewards(files)
    assert read is None or all(math.isfinite(number) for number in read.values())
    evidence = msgspec.structs.replace(
        seen(read, read_tests(files, "")), statuses=read_statuses(files, ""), verifier_runs=1
    )
    judge(from_json(to_json(evidence), HarborEvidence), "harbor/1")


def test_tests_are_counted_from_the_report_or_from_what_pytest_printed() -> None:
    report = {"results": {"summary": {"tests": 3, "passed": 2, "failed": 1, "skipped": 0, "start": 5}}}
    files = {"ctrf.json": json.dumps(report).encode()}
    assert read_tests(files, "") == {"passed": 2, "failed": 1, "skipped": 0}
    printed = (
        "collecting\n===== 1 failed, 2 passed, 1 warning in 0.12s =====\n===== 3 passed in 62.10s (0:01:02) =====\n"
    )
    assert read_tests({}, printed) == {"passed": 3}
    assert read_tests({}, printed.splitlines()[1]) == {"failed": 1, "passed": 2, "warning": 1}
    assert read_tests({"ctrf.json": b"{"}, "uvx: command not found") is None
    assert read_tests({"ctrf.json": b'{"results": {"summary": {"passed": 1e999}}}'}, "") is None


def test_the_leaderboard_s_score_is_the_mean_of_the_tasks_means_with_its_error() -> None:
    trials = [LeaderboardTrial(task_id="a", reward=reward) for reward in (1.0, 1.0, 0.0, 0.0, 0.0)]
    trials += [LeaderboardTrial(task_id="b", reward=1.0) for _ in range(4)] + [
        LeaderboardTrial(task_id="b", reward=None)
    ]
    score = leaderboard_score(trials, ["a", "b"])
    assert score.accuracy == pytest.approx((0.4 + 1.0) / 2)
    assert score.standard_error == pytest.approx(math.sqrt(0.4 * 0.6 / 4 + 0.0) / 2)
    assert (score.tasks, score.trials, score.dropped, score.missing) == (2, 9, 1, ())


def test_one_trial_of_a_task_gives_no_error_and_a_task_without_is_named() -> None:
    score = leaderboard_score(
        [LeaderboardTrial(task_id="a", reward=1.0), LeaderboardTrial(task_id="c", reward=None)], ["a", "b", "c"]
    )
    assert (score.accuracy, score.standard_error, score.missing) == (1.0, None, ("b", "c"))
    assert leaderboard_score([], ["a"]).accuracy is None


@given(st.dictionaries(st.text(max_size=3), st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=6), min_size=1))
def test_the_error_is_that_of_a_mean_of_independent_means(rewards: dict[str, list[float]]) -> None:
    score = leaderboard_score(
        [LeaderboardTrial(task_id=task, reward=reward) for task, got in rewards.items() for reward in got],
        list(rewards),
    )
    # For rewards of 0 and 1, p(1-p)/(n-1) is the sample variance of the mean.
    variances = []
    for got in rewards.values():
        mean = sum(got) / len(got)
        variances.append(sum((one - mean) ** 2 for one in got) / (len(got) - 1) / len(got))
    assert score.standard_error == pytest.approx(math.sqrt(sum(variances)) / len(rewards), abs=1e-12)


def test_a_run_s_results_become_trials_as_the_leaderboard_counts_them() -> None:
    judged = {
        "solved": judge(seen(FULL, {"passed": 1}), "g"),
        "partly": judge(seen({"reward": 0.5}, {"passed": 1}), "g"),
        "broken": judge(seen(None), "g"),
        "late": judge(seen(None, timed_out=True), "g"),
        "forged": judge(seen(FULL), "g"),
    }
    results = [task_result(name, verdict.cause, verdict=verdict) for name, verdict in judged.items()]
    results.append(task_result("lost", Cause.ENGINE_GONE))
    results.append(task_result("empty", Cause.EMPTY))
    rewards = {trial.task_id: trial.reward for trial in trials_of(results)}
    assert rewards == {
        "solved": 1.0,
        "partly": 0.5,
        "broken": 0.0,
        "late": 0.0,
        "forged": 0.0,
        "lost": None,
        "empty": 0.0,
    }


def test_a_run_is_exported_with_its_score_and_says_what_does_not_count(tmp_path: Path) -> None:
    store = new_run("terminal_bench", root=tmp_path)
    for task, trial, cause in (("a", 1, Cause.SOLVED), ("a", 2, Cause.TESTS_FAILED), ("b", 1, Cause.PROVIDER_ERROR)):
        store_trial(store, task, cause, trial=trial)
    finish(store)
    target = tmp_path / "score.json"
    exported = export_run(store, find_format("terminal-bench"), target, ExportOptions())
    score = read_record(target, LeaderboardScore)
    assert (score.accuracy, score.trials, score.dropped, score.missing) == (0.5, 2, 1, ("b",))
    assert exported.left_out == (
        "1 trial that the run has not recorded",
        "1 lost to errors, which do not count",
        "b has no trial that counts",
    )
    with pytest.raises(UsageError, match="a score does not hold the trials"):
        find_format("terminal-bench").read(target, ImportOptions())


def test_the_control_check_on_copies_decides_over_a_full_reward() -> None:
    summary = ControlSummary(pairs=1, controlled=2)
    finding = Finding(code="control-passed", path="test_outputs.py", detail="d")
    passes = HarborControlCheck(target=GradingTarget.COPY, controls=summary)
    assert msgspec.json.decode(msgspec.json.encode(passes))["place"] == "copy", "the stored key"
    against = HarborControlCheck(
        target=GradingTarget.COPY, controls=summary, cause=Cause.TAMPERED, reason="why", findings=(finding, finding)
    )
    first, second = [
        judge(msgspec.structs.replace(seen(FULL, {"passed": 2}), control_check=control_check), "g")
        for control_check in (passes, against)
    ]
    assert (first.status, first.score, first.controls) == (Status.RESOLVED, 1.0, summary)
    assert (second.status, second.cause, second.reason, second.score) == (
        Status.UNRESOLVED,
        Cause.TAMPERED,
        "why",
        0.0,
    )
    assert (second.official, second.findings) == (Status.RESOLVED, (finding,))


def test_single_tests_are_read_from_the_report_or_from_the_output() -> None:
    tests = [{"name": "tests/test_outputs.py::test_a[1]", "status": "passed"}, {"name": "b", "status": "skipped"}]
    files = {"ctrf.json": json.dumps({"results": {"tests": tests}}).encode()}
    assert read_statuses(files, "") == {"test_outputs.py::test_a[1]": TestStatus.PASSED, "b": TestStatus.SKIPPED}
    output = (
        "PASSED ../tests/test_outputs.py::test_a\nFAILED ../tests/more/test_b.py::T::test_b - assert 1 == 2\nPASSED x\n"
    )
    assert read_statuses({}, output) == {
        "test_outputs.py::test_a": TestStatus.PASSED,
        "more/test_b.py::T::test_b": TestStatus.FAILED,
    }
    assert read_statuses({"ctrf.json": b"[[[["}, "") == {}
