"""The real mini-SWE-agent, from its package, against the gateway with a scripted model."""

import pytest

from proctor.agents.mini_swe_agent import MiniSweAgent, MiniSweAgentReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.errors import UsageError

MODEL = "gpt-5.5"


def test_unsupported_options_are_refused() -> None:
    with pytest.raises(UsageError, match="one tool"):
        MiniSweAgent(AgentSetup(agent_options=AgentOptions(allowed_tools=("bash",))))
    with pytest.raises(UsageError, match="requires --model"):
        MiniSweAgent().variables(AgentRequest(task_id="t", instruction="x", logs="/tmp"), "http://127.0.0.1:1")


def test_only_a_submission_is_an_end() -> None:
    reader = MiniSweAgentReader(lambda _: None, "m")
    reader.handle_line(b"mini-swe-agent (step 1, $0.00):")
    reader.handle_line(b'{"proctor":"assistant","text":"I look.","commands":["ls","pwd"],"usage":null,"status":""}')
    reader.handle_line(b'{"proctor":"exit","text":"RepeatedFormatError","status":"RepeatedFormatError"}')
    report = reader.report()
    assert (report.finished, report.steps, report.final_text, report.usage) == (False, 2, "I look.", ())
    assert "RepeatedFormatError" in report.error
