import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.report.viewer.filters import NO_VALUE, duration, file_size, number, since_start, timestamp, url, visible


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
def test_what_cannot_be_seen_is_named(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_nothing_hidden_is_left(text: str) -> None:
    left = visible(text)
    assert not any(ord(letter) < 32 and letter not in "\n\t" for letter in left)
    assert not set(left) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b")
    left.encode()


def test_numbers_are_short() -> None:
    assert [number(value) for value in (0, 999, 1000, 15_400, 2_500_000)] == ["0", "999", "1.0 k", "15 k", "2.5 M"]
    assert [file_size(value) for value in (12, 1300)] == ["12 B", "1.3 kB"]
    assert [duration(value) for value in (0.04, 12, 75, 3700, None, float("nan"))] == [
        *("0.0 s", "12 s", "1 m 15 s", "1 h 01 m", NO_VALUE, NO_VALUE)
    ]


def test_times_that_are_none_are_shown_as_they_are() -> None:
    assert timestamp("2026-01-02T03:04:05.678+00:00") == "2026-01-02 03:04:05"
    assert timestamp("yesterday") == "yesterday"
    assert since_start("2026-01-02T03:04:07Z", "2026-01-02T03:04:05+00:00") == "+2.0 s"
    assert since_start("2026-01-02T03:04:07", "2026-01-02T03:04:05+00:00") == ""


def test_an_address_leaves_out_what_says_nothing_and_quotes_the_rest() -> None:
    assert url("/x", a="1&2", b="", c=None, d=False, e=True, path="a/b") == "/x?a=1%262&e=1&path=a%2Fb"
    assert url("/x") == "/x"
