import pytest

from proctor.grading.controls.changed_text import other_number, other_pattern, other_text


@pytest.mark.parametrize(
    ("number", "other"),
    [
        ("0", "1"),
        ("1", "2"),
        ("5", "4"),
        ("10", "11"),
        ("255", "254"),
        ("1_000", "1_001"),
        ("255u8", "254u8"),
        ("7L", "6L"),
        ("0xff", "0xfe"),
        ("0xF0u8", "0xF1u8"),
        ("0b101", "0b100"),
        ("0.5", "0.6"),
        ("3.14159", "4.14159"),
        ("0.0", "1.0"),
        ("1e21", "2e21"),
        (".5", ".6"),
        ("2.5f32", "3.5f32"),
    ],
)
def test_another_number_is_of_the_same_type_and_not_larger_than_the_largest(number: str, other: str) -> None:
    assert other_number(number) == other


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("ok", "ol"),
        ("Hz", "Hy"),
        ("v9", "v8"),
        ("", "x"),
        ("--", "--x"),
        ("%d", "%dx"),
        ("n = %5d", "o = %5d"),
        ("${name}", "${name}x"),
        ("a\\n", "b\\n"),
        ("{value}", "{value}x"),
        ("&amp;", "&amp;x"),
    ],
)
def test_another_text_differs_in_a_character_that_stands_for_itself(text: str, other: str) -> None:
    assert other_text(text) == other


@pytest.mark.parametrize(
    ("pattern", "other"),
    [
        ("first", "firsu"),
        (r"^\d{20}abc", r"^\d{20}abd"),
        ("colou?rs?", "coloux?rs?".replace("ux?r", "u?s")),
        (r"^\d+$", r"^\d+x$"),
        ("a|b", "a|bx"),
        ("[a-z]+", "[a-z]+x"),
    ],
)
def test_another_pattern_needs_another_character(pattern: str, other: str) -> None:
    assert other_pattern(pattern) == other
