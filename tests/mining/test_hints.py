"""What to put into the settings, from what was printed."""

import pytest

from proctor.mining.hints import setup_hint


@pytest.mark.parametrize(
    ("printed", "advice"),
    [
        ("ModuleNotFoundError: No module named 'yaml.loader'", 'packages = ["yaml"]'),
        ("E  fixture 'mocker' not found", "fixture mocker"),
        ("(RuntimeError: pytest 2.8.1 is too old: 3.5 is needed)", 'packages = ["pytest>=3.5"]'),
        ("error: requires-python >=3.12", 'python = "3.9"'),
        ("fatal error: openssl/ssl.h: No such file or directory", "openssl/ssl.h"),
        ("go: go.mod requires go >= 1.30 (running go 1.26)", "install Go 1.30"),
        ("npm warn EBADENGINE Unsupported engine", "runtimes = {node"),
        ("sqlalchemy: Connection refused", "[test] services"),
        ("it broke", "[setup] commands"),
    ],
)
def test_a_failure_says_what_to_put_into_the_settings(printed: str, advice: str) -> None:
    assert advice in setup_hint(printed)
