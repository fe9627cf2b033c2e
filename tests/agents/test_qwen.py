"""The real Qwen Code, from its npm package, against the gateway with a scripted model."""

import msgspec
import pytest

from proctor.agents.qwen import Qwen, QwenReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.errors import UsageError

MODEL = "gpt-5.5"


def test_unsupported_options_are_refused() -> None:
    request = AgentRequest(task_id="t", instruction="x", logs="/tmp", model="m")
    with pytest.raises(UsageError, match="requires --model"):
        Qwen().variables(msgspec.structs.replace(request, model=None), "http://127.0.0.1:1")
    long = AgentSetup(agent_options=AgentOptions(system_prompt="x" * 140_000))
    with pytest.raises(UsageError, match="cannot be longer"):
        Qwen(long).script_arguments(request)


def test_a_success_with_an_error_is_an_error() -> None:
    reader = QwenReader(lambda _: None, "m")
    reader.handle_line(b"not json")
    reader.handle_line(b'{"type":"assistant","message":{"content":[{"type":"tool_use","name":"x","input":{}}]}}')
    reader.handle_line(b'{"type":"result","subtype":"success","is_error":false,"result":"[API Error: 402 no]"}')
    report = reader.report()
    assert (report.finished, report.error, report.steps) == (False, "[API Error: 402 no]", 1)
