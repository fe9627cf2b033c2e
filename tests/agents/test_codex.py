"""The real Codex, from its npm package, against the gateway with a scripted model."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab_agents import LAB_AGENTS
from proctor.agents.codex import Codex, CodexReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentSpec, Network
from proctor.core.errors import InfrastructureError, UsageError
from program_lab import need_agent, program_run, script

# One that gets its tools with the conversation, and calls them from programs.
NEW_MODEL = "gpt-6.1-sol"
CODEX = LAB_AGENTS["codex"]


@pytest.fixture
def codex() -> None:
    need_agent(CODEX)


@pytest.mark.usefixtures("codex")
async def test_it_works_with_a_model_that_calls_tools_from_programs(tmp_path: Path) -> None:
    steps = [CODEX.writes("out.txt", "made\n", NEW_MODEL), *CODEX.ends]
    async with program_run(Codex, script(*steps), tmp_path) as run:
        outcome = await run.work(NEW_MODEL)
        assert (outcome.cause, outcome.final_text) == (None, "Done."), outcome.detail
        assert await run.files() == {"out.txt": "made\n"}


@pytest.mark.usefixtures("codex")
@pytest.mark.parametrize("fault", [{"cut": 4}, {"error_event": {"after": 2, "type": "server_error"}}])
async def test_a_stream_that_breaks_off_is_no_result(fault: dict[str, Any], tmp_path: Path) -> None:
    async with program_run(Codex, script({"text": "Half of it", **fault, "repeat": "forever"}), tmp_path) as run:
        outcome = await run.work(CODEX.model)
        assert outcome.cause is Cause.AGENT_CRASHED
        assert run.session.usage.cut == run.session.usage.requests == 1


@pytest.mark.usefixtures("codex")
def test_its_package_is_mounted_read_only_and_its_version_is_known() -> None:
    agent = Codex()
    request = AgentRequest(task_id="t", instruction="x", logs="/tmp")
    (mount,) = agent.prepare_spec(EnvironmentSpec(network=Network.MODEL), request).mounts
    assert (mount.target, mount.writable) == ("/proctor/codex", False)
    assert agent.versions()["codex"].startswith("codex")
    with pytest.raises(UsageError, match="without network"):
        agent.prepare_spec(EnvironmentSpec(network=Network.NONE), request)


def test_unsupported_options_are_refused_before_anything_is_run() -> None:
    with pytest.raises(UsageError, match="Proctor sets OPENAI_API_KEY for Codex by itself"):
        Codex(AgentSetup(agent_options=AgentOptions(env={"OPENAI_API_KEY": "dummy"})))
    with pytest.raises(UsageError, match="cannot be limited to some of its tools"):
        Codex(AgentSetup(agent_options=AgentOptions(allowed_tools=("shell",))))


def test_a_launcher_without_its_program_is_refused(tmp_path: Path) -> None:
    launcher = tmp_path / "codex"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    with pytest.raises(InfrastructureError, match="no native Codex"):
        Codex(AgentSetup(program=str(launcher))).find_program()


def test_a_failed_turn_is_an_error_and_a_warning_is_none() -> None:
    reader = CodexReader(lambda _: None, "m")
    for event in (
        {"type": "item.completed", "item": {"type": "error", "message": "unknown model"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Hello."}},
    ):
        reader.handle_line(msgspec.json.encode(event))
    reader.handle_line(b"not json")
    assert reader.report().error == ""
    reader.handle_line(b'{"type":"turn.failed","error":{"message":"no"}}')
    report = reader.report()
    assert (report.finished, report.error, report.final_text, report.steps) == (False, "no", "Hello.", 1)
