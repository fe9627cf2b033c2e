"""A terminal shows what a program has written to it as a real one does."""

import pytest

from proctor.agents.h2.terminal import Terminal


def shown(written: str, rows: int = 4, columns: int = 10) -> str:
    terminal = Terminal(rows, columns)
    terminal.feed(written.encode())
    return terminal.text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("ab\r\ncd", "ab\ncd"),
        ("\x1b[2;3Hx\x1b[Hy", "y\n  x"),
        ("abc\x1b[2Dx\x1b[1mY\x1b[0m", "axY"),
        ("abc\x1b[K\rX\x1b[3GZ", "XbZ"),
        ("abcdef\x1b[3G\x1b[K", "ab"),
        ("a\r\nb\r\nc\x1b[2A\x1b[1Ex\x1b[J", "a\nx"),
        ("a\r\nb\x1b[1;2H\x1b[Jc", "ac"),
        ("a\r\nb\x1b[2Jc", "\n c"),
        ("1234567890", "1234567890"),
        ("1234567890x", "1234567890\nx"),
        ("1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5"),
        ("1\r\n2\x1b[H\x1bM0", "0\n1\n2"),
        ("1\r\n2\r\n3\x1b[2;1H\x1b[M", "1\n3"),
        ("1\r\n2\x1b[H\x1b[L0", "0\n1\n2"),
        ("abcd\x1b[2G\x1b[2P", "ad"),
        ("abc\x1b[2G\x1b[@", "a bc"),
        ("abcd\x1b[2G\x1b[2X", "a  d"),
        ("ab\x1b7\x1b[4;1Hz\x1b8c", "abc\n\n\nz"),
        ("old\x1b[?1049hnew", "new"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b(Bc\x1b[?25l\x1b[>4;1m", "abc"),
        ("日本x", "日本x"),
        ("e\u0301a\tb", "ea      b"),
    ],
)
def test_escape_sequences_are_rendered(written: str, text: str) -> None:
    assert shown(written) == text


def test_moves_end_at_the_border() -> None:
    assert shown("\x1b[99;99Hx\x1b[99A\x1b[99Dy") == "y\n\n\n         x"
    assert shown("\x1b[99B\x1b[99Cx") == "\n\n\n         x"


def test_a_piece_of_a_sequence_does_no_harm() -> None:
    assert shown("a\x1b[") == "a"
    assert shown("a\x1b]0;tit") == "a"
    assert shown("\xff\x00ab\x1b") == "ÿab"
