import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.formatting import (
    NO_VALUE,
    collapse_rows,
    duration,
    file_size,
    group_reasons,
    one_line,
    percent,
    percent_interval,
    percentage_points,
    plural,
    reason_lines,
    short_count,
    timestamp,
    visible,
)


@given(st.text())
def test_a_cell_is_one_line_without_hidden_characters(text: str) -> None:
    shown = one_line(text)
    assert not any(ord(letter) < 32 for letter in shown)
    assert one_line(shown) == shown


def test_white_space_becomes_one_space() -> None:
    assert one_line("a\tb\r\nc\nd\x1b[2Je") == "a b c de"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07end", "red end"),
        ("a\u202eb\u2066c\x00", "a⟦202E⟧b⟦2066⟧c⟦0⟧"),
        ("line\r\nnext\rover", "line\nnext⟦D⟧over"),
        ("\ud800", "⟦D800⟧"),
        ("zero\u200bwidth", "zero⟦200B⟧width"),
    ],
)
def test_invisible_characters_are_named(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_no_hidden_character_is_left(text: str) -> None:
    left = visible(text)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in left)
    assert not set(left) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b")
    left.encode()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (0.0, "0.0s"),
        (0.04, "0.0s"),
        (0.74, "0.7s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (12, "12s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (75, "1m 15s"),
        (510, "8m 30s"),
        (3599.4, "59m 59s"),
        (3599.6, "1h 00m"),
        (3700, "1h 01m"),
        (35266, "9h 47m"),
    ],
)
def test_a_time_has_the_digits_that_matter(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_one_is_singular_and_many_are_plural() -> None:
    assert [plural(count, "step") for count in (0, 1, 2, 1200)] == ["0 steps", "1 step", "2 steps", "1,200 steps"]


def test_large_numbers_are_short() -> None:
    shown = ["0", "999", "1.0k", "15.4k", "2.5M"]
    assert [short_count(value) for value in (0, 999, 1000, 15_400, 2_500_000)] == shown
    assert [file_size(value) for value in (12, 1300)] == ["12 B", "1.3kB"]


def test_a_share_has_one_decimal_everywhere() -> None:
    assert (percent(0.25), percent(1.0), percent(None)) == ("25.0%", "100.0%", NO_VALUE)
    assert (percent_interval(0.1234, 1), percent_interval(None, 1)) == ("12.3% to 100.0%", NO_VALUE)
    assert percentage_points(0.031) == "+3.1 points"
    assert percentage_points(-0.031, -0.05, 0.01) == "-3.1 points (-5.0 to +1.0)"


def test_a_moment_is_shown_to_the_second_and_other_text_as_it_is() -> None:
    assert timestamp("2026-01-02T03:04:05.678+00:00") == "2026-01-02 03:04:05 UTC"
    assert timestamp("2026-01-02T03:04:05Z", seconds=False) == "2026-01-02 03:04 UTC"
    assert timestamp("2026-01-02T03:04:05+05:30") == "2026-01-02 03:04:05 +05:30"
    assert timestamp("2026-01-02T03:04:05-03:00", seconds=False) == "2026-01-02 03:04 -03:00"
    assert timestamp("2026-01-02T03:04:05") == "2026-01-02 03:04:05"
    assert timestamp("yesterday") == "yesterday"


MANY = {f"t{number}": f"t{number}: no script in run_scripts/t{number}" for number in range(4)}


def test_tasks_with_the_same_reason_but_for_their_names_are_one_group() -> None:
    assert group_reasons({"x": "x: the disk is full", **MANY}) == {
        "no script in run_scripts/TASK": ["t0", "t1", "t2", "t3"],
        "the disk is full": ["x"],
    }
    assert reason_lines({"x": "no script for x", **MANY}) == [
        "4 tasks (t0, …): no script in run_scripts/TASK",
        "x: no script for x",
    ]


def test_one_row_stands_for_many_tasks_with_the_same_reason() -> None:
    assert collapse_rows({**MANY, "x": "the disk is full"}) == {
        "t0": "4 tasks (t0, …)",
        "t1": None,
        "t2": None,
        "t3": None,
    }
    assert collapse_rows({"a": "full", "b": "full"}) == {}
