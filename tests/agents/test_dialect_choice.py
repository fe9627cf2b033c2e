import pytest

from proctor.agents.dialect_choice import choose_dialect


@pytest.mark.parametrize(
    ("model", "dialects", "chosen"),
    [
        ("claude-sonnet-5", ("chat", "messages"), "messages"),
        ("claude-sonnet-5", ("chat",), "chat"),
        ("anthropic/claude-sonnet-5", ("chat", "messages"), "chat"),
        ("gpt-5.5", ("chat", "responses"), "responses"),
        ("gpt-4.1", ("chat", "responses"), "chat"),
        ("gpt-oss-120b", ("chat", "responses"), "chat"),
        ("gemini-3.8-flash", ("chat", "gemini"), "gemini"),
        ("kimi-k2.5", ("chat", "messages"), "chat"),
    ],
)
def test_a_model_is_asked_in_its_own_dialect_where_the_program_has_it(
    model: str, dialects: tuple[str, ...], chosen: str
) -> None:
    assert choose_dialect(model, dialects) == chosen
