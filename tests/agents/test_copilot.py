"""The real GitHub Copilot CLI, from its npm package, against the gateway with a scripted model."""

from pathlib import Path

import pytest

from lab_agents import LAB_AGENTS
from proctor.agents.copilot import Copilot, CopilotReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.errors import InfrastructureError, UsageError
from program_lab import need_agent, program_run, requests_of, script

MODEL = "gpt-5.5"


def test_unsupported_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="another system prompt"):
        Copilot(AgentSetup(agent_options=AgentOptions(system_prompt="x")))
    request = AgentRequest(task_id="t", instruction="x", logs="/tmp")
    with pytest.raises(UsageError, match="requires --model"):
        Copilot().variables(request, "http://127.0.0.1:1")
    launcher = tmp_path / "copilot"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    with pytest.raises(InfrastructureError, match="no native Copilot"):
        Copilot(AgentSetup(program=str(launcher))).find_program()


def test_an_error_that_it_recovers_from_is_none() -> None:
    reader = CopilotReader(lambda _: None, "m")
    reader.handle_line(b"not json")
    reader.handle_line(b'{"type":"assistant.message","data":{"content":"Hello.","toolRequests":[]}}')
    reader.handle_line(b'{"type":"tool.execution_start","data":{"toolName":"bash","arguments":{"command":"ls"}}}')
    reader.handle_line(b'{"type":"session.error","data":{"message":"429"}}')
    report = reader.report()
    assert (report.finished, report.error, report.final_text, report.steps) == (False, "429", "Hello.", 1)
    reader.handle_line(b'{"type":"result","exitCode":0}')
    assert (reader.report().finished, reader.report().error) == (True, "")


def test_what_it_says_when_it_is_interrupted_is_no_success() -> None:
    reader = CopilotReader(lambda _: None, "m")
    reader.on_interrupt()
    reader.handle_line(b'{"type":"result","exitCode":0}')
    assert not reader.report().finished


async def test_skills_of_the_repository_are_not_shown_to_the_model(tmp_path: Path) -> None:
    need_agent(LAB_AGENTS["copilot"])
    recording = tmp_path / "cassette.jsonl"
    folders = (".agents/skills", ".claude/skills", ".github/skills", "lib/.github/skills")
    marks = [f"mark-{number}" for number in range(len(folders))]
    files = {
        f"{folder}/{mark}/SKILL.md": f"---\nname: {mark}\ndescription: Bananas.\n---\nSay it.\n"
        for folder, mark in zip(folders, marks, strict=True)
    }
    async with program_run(Copilot, script({"text": "Done."}), tmp_path, files=files, recording=recording) as run:
        assert (await run.work(MODEL)).cause is None
    said = requests_of(recording)
    assert [mark for mark in marks if mark in said] == []
    assert "github-pr-media" in said  # its own are
