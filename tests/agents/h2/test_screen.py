"""The text of a terminal is read from what is painted on it."""

from proctor.agents.h2.screen import plain_screen


def test_a_screen_is_read_as_a_person_would() -> None:
    painted = (
        b"\x1b[2J\x1b[1;1H\x1b[1mDo you\x1b[0m trust\x1b[2C\x1b[31mthis\x1b[0m folder?"
        b"\x1b[2;1H 1. Yes\x1b[K\r\n\x1b[3;1H 2. No"
    )
    assert plain_screen(painted) == "Do you trust this folder?\n1. Yes\n2. No"
    assert plain_screen(b"") == ""
