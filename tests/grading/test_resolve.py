import pytest
from hypothesis import given
from hypothesis import strategies as st

from grading_runs import LETTERS, failed, ran
from proctor.core.causes import Cause, Status
from proctor.core.verdict import TestOutcome, TestStatus
from proctor.grading import (
    Expectation,
    InconclusiveKind,
    InconclusiveRun,
    Resolution,
    TestResults,
    TestRun,
    flaky_tests,
    resolve,
)

LABELS = Expectation(fail_to_pass=("new",), pass_to_pass=("old",))
NONE = Expectation()
BEFORE = ran("new:f old:p")


def judged(before: TestRun | None, after: TestRun, expectation: Expectation) -> tuple[str, str]:
    resolution = resolve(before, after, expectation)
    return resolution.status.value, resolution.cause.value


@pytest.mark.parametrize(
    ("after", "status", "cause"),
    [
        (ran("new:p old:p"), "resolved", "solved"),
        (ran("new:p old:p other:f"), "resolved", "solved"),
        (ran("new:f old:p"), "unresolved", "tests_failed"),
        (ran("new:e old:p"), "unresolved", "tests_failed"),
        (ran("new:s old:p"), "unresolved", "tests_failed"),
        (ran("new:x old:p"), "unresolved", "tests_failed"),
        (ran("new:X old:p"), "unresolved", "tests_failed"),
        (ran("new:f old:f"), "unresolved", "tests_failed"),
        (ran("new:p old:f"), "unresolved", "regression"),
        (ran("new:p old:s"), "unresolved", "regression"),
        (ran("old:p"), "unresolved", "tests_vanished"),
        (ran("new:p"), "unresolved", "tests_vanished"),
        (ran(""), "unresolved", "tests_vanished"),
        (ran("", broken={"tests.new": "ImportError"}), "unresolved", "tests_failed"),
        (ran("new:p", broken={"tests.old": "ImportError"}), "unresolved", "regression"),
        (ran("new:p old:p", broken={"teardown": "x"}), "resolved", "solved"),
        (ran("new:p old:p", tampered="TestCase.run"), "unresolved", "tampered"),
        (failed(InconclusiveKind.TIMED_OUT, "new:p old:p"), "unresolved", "test_timeout"),
        (failed(InconclusiveKind.CUT_SHORT, "new:p old:p"), "unresolved", "tests_vanished"),
        (failed(InconclusiveKind.NO_REPORT), "unresolved", "tests_vanished"),
        (failed(InconclusiveKind.MALFORMED), "unresolved", "tests_vanished"),
        (failed(InconclusiveKind.FORGED, "new:p old:p"), "unresolved", "tampered"),
        (failed(InconclusiveKind.NOT_STARTED), "unresolved", "tests_vanished"),
    ],
)
def test_labelled_tests_decide_and_the_submission_answers_for_what_came_after_it(
    after: TestRun, status: str, cause: str
) -> None:
    assert judged(BEFORE, after, LABELS) == (status, cause)


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (ran("new:p old:p"), "fail_to_pass 'new' passes already"),
        (ran("new:f old:f"), "pass_to_pass 'old' is failed"),
        (ran("new:f old:s"), "pass_to_pass 'old' is skipped"),
        (ran("new:f"), "pass_to_pass 'old' is not there"),
        (failed(InconclusiveKind.TIMED_OUT, "new:f"), "pass_to_pass 'old' is not there without a submission (because)"),
    ],
)
def test_labels_that_do_not_fit_the_pristine_tree_are_the_tasks_fault_and_are_named(
    before: TestRun, words: str
) -> None:
    resolution = resolve(before, ran("new:p old:p"), LABELS)
    assert (resolution.status, resolution.cause) == (Status.ERROR, Cause.INVALID_TASK)
    assert words in resolution.reason


@pytest.mark.parametrize(
    "before", [ran("old:p"), ran("old:p", broken={"tests.new": "x"}), failed(InconclusiveKind.CUT_SHORT, "old:p new:e")]
)
def test_a_fail_to_pass_test_need_not_exist_before(before: TestRun) -> None:
    assert judged(before, ran("new:p old:p"), LABELS) == ("resolved", "solved")


def test_a_label_of_both_kinds_is_the_tasks_fault() -> None:
    both = Expectation(fail_to_pass=("a",), pass_to_pass=("a",))
    assert judged(ran("a:f"), ran("a:p"), both) == ("error", "invalid_task")


def test_tests_that_never_start_on_the_pristine_tree_are_not_the_submissions_failure() -> None:
    assert judged(failed(InconclusiveKind.NOT_STARTED), ran("new:p old:p"), LABELS) == ("error", "missing_program")
    assert judged(None, failed(InconclusiveKind.NOT_STARTED), LABELS) == ("error", "missing_program")


