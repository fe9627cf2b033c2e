from hypothesis import given
from hypothesis import strategies as st

from proctor.core.text import one_line


@given(st.text())
def test_a_cell_is_one_line_without_anything_hidden(text: str) -> None:
    shown = one_line(text)
    assert not any(ord(letter) < 32 for letter in shown)
    assert one_line(shown) == shown


def test_what_takes_room_keeps_a_little_of_it() -> None:
    assert one_line("a\tb\r\nc\nd\x1b[2Je") == "a b c de"
