import pytest

from grading_runs import failed, ran
from proctor.grading import Expectation, InconclusiveKind, TaskProblemCode, TestRun, validate

LABELS = Expectation(fail_to_pass=("new",), pass_to_pass=("old",))
BASE = ran("new:f old:p other:f")
ORACLE = ran("new:p old:p other:f")


def codes(pre_patch: list[TestRun], oracle: list[TestRun], expectation: Expectation = LABELS) -> list[TaskProblemCode]:
    validation = validate(pre_patch, oracle, expectation)
    assert validation.valid == (not validation.problems)
    return [problem.code for problem in validation.problems]


def test_a_sound_task_is_valid() -> None:
    assert codes([BASE, BASE], [ORACLE, ORACLE]) == []


@pytest.mark.parametrize("pre_patch", [ORACLE, ran("new:f old:f other:f"), failed(InconclusiveKind.NOT_STARTED)])
def test_the_pre_patch_run_must_fail_for_the_labelled_reason(pre_patch: TestRun) -> None:
    assert TaskProblemCode.PRE_PATCH in codes([pre_patch], [ORACLE])


@pytest.mark.parametrize(
    "oracle", [BASE, ran("new:p old:f other:f"), failed(InconclusiveKind.CUT_SHORT, "new:p old:p")]
)
def test_the_oracle_must_pass(oracle: TestRun) -> None:
    assert TaskProblemCode.ORACLE in codes([BASE], [oracle])


def test_what_the_pristine_tree_does_to_the_test_machinery_too_does_not_speak_against_the_oracle() -> None:
    usual, other = "unittest.TestCase.fixture", "pytest.main"
    before = ran("new:f old:p other:f", tampered=usual)
    assert codes([before], [ran("new:p old:p other:f", tampered=usual)]) == []
    assert codes([before], [ran("new:p old:p other:f", tampered=f"{usual} {other}")]) == [TaskProblemCode.ORACLE]


def test_a_label_that_names_no_test_is_distinguished_from_an_oracle_that_fails() -> None:
    assert codes([ran("old:p")], [ran("old:p")]) == [TaskProblemCode.LABEL_MISSING]


@pytest.mark.parametrize("oracle", [ran("new:p old:p other:p"), ran("new:p old:p"), ran("new:p old:p other:f more:p")])
def test_nothing_that_no_label_names_may_change(oracle: TestRun) -> None:
    validation = validate([BASE], [oracle], LABELS)
    assert [problem.code for problem in validation.problems] == [TaskProblemCode.UNLABELLED_CHANGE]
    assert "other" in validation.problems[0].detail or "more" in validation.problems[0].detail


def test_results_must_repeat_and_the_flipping_tests_are_named() -> None:
    validation = validate([BASE, ran("new:f old:p other:p")], [ORACLE, ran("new:f old:p other:f")], LABELS)
    assert [problem.code for problem in validation.problems] == [TaskProblemCode.NOT_REPEATABLE] * 2
    assert validation.flaky == ("new", "other")


def test_ending_in_different_ways_is_not_repeating() -> None:
    assert codes([BASE, BASE], [ORACLE, ran("new:p old:p other:f", exit_code=7)]) == [TaskProblemCode.NOT_REPEATABLE]


def test_without_labels_the_pre_patch_run_must_not_be_green_and_the_oracle_must() -> None:
    none = Expectation()
    assert codes([ran("a:f")], [ran("a:p")], none) == []
    assert codes([ran("a:p")], [ran("a:p")], none) == [TaskProblemCode.PRE_PATCH]
    assert codes([ran("a:f")], [ran("a:f")], none) == [TaskProblemCode.ORACLE]
    assert codes([ran("a:p")], [ran("a:f")], none) == [TaskProblemCode.PRE_PATCH, TaskProblemCode.ORACLE]
