"""The real pi, from its npm package, against the gateway with a scripted model, in all four dialects."""

import msgspec
import pytest

from proctor.agents.pi import Pi, PiReader
from proctor.core.agent import AgentRequest
from proctor.core.errors import UsageError


def test_it_requires_a_model() -> None:
    with pytest.raises(UsageError, match="pi requires --model"):
        Pi().script_arguments(AgentRequest(task_id="t", instruction="x", logs="/tmp"))


def test_its_last_message_says_how_it_ended() -> None:
    def read(*stops: str) -> tuple[bool, str, str]:
        reader = PiReader(lambda _: None, "m")
        for stop in stops:
            said = {"role": "assistant", "content": [{"type": "text", "text": stop}], "stopReason": stop}
            failed = {"errorMessage": "no"} if stop == "error" else {}
            reader.handle_line(msgspec.json.encode({"type": "message_end", "message": {**said, **failed}}))
        reader.handle_line(b"not json")
        reader.handle_line(b'{"type":"agent_end","messages":[]}')
        report = reader.report()
        return report.finished, report.error, report.final_text

    assert read("toolUse", "stop") == (True, "", "stop")
    assert read("toolUse", "error") == (False, "no", "error")
    assert read("error", "stop") == (True, "", "stop")
