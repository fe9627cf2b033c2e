"""The real aider, from its package, against the gateway with a scripted model."""

from pathlib import Path

import pytest

from lab_agents import LAB_AGENTS, STARTED
from proctor.agents.aider import Aider, AiderReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.errors import UsageError
from proctor.core.result import Tokens
from proctor.gateway import load_recording
from program_lab import need_agent, program_run, script

MODEL = "gpt-5.5"


def test_unsupported_options_are_refused() -> None:
    for options in (AgentOptions(system_prompt="x"), AgentOptions(append_system_prompt="x")):
        with pytest.raises(UsageError, match="system prompt"):
            Aider(AgentSetup(agent_options=options))
    with pytest.raises(UsageError, match="no tools"):
        Aider(AgentSetup(agent_options=AgentOptions(allowed_tools=("bash",))))
    with pytest.raises(UsageError, match="requires --model"):
        Aider().variables(AgentRequest(task_id="t", instruction="x", logs="/tmp"), "http://127.0.0.1:1")


async def test_its_own_linter_reads_what_it_has_written(tmp_path: Path) -> None:
    need_agent(LAB_AGENTS["aider"])
    wrong, right = ({"text": f"out.py\n```\nMADE = {value}\n```"} for value in ("made_up", 1))
    files = {"flake8.py": f"open('/workspace/{STARTED}', 'w')\n"}
    recording = tmp_path / "cassette.jsonl"
    async with program_run(Aider, script(wrong, right), tmp_path, files=files, recording=recording) as run:
        outcome = await run.work(MODEL)
        assert outcome.cause is None, (outcome.detail, run.events)
        assert await run.files() == {**files, "out.py": "MADE = 1\n"}
    first, second = load_recording(recording).exchanges
    assert "F821" not in str(first.messages)
    assert "F821 undefined name" in str(second.messages)


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
