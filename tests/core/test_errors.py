import pytest

from proctor.core.errors import (
    AgentFailure,
    InfrastructureError,
    InvalidData,
    LimitReached,
    ProctorError,
    RetryableError,
    UsageError,
)


def test_an_error_is_one_sentence_of_what_where_and_what_to_do() -> None:
    error = UsageError("no such sandbox:\n'b9'", where="~/.h2/sandboxes", fix="create it first")
    assert str(error) == "~/.h2/sandboxes: no such sandbox: 'b9'; create it first"


@pytest.mark.parametrize(
    ("kind", "exit_code", "retryable"),
    [
        (UsageError, 2, False),
        (InvalidData, 20, False),
        (InfrastructureError, 12, False),
        (RetryableError, 12, True),
        (AgentFailure, 0, False),
    ],
)
def test_each_error_has_its_exit_code(kind: type[ProctorError], exit_code: int, retryable: bool) -> None:
    error = kind("x")
    assert (error.exit_code, error.retryable) == (exit_code, retryable)


def test_a_limit_carries_its_kind_value_and_bound() -> None:
    error = LimitReached("cost", value=1.25, limit=1.0, where="run r1")
    assert (error.kind, error.value, error.limit, error.exit_code) == ("cost", 1.25, 1.0, 12)
    assert str(error) == "run r1: cost limit reached (1.25 of 1)"
