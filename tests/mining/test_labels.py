"""From test runs to labels."""

from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveKind, InconclusiveRun, TestResults, TestRun
from proctor.mining.labels import label_tests

PASSED, FAILED, SKIPPED, MISSING = TestStatus.PASSED, TestStatus.FAILED, TestStatus.SKIPPED, TestStatus.MISSING


def run(**tests: TestStatus) -> TestRun:
    return TestRun(
        outcome=TestResults(tests={name.replace("__", "::"): one for name, one in tests.items()}), exit_code=0
    )


def named(tests: dict[str, TestStatus]) -> TestRun:
    return TestRun(outcome=TestResults(tests=tests), exit_code=0)


def reasons(before: list[TestRun], after: list[TestRun], other: TestRun | None = None) -> dict[str, str]:
    return {test.id: test.reason for test in label_tests(before, after, other).excluded}


def test_labels_are_what_happened() -> None:
    before, after = (
        run(fixed=FAILED, kept=PASSED, broken=FAILED),
        run(fixed=PASSED, kept=PASSED, broken=FAILED, new=PASSED),
    )
    labels = label_tests([before, before], [after, after])
    assert labels.fail_to_pass == ("fixed", "new")
    assert labels.pass_to_pass == ("kept",)
    assert labels.excluded == ()


def test_a_test_that_flips_before_or_after_decides_nothing_and_is_named() -> None:
    before = [run(a=FAILED, b=PASSED), run(a=FAILED, b=FAILED)]
    after = [run(a=PASSED, b=PASSED), run(a=FAILED, b=PASSED)]
    labels = label_tests(before, after)
    assert labels.fail_to_pass == labels.pass_to_pass == ()
    assert reasons(before, after) == dict.fromkeys("ab", "flips between runs")


def test_a_test_that_fails_under_another_date_decides_nothing() -> None:
    before, after, later = run(a=FAILED, b=PASSED), run(a=PASSED, b=PASSED), run(a=FAILED, b=PASSED)
    labels = label_tests([before], [after], later)
    assert labels.pass_to_pass == ("b",)
    assert reasons([before], [after], later) == {"a": "depends on the date"}


def test_a_test_that_passes_with_the_network_alone_decides_nothing_and_is_named() -> None:
    before, after = run(a=FAILED, b=FAILED), run(a=FAILED, b=FAILED, c=PASSED)
    labels = label_tests([before], [after], need_network={"a"})
    assert labels.fail_to_pass == ("c",)
    assert {test.id: test.reason for test in labels.excluded} == {"a": "needs the network"}


def test_other_status_changes_are_excluded_with_the_reason() -> None:
    before, after = run(a=SKIPPED, b=PASSED), run(a=PASSED, b=SKIPPED, c=SKIPPED)
    assert reasons([before], [after]) == {
        "a": "goes from skipped to passed",
        "b": "goes from passed to skipped",
        "c": "goes from missing to skipped",
    }


def test_parameters_that_are_named_by_an_address_are_left_out_as_a_whole() -> None:
    one, two = (
        {"t[<f at 0x7f1234567890>]": PASSED, "u[1]": PASSED},
        {"t[<f at 0x7fabcdef1234>]": PASSED, "u[1]": PASSED},
    )
    labels = label_tests([named(one), named(two)], [named(two), named(one)])
    assert labels.pass_to_pass == ("u[1]",)
    assert [test.id for test in labels.excluded] == ["t[*"]


def test_before_a_change_that_does_not_build_every_test_fails() -> None:
    broken = TestRun(outcome=InconclusiveRun(kind=InconclusiveKind.NO_REPORT, reason="no report"), exit_code=101)
    labels = label_tests([broken, broken], [run(a=PASSED), run(a=PASSED)])
    assert labels.fail_to_pass == ("a",)
