"""Which settings stay, as the task's own text names them."""

import pytest

from proctor.grading.state.grader_settings import is_named_in


@pytest.mark.parametrize(
    ("text", "file", "is_named"),
    [
        ("Write a pytest.ini, please.", "/pytest.ini", True),
        ("Fix `/app/conftest.py`.", "/conftest.py", True),
        ("Put it into ~/.curlrc.", "/root/.curlrc", True),
        ("Have bin/uv in your home.", "/root/.local/bin/uv", True),
        ("Use ~/.local/bin/env.", "/root/.local/bin/env", True),
        ("A new environment for the uvicorn server", "/root/.local/bin/env", False),
        ("Set the env and locate it", "/root/.local/bin/cat", False),
        ("Set the env and locate it", "/root/.local/bin/env", False),
        ("Keep old-conftest.py and conftest.pyc", "/conftest.py", False),
        ("", "/conftest.py", False),
    ],
)
def test_a_file_is_named_by_its_whole_name(text: str, file: str, is_named: bool) -> None:
    assert is_named_in(text, file) is is_named


def test_a_word_is_enough_where_that_is_asked_for() -> None:
    assert is_named_in("Put it into answer, below /etc", "/etc/answer", any_word=True)
    assert not is_named_in("Wait 12470 s", "/var/lib/db/1247", any_word=True)
