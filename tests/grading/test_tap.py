import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.verdict import TestStatus
from proctor.grading import InconclusiveKind, InconclusiveRun, TestResults
from proctor.grading.tap import parse_tap


def read(text: str) -> dict[str, str]:
    outcome = parse_tap(text.encode())
    assert isinstance(outcome, TestResults), outcome
    return {name: status.value for name, status in outcome.tests.items()}


def kind_of(text: str) -> InconclusiveKind:
    outcome = parse_tap(text.encode())
    assert isinstance(outcome, InconclusiveRun), outcome
    return outcome.kind


def test_every_ending_has_its_status() -> None:
    assert read(
        """TAP version 13
1..8
ok 1 - adds
not ok 2 - subtracts
ok 3 - flies # SKIP no wings
not ok 4 - sings # TODO learn
ok 5 - dances # todo already
not ok 6 - hides # SKIP but failed
ok 7
ok
"""
    ) == {
        "adds": "passed",
        "subtracts": "failed",
        "flies": "skipped",
        "sings": "xfailed",
        "dances": "xpassed",
        "hides": "failed",
        "7": "passed",
        "8": "passed",
    }


def test_the_plan_may_come_last_and_other_lines_are_passed_over() -> None:
    assert read("hello\nok 1 - a\n# a comment\nokay then\nnot okay\nok 2 - b\r\n1..2\nbye\n") == {
        "a": "passed",
        "b": "passed",
    }


def test_escaped_marks_belong_to_the_description() -> None:
    assert read("1..1\nok 1 - issue \\# SKIP and \\\\ more\n") == {"issue # SKIP and \\ more": "passed"}


def test_details_in_yaml_are_not_tests() -> None:
    text = "TAP version 14\n1..1\nok 1 - a\n  ---\n  found: |\n    not ok 1 - inner\n    1..5\n  ...\n"
    assert read(text) == {"a": "passed"}


def test_details_that_never_end_hide_what_follows_and_so_cut_the_run_short() -> None:
    assert kind_of("ok 1 - a\n  ---\n  x: y\n1..1\n") is InconclusiveKind.CUT_SHORT


def test_subtests_are_named_after_their_parent() -> None:
    text = """TAP version 14
# Subtest: outer
    ok 1 - one
    # Subtest: deep
        not ok 1 - leaf
        1..1
    not ok 2 - deep
    1..2
not ok 1 - outer
ok 2 - plain
1..2
"""
    assert read(text) == {
        "outer > one": "passed",
        "outer > deep > leaf": "failed",
        "outer > deep": "failed",
        "outer": "failed",
        "plain": "passed",
    }


def test_two_tests_of_one_description_count_by_the_worse() -> None:
    assert read("1..2\nnot ok 1 - same\nok 2 - same\n") == {"same": "failed"}


def test_a_whole_skipped_plan_has_no_tests() -> None:
    assert read("1..0 # SKIP nothing to do here\n") == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok 1 - a\n",
        "1..3\nok 1\nok 2\n",
        "1..1\nok 1\nok 2\n",
        "1..2\nok 1\nok 3\n",
        "1..2\nok 1\nBail out! the disk is full\n",
        "1..1\nok 1\n    1..1\n    ok 1 - orphan\n",
        "    ok 1 - a\n    1..2\nok 1 - parent\n1..1\n",
    ],
)
def test_a_run_that_does_not_keep_its_plan_is_cut_short(text: str) -> None:
    assert kind_of(text) in {InconclusiveKind.CUT_SHORT, InconclusiveKind.MALFORMED}


@pytest.mark.parametrize("text", ["1..1\n1..1\nok 1\n", "1..2\nok 1\nok 1\n", "ok 1\n1..1\nok 2\n"])
def test_a_second_tap_stream_is_malformed(text: str) -> None:
    assert kind_of(text) is InconclusiveKind.MALFORMED


def test_a_forged_tap_stream_before_the_real_one_does_not_pass() -> None:
    assert (
        kind_of("1..1\nok 1 - test_answer\n" + "TAP version 13\n1..1\nnot ok 1 - test_answer\n")
        is InconclusiveKind.MALFORMED
    )


def test_partial_results_of_an_inconclusive_run_are_kept() -> None:
    outcome = parse_tap(b"1..2\nok 1 - a\n")
    assert isinstance(outcome, InconclusiveRun)
    assert outcome.partial == {"a": TestStatus.PASSED}


lines = st.sampled_from(
    [
        "ok",
        "not ok 1",
        "ok 2 - a # SKIP",
        "1..2",
        "1..0",
        "    ok 1",
        "        1..1",
        "  ---",
        "  ...",
        "Bail out!",
        "#",
        "é",
    ]
)


@given(st.lists(lines, max_size=12))
def test_any_stream_is_read_without_an_exception(stream: list[str]) -> None:
    parse_tap("\n".join(stream).encode())


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(data: bytes) -> None:
    parse_tap(data)


@given(st.lists(st.tuples(st.booleans(), st.text("abc ", max_size=5)), min_size=1, max_size=10))
def test_a_well_formed_stream_passes_just_what_it_says_is_ok(points: list[tuple[bool, str]]) -> None:
    text = f"1..{len(points)}\n" + "".join(
        f"{'ok' if is_ok else 'not ok'} {number} - {number} {name}\n" for number, (is_ok, name) in enumerate(points, 1)
    )
    assert [status == "passed" for status in read(text).values()] == [is_ok for is_ok, _ in points]
