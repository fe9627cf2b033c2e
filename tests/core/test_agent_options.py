from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.agent_options import AgentOptions, check_agent_options, read_prompt, read_tools
from proctor.core.errors import UsageError

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,9}(\([^(),]{0,9},?[^(),]{0,9}\))?", fullmatch=True)


@given(tools=st.lists(NAMES, min_size=1, max_size=5), between=st.sampled_from([",", ", ", " , "]))
def test_a_list_of_tools_is_read_whatever_stands_in_the_rules(tools: list[str], between: str) -> None:
    assert read_tools(between.join(tools)) == tuple(tools)


@pytest.mark.parametrize("text", ["", " ", ",", "Bash Read", "Bash(git", "Bash)x(", "Bash,,Read", "-"])
def test_a_malformed_list_of_tools_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="tools"):
        read_tools(text)


def test_a_prompt_is_a_text_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "careful.md").write_text("Be careful.\n")
    (tmp_path / "odd.md").write_bytes(b"\xff\xfe")
    assert read_prompt("Mail a@b.c", tmp_path) == "Mail a@b.c"
    assert read_prompt("@careful.md", tmp_path) == read_prompt(f"@{tmp_path}/careful.md", Path("/")) == "Be careful.\n"
    for name, sentence in (("none.md", "No such file"), ("odd.md", "not UTF-8")):
        with pytest.raises(UsageError, match=sentence):
            read_prompt(f"@{name}", tmp_path)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (AgentOptions(system_prompt=" \n"), "the system prompt is empty"),
        (AgentOptions(append_system_prompt=""), "the appended system prompt is empty"),
        (AgentOptions(env={"A B": "1"}), "'A B' is not the name of a variable"),
        (AgentOptions(env={"A": "1\0"}), "zero byte"),
    ],
)
def test_invalid_agent_options_are_refused(options: AgentOptions, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        check_agent_options(options)
    check_agent_options(AgentOptions(system_prompt="x", env={"_A1": ""}))
