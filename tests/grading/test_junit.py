import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveKind, InconclusiveRun, TestResults
from proctor.grading.junit import parse_junit

REPORT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites>
  <testsuite name="outer" tests="7" failures="1" errors="1">
    <testcase classname="tests.test_a.A" name="test_ok" time="0.1"/>
    <testcase classname="tests.test_a.A" name="test_bad"><failure message="1 != 2">x</failure></testcase>
    <testcase classname="tests.test_a.A" name="test_broken"><error/><system-out>ok</system-out></testcase>
    <testcase classname="tests.test_a.A" name="test_skip"><skipped type="pytest.skip"/></testcase>
    <testcase classname="tests.test_a.A" name="test_xfail"><skipped type="pytest.xfail"/></testcase>
    <testsuite name="inner suite">
      <testcase name="has no class"/>
      <testcase name="gtest" status="notrun"/>
    </testsuite>
  </testsuite>
</testsuites>
"""


def read(data: bytes) -> TestResults:
    outcome = parse_junit(data)
    assert isinstance(outcome, TestResults), outcome
    return outcome


def test_every_ending_has_its_status() -> None:
    assert read(REPORT) == TestResults(
        tests={
            "tests.test_a.A::test_ok": TestStatus.PASSED,
            "tests.test_a.A::test_bad": TestStatus.FAILED,
            "tests.test_a.A::test_broken": TestStatus.ERROR,
            "tests.test_a.A::test_skip": TestStatus.SKIPPED,
            "tests.test_a.A::test_xfail": TestStatus.XFAILED,
            "inner suite::has no class": TestStatus.PASSED,
            "inner suite::gtest": TestStatus.SKIPPED,
        }
    )


def test_a_test_that_comes_twice_counts_by_its_worse_ending() -> None:
    case = '<testcase classname="a" name="b">{}</testcase>'
    for endings in (("<failure/>", ""), ("", "<failure/>")):
        body = "".join(case.format(ending) for ending in endings)
        assert read(f"<testsuite>{body}</testsuite>".encode()).tests == {"a::b": TestStatus.FAILED}


def test_a_failure_and_an_error_on_one_test_are_an_error() -> None:
    data = b'<testsuite><testcase name="a"><failure/><error/></testcase></testsuite>'
    assert read(data).tests == {"a": TestStatus.ERROR}


@pytest.mark.parametrize(
    "suite",
    [
        b'<testsuite name="s" failures="1"><testcase name="a"/></testsuite>',
        b'<testsuite name="s" tests="3"><testcase name="a"/></testsuite>',
        b'<testsuite name="s"><testcase name="a"/><error message="died"/></testsuite>',
    ],
)
def test_a_suite_that_contradicts_its_own_tests_is_broken(suite: bytes) -> None:
    assert list(read(suite).broken) == ["s"]


BILLION_LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<testsuite><testcase name="&b;"/></testsuite>"""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not xml",
        b"<testsuite>",
        b"<html/>",
        BILLION_LAUGHS,
        b'<!DOCTYPE t SYSTEM "file:///etc/passwd"><testsuite/>',
        b'<?xml version="1.0" encoding="no-such"?><testsuite/>',
        b"<testsuite>" * 300,
        b'<testsuite><testcase name="a"/></testsuite><testsuite/>',
    ],
)
def test_a_file_that_is_not_a_report_is_refused(data: bytes) -> None:
    outcome = parse_junit(data)
    assert isinstance(outcome, InconclusiveRun)
    assert outcome.kind is InconclusiveKind.MALFORMED


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    parse_junit(data)


@given(st.lists(st.sampled_from([REPORT[i : i + 40] for i in range(0, len(REPORT), 40)]), max_size=30))
def test_shuffled_reports_are_read_without_an_exception(pieces: list[bytes]) -> None:
    parse_junit(b"".join(pieces))


@given(
    st.sampled_from(["utf-16", "utf-32", "cp037", "rot13", "hex", "idna", "undefined", "utf-7", "big5"]), st.binary()
)
def test_any_declared_encoding_is_read_without_an_exception(encoding: str, tail: bytes) -> None:
    parse_junit(f'<?xml version="1.0" encoding="{encoding}"?><testsuite>'.encode() + tail)