@pytest.mark.parametrize(
    ("before", "after", "status", "cause"),
    [
        (ran("a:f b:p"), ran("a:p b:p"), "resolved", "solved"),
        (ran("a:f b:p"), ran("a:p b:p c:p"), "resolved", "solved"),
        (ran("a:f b:p"), ran("a:f b:p"), "unresolved", "tests_failed"),
        (ran("a:f b:p"), ran("a:p b:f"), "unresolved", "regression"),
        (ran("a:f b:p"), ran("a:f b:f"), "unresolved", "tests_failed"),
        (ran("a:f b:p"), ran("a:p"), "unresolved", "tests_vanished"),
        (ran("a:f b:p"), ran(""), "unresolved", "tests_vanished"),
        (ran("a:f b:p"), ran("a:s b:p"), "unresolved", "tests_failed"),
        (ran("a:f b:p"), ran("a:x b:p"), "unresolved", "tests_failed"),
        (ran("a:f b:s"), ran("a:p b:s"), "resolved", "solved"),
        (ran("a:f b:x"), ran("a:p b:x"), "resolved", "solved"),
        (ran("a:f"), ran("a:p", exit_code=2), "unresolved", "tests_failed"),
        (ran("a:f"), ran("a:p", broken={"m": "x"}), "unresolved", "tests_failed"),
        (ran("a:p"), ran("a:p"), "error", "invalid_task"),
        (ran("a:p b:s"), ran("a:p b:s"), "error", "invalid_task"),
        (ran("a:p", exit_code=1), ran("a:p"), "resolved", "solved"),
        (ran("", broken={"m": "ImportError"}), ran("a:p"), "resolved", "solved"),
        (ran("", broken={"m": "ImportError"}), ran("a:s"), "unresolved", "tests_failed"),
        (failed(InconclusiveKind.CUT_SHORT), ran("a:p"), "resolved", "solved"),
        (failed(InconclusiveKind.TIMED_OUT), failed(InconclusiveKind.TIMED_OUT), "unresolved", "test_timeout"),
        (ran("a:f"), failed(InconclusiveKind.CUT_SHORT, "a:p"), "unresolved", "tests_vanished"),
    ],
)
def test_without_labels_the_whole_test_step_decides(before: TestRun, after: TestRun, status: str, cause: str) -> None:
    assert judged(before, after, NONE) == (status, cause)


def test_a_skip_that_came_with_the_submission_is_no_pass() -> None:
    assert judged(ran("a:f b:p"), ran("a:p b:s"), NONE) == ("unresolved", "regression")


def test_what_the_repository_itself_does_to_the_machinery_is_not_held_against_a_submission() -> None:
    before = ran("new:f old:p", tampered="TestCase.run")
    assert judged(before, ran("new:p old:p", tampered="TestCase.run"), LABELS) == ("resolved", "solved")
    assert judged(before, ran("new:p old:p", tampered="TestCase.run TestCase.fail"), LABELS)[1] == "tampered"


def test_a_labelled_task_can_ask_for_exit_code_zero_too() -> None:
    strict = Expectation(fail_to_pass=("new",), exit_zero=True)
    assert judged(BEFORE, ran("new:p", exit_code=1), strict) == ("unresolved", "tests_failed")
    assert judged(BEFORE, ran("new:p", exit_code=0), strict) == ("resolved", "solved")


def test_expected_tests_and_a_count_are_asked_for_besides_the_labels() -> None:
    more = Expectation(fail_to_pass=("new",), expected=("other",))
    assert judged(BEFORE, ran("new:p"), more) == ("unresolved", "tests_vanished")
    assert judged(BEFORE, ran("new:p other:f"), more) == ("resolved", "solved")
    counted = Expectation(fail_to_pass=("new",), count=3)
    assert judged(BEFORE, ran("new:p old:p"), counted) == ("unresolved", "tests_vanished")
    assert judged(BEFORE, ran("new:p old:p c:p"), counted) == ("resolved", "solved")


def test_a_benchmark_can_count_other_statuses_as_passes() -> None:
    lenient = Expectation(fail_to_pass=("new",), passing=(TestStatus.PASSED, TestStatus.XFAILED))
    assert judged(BEFORE, ran("new:x"), lenient) == ("resolved", "solved")


def test_reruns_that_disagree_are_flaky_and_say_which_tests_flipped() -> None:
    resolution = resolve(BEFORE, ran("new:p old:p"), LABELS, reruns=[ran("new:p old:p"), ran("new:f old:p")])
    assert (resolution.status, resolution.cause, resolution.flaky) == (Status.ERROR, Cause.FLAKY, ("new",))
    assert "new" in resolution.reason


def test_a_flaky_unlabelled_test_is_reported_and_does_not_change_the_verdict() -> None:
    resolution = resolve(BEFORE, ran("new:p old:p c:p"), LABELS, reruns=[ran("new:p old:p c:f")])
    assert (resolution.status, resolution.flaky) == (Status.RESOLVED, ("c",))


