"""The real Kimi Code, from its npm package, against the gateway with a scripted model."""

from pathlib import Path

import pytest

from plain_environment import PlainEnvironment
from proctor.agents.kimi import Kimi, KimiReader
from proctor.core.agent import AgentRequest
from proctor.core.errors import UsageError

MODEL = "kimi-k2.5"


def test_it_requires_a_model(tmp_path: Path) -> None:
    request = AgentRequest(task_id="t", instruction="x", logs="/tmp")
    with pytest.raises(UsageError, match="requires --model"):
        Kimi().files(request, PlainEnvironment(tmp_path), "http://127.0.0.1:1")


def test_without_its_last_line_it_has_not_finished() -> None:
    reader = KimiReader(lambda _: None, "m")
    reader.handle_line(b"not json")
    reader.handle_line(
        b'{"role":"assistant","content":"Hm.","tool_calls":[{"function":{"name":"Bash","arguments":"{}"}}]}'
    )
    assert (reader.report().finished, reader.report().final_text, reader.report().steps) == (False, "Hm.", 1)
    reader.handle_line(b'{"role":"meta","type":"session.resume_hint","content":"To resume"}')
    assert reader.report().finished
