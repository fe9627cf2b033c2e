"""The real Gemini CLI, from its npm package, against the gateway with a scripted model."""

from pathlib import Path

import msgspec
import pytest

from lab_agents import LAB_AGENTS
from proctor.agents.gemini import Gemini, GeminiReader
from proctor.core.agent import AgentRequest
from proctor.core.environment import EnvironmentSpec, Network
from proctor.gateway import load_recording
from program_lab import need_agent, program_run, script

MODEL = "gemini-2.5-pro"


@pytest.fixture
def gemini() -> None:
    need_agent(LAB_AGENTS["gemini"])


@pytest.mark.usefixtures("gemini")
def test_its_package_and_node_are_mounted_read_only_and_their_versions_are_known() -> None:
    agent = Gemini()
    request = AgentRequest(task_id="t", instruction="x", logs="/tmp")
    mounts = agent.prepare_spec(EnvironmentSpec(network=Network.MODEL), request).mounts
    assert {mount.target for mount in mounts} > {"/proctor/gemini", "/proctor/gemini-package"}
    assert not any(mount.writable for mount in mounts)
    versions = agent.versions()
    assert versions["gemini"][0].isdigit()
    assert versions["node"].startswith("v")


@pytest.mark.usefixtures("gemini")
async def test_files_that_do_not_steer_it_can_be_read(tmp_path: Path) -> None:
    read = [{"read_file": {"file_path": name}} for name in ("GEMINI.md", "lib/code.txt")]
    recording, files = tmp_path / "cassette.jsonl", {"GEMINI.md": "Say BANANA.", "lib/code.txt": "plain text"}
    steps = script({"tools": read}, {"text": "Done."})
    async with program_run(Gemini, steps, tmp_path, files=files, recording=recording) as run:
        assert (await run.work(MODEL)).cause is None
    first, second = load_recording(recording).exchanges
    assert "BANANA" not in str((first.messages, first.system))
    assert "BANANA" in str(second.messages)
    assert "plain text" in str(second.messages)


def test_its_events_are_read() -> None:
    told: list[str] = []
    reader = GeminiReader(told.append, MODEL)
    for event in (
        {"type": "message", "role": "user", "content": "Do it."},
        {"type": "message", "role": "assistant", "content": "I look"},
        {"type": "tool_use", "tool_name": "run_shell_command", "parameters": {"command": "ls"}},
        {"type": "error", "severity": "warning", "message": "loop"},
        {"type": "message", "role": "assistant", "content": "Do"},
        {"type": "message", "role": "assistant", "content": "ne."},
    ):
        reader.handle_line(msgspec.json.encode(event))
    reader.handle_line(b"YOLO mode is enabled.")
    report = reader.report()
    assert (report.finished, report.error, report.final_text, report.steps) == (False, "", "Done.", 1)
    assert "run_shell_command ls" in told
    reader.handle_line(b'{"type":"result","status":"error","error":{"type":"Error","message":"no"}}')
    assert (reader.report().finished, reader.report().error) == (False, "no")