def test_where_the_tests_are_proven_stable_a_flip_is_the_submissions_failure() -> None:
    proven = Expectation(fail_to_pass=("new",), proven_stable=True)
    resolution = resolve(BEFORE, ran("new:p"), proven, reruns=[ran("new:f")])
    assert (resolution.status, resolution.cause) == (Status.UNRESOLVED, Cause.TESTS_FAILED)


def test_the_evidence_lists_labelled_tests_first_and_says_what_was_missing() -> None:
    resolution = resolve(ran("new:f old:p a:p"), ran("old:p a:p b:p"), LABELS)
    assert resolution.tests == (
        TestOutcome(id="new", before=TestStatus.FAILED, after=TestStatus.MISSING),
        TestOutcome(id="old", before=TestStatus.PASSED, after=TestStatus.PASSED),
        TestOutcome(id="a", before=TestStatus.PASSED, after=TestStatus.PASSED),
        TestOutcome(id="b", before=TestStatus.MISSING, after=TestStatus.PASSED),
    )
    assert resolve(None, ran("new:p"), LABELS).tests[0].before is None


def test_a_reason_is_one_line_however_wild_the_names() -> None:
    wild = Expectation(fail_to_pass=tuple(f"a\nb{'x' * 500}{number}" for number in range(9)))
    reason = resolve(None, ran("z:p"), wild).reason
    assert "\n" not in reason
    assert reason.endswith("and 6 more")
    assert len(reason) < 800


names = st.sampled_from("abcd")
complete = st.builds(
    lambda tests, broken, tampered, code: TestRun(
        outcome=TestResults(tests=tests, broken=broken, tampered=tampered), exit_code=code
    ),
    st.dictionaries(names, st.sampled_from(list(LETTERS.values()))),
    st.dictionaries(st.sampled_from(["m", "n"]), st.just("x"), max_size=1),
    st.lists(st.sampled_from(["T.run", "T.fail"]), max_size=1).map(tuple),
    st.integers(0, 2),
)
incomplete = st.builds(
    lambda kind, partial: TestRun(outcome=InconclusiveRun(kind=kind, reason="r", partial=partial), exit_code=1),
    st.sampled_from(InconclusiveKind),
    st.dictionaries(names, st.sampled_from(list(LETTERS.values()))),
)
runs = complete | incomplete
expectations = st.builds(
    Expectation,
    fail_to_pass=st.lists(names, max_size=2).map(tuple),
    pass_to_pass=st.lists(names, max_size=2).map(tuple),
    expected=st.lists(names, max_size=1).map(tuple),
    count=st.integers(0, 3),
    exit_zero=st.booleans(),
    proven_stable=st.booleans(),
)


@given(st.none() | runs, runs, expectations, st.lists(runs, max_size=2))
def test_resolved_means_that_every_promise_was_kept_in_every_run(
    before: TestRun | None, after: TestRun, expectation: Expectation, reruns: list[TestRun]
) -> None:
    resolution = resolve(before, after, expectation, reruns=reruns)
    assert (resolution.status is Status.RESOLVED) == (resolution.cause is Cause.SOLVED)
    assert resolution.reason
    if resolution.status is not Status.RESOLVED:
        return
    for run in (after, *reruns):
        assert isinstance(run.outcome, TestResults)
        assert all(run.tests[label] is TestStatus.PASSED for label in expectation.labels)
        assert set(expectation.expected) <= set(run.tests)
        assert len(run.tests) >= expectation.count
        if not expectation.labels:
            assert run.exit_code == 0
            assert TestStatus.PASSED in run.tests.values()
            assert not {TestStatus.FAILED, TestStatus.ERROR} & set(run.tests.values())
    if before is not None:
        known = before.outcome.tests if isinstance(before.outcome, TestResults) else before.outcome.partial
        assert all(known.get(test) is not TestStatus.PASSED for test in expectation.fail_to_pass)
        assert all(known.get(test) is TestStatus.PASSED for test in expectation.pass_to_pass)


@given(runs, runs, expectations)
def test_the_task_is_blamed_for_nothing_that_the_submission_did(
    before: TestRun, after: TestRun, expectation: Expectation
) -> None:
    def blames_task(resolution: Resolution) -> bool:
        return resolution.cause is Cause.INVALID_TASK

    good = ran("a:p b:p c:p d:p")
    assert blames_task(resolve(before, after, expectation)) == blames_task(resolve(before, good, expectation))


@given(runs)
def test_a_run_does_not_flip_against_itself(run: TestRun) -> None:
    assert flaky_tests([run, run]) == ()


@given(complete, complete)
def test_a_flip_is_seen_from_either_side(one: TestRun, other: TestRun) -> None:
    assert flaky_tests([one, other]) == flaky_tests([other, one])
    assert bool(flaky_tests([one, other])) == (one.tests != other.tests)
