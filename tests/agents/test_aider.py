"""The real aider, from its package, against the gateway with a scripted model."""

import pytest

from proctor.agents.aider import Aider, AiderReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.errors import UsageError
from proctor.core.result import Tokens

MODEL = "gpt-5.5"


def test_what_it_cannot_do_is_refused() -> None:
    for options in (AgentOptions(system_prompt="x"), AgentOptions(append_system_prompt="x")):
        with pytest.raises(UsageError, match="system prompt"):
            Aider(AgentSetup(agent_options=options))
    with pytest.raises(UsageError, match="no tools"):
        Aider(AgentSetup(agent_options=AgentOptions(allowed_tools=("bash",))))
    with pytest.raises(UsageError, match="told its model"):
        Aider().variables(AgentRequest(task_id="t", instruction="x", logs="/tmp"), "http://127.0.0.1:1")


def test_an_error_after_the_last_message_is_its_end() -> None:
    reader = AiderReader(lambda _: None, "m")
    reader.handle_line(b"Aider v0.86.2")
    reader.handle_line(b'{"proctor":"error","text":"first"}')
    reader.handle_line(b'{"proctor":"message","text":"Done.","input":10,"output":2,"cached":4,"written":0}')
    reader.handle_line(b'{"proctor":"edits","files":["a","b"]}')
    reader.handle_line(b'{"proctor":"end"}')
    report = reader.report()
    assert (report.finished, report.error, report.final_text, report.steps) == (True, "", "Done.", 2)
    assert report.usage[0].tokens == Tokens(input=6, output=2, cache_read=4)
    reader.handle_line(b'{"proctor":"error","text":"402"}')
    assert reader.report().error == "402"
