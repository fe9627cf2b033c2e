import pytest

from proctor.report.formatting import duration, excluded_errors_note, plural


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0.0, "0.0s"),
        (0.74, "0.7s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (510, "8m 30s"),
        (3599.4, "59m 59s"),
        (3599.6, "1h 00m"),
        (35266, "9h 47m"),
    ],
)
def test_a_time_has_the_digits_that_matter(seconds: float | None, words: str) -> None:
    assert duration(seconds) == words


def test_one_is_one_and_many_are_many() -> None:
    assert [plural(count, "step") for count in (0, 1, 2, 1200)] == ["0 steps", "1 step", "2 steps", "1,200 steps"]
    assert excluded_errors_note(1) == "1 error was not the agents' doing and is left out of the rates."
    assert excluded_errors_note(2) == "2 errors were not the agents' doing and are left out of the rates."
