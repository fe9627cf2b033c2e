"""The real OpenCode, from its npm package, against the gateway with a scripted model."""

from pathlib import Path

import msgspec
import pytest

from lab_agents import LAB_AGENTS
from proctor.agents.file_hiding import HIDING
from proctor.agents.opencode import OpenCode, OpenCodeReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.environment import EnvironmentSpec, Network
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.result import Tokens
from proctor.gateway import ScriptBackend, parse_script
from proctor.gateway.model_call import Role
from program_lab import need_agent, program_run

REQUEST = AgentRequest(task_id="t", instruction="x", logs="/tmp")


def test_the_native_program_is_mounted_and_a_launcher_without_one_is_refused(tmp_path: Path) -> None:
    launcher = tmp_path / "node_modules" / "opencode-ai" / "bin" / "opencode"
    native = tmp_path / "node_modules" / "opencode-linux-x64" / "bin" / "opencode"
    for file, content in ((launcher, b"#!/bin/sh\n"), (native, b"\x7fELF")):
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
        file.chmod(0o755)
    agent = OpenCode(AgentSetup(program=str(launcher)))
    mount, hiding = agent.prepare_spec(EnvironmentSpec(network=Network.MODEL), REQUEST).mounts
    assert (Path(hiding.source), hiding.writable) == (HIDING, False)
    assert (mount.source, mount.target, mount.writable) == (str(native), "/proctor/opencode", False)
    native.unlink()
    with pytest.raises(InfrastructureError, match="no native OpenCode"):
        agent.find_program()


@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_its_sub_agents_are_no_turns(dialect: str, tmp_path: Path) -> None:
    need_agent(LAB_AGENTS["opencode"])
    model = LAB_AGENTS["opencode"].models[dialect]
    task = {"task": {"description": "look", "prompt": "Explore it.", "subagent_type": "general"}}
    steps = {
        "steps": [{"tools": [task]}, {"text": "Done."}],
        "conversations": [{"prompt": "^Explore it", "steps": [{"text": "Nothing here."}]}],
    }
    backend = ScriptBackend(parse_script({"default": steps}))
    async with program_run(OpenCode, backend, tmp_path) as run:
        outcome = await run.work(model)
        assert (outcome.cause, outcome.final_text) == (None, "Done."), (outcome.detail, run.events)
        used = {one.conversation: (one.role, one.requests) for one in run.session.usage.conversations}
        assert used == {"main": (Role.MAIN, 2), "subagent-1": (Role.SUBAGENT, 1)}
        assert run.session.usage.turns == 2


def test_it_requires_a_model() -> None:
    with pytest.raises(UsageError, match="OpenCode requires --model"):
        OpenCode().arguments(REQUEST)


def test_a_step_that_wants_tools_is_not_the_last() -> None:
    reader = OpenCodeReader(lambda _: None, "m")
    tokens = {"input": 5, "output": 3, "reasoning": 2, "cache": {"read": 7, "write": 1}}
    for event in (
        {"type": "tool_use", "part": {"tool": "bash", "state": {"input": {"command": "ls"}}}},
        {"type": "step_finish", "part": {"reason": "tool-calls", "tokens": tokens}},
    ):
        reader.handle_line(msgspec.json.encode(event))
    reader.handle_line(b"not json")
    report = reader.report()
    assert (report.finished, report.steps) == (False, 1)
    assert report.usage[0].tokens == Tokens(input=5, output=5, cache_read=7, cache_write_5m=1, reasoning=2)
    reader.handle_line(b'{"type":"error","error":{"name":"APIError","data":{"message":"no"}}}')
    assert reader.report().error == "no"
