import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plain_environment import PlainEnvironment
from proctor.agents import read_outcome
from proctor.agents.command import PROGRAM_PATH, CommandAgent, classify_exit
from proctor.agents.supervisor import ExitReason, ProcessExit
from proctor.core.agent import AgentOutcome, AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.environment import EnvironmentSpec, Mount
from proctor.core.errors import InfrastructureError, UsageError
from waiting import eventually, limits

Ask = Callable[..., AgentRequest]
NOTHING = AgentOptions()


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    def make(**more: Any) -> AgentRequest:
        return AgentRequest(**{"task_id": "t 1", "instruction": "Do it.", "logs": str(tmp_path / "logs"), **more})

    return make


async def run(
    folder: Path,
    request: AgentRequest,
    *words: str,
    progress: list[str] | None = None,
    options: AgentOptions = NOTHING,
) -> AgentOutcome:
    environment = PlainEnvironment(folder, model_url="http://127.0.0.1:1")
    agent = CommandAgent(AgentSetup(command=words, agent_options=options), grace_seconds=0.5)
    lines: list[str] = [] if progress is None else progress
    return await agent.solve(request, environment, lines.append)


async def test_it_gets_the_instruction_twice_and_its_work_is_in_the_workspace(tmp_path: Path, ask: Ask) -> None:
    odd = "Line\n$HOME é\0\n"
    words = ["sh", "-c", 'cat > on-stdin; cp "$PROCTOR_INSTRUCTION_FILE" in-file; echo working; echo done']
    progress: list[str] = []
    outcome = await run(tmp_path, ask(instruction=odd), *words, progress=progress)
    assert (outcome.cause, outcome.final_text, progress) == (None, "working\ndone", ["working", "done"])
    assert (tmp_path / "workspace/on-stdin").read_text() == odd
    assert (tmp_path / "workspace/in-file").read_text() == odd
    assert (tmp_path / "logs/stdout.log").read_text() == "working\ndone\n"
    assert read_outcome(tmp_path / "logs") == outcome


async def test_it_is_given_what_it_may_use(tmp_path: Path, ask: Ask) -> None:
    request = ask(
        model="claude-sonnet-4-5",
        model_path="/t/token",
        max_turns=7,
        wall_seconds=60,
    )
    given = AgentOptions(
        system_prompt="Be brief.", allowed_tools=("Bash", "Read"), env={"MINE": "1", "ANTHROPIC_BASE_URL": "elsewhere"}
    )
    await run(tmp_path, request, "sh", "-c", "env > env", options=given)
    seen = dict(line.split("=", 1) for line in (tmp_path / "workspace/env").read_text().splitlines())
    assert seen["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:1/t/token"
    assert seen["ANTHROPIC_API_KEY"].startswith("placeholder")
    assert seen["NO_PROXY"] == "127.0.0.1"
    assert seen["MINE"] == "1"
    described = {name.removeprefix("PROCTOR_"): value for name, value in seen.items() if name.startswith("PROCTOR_")}
    assert described == {
        "ALLOWED_TOOLS": "Bash,Read",
        "INSTRUCTION_FILE": f"{tmp_path}/tmp/proctor/instruction.md",
        "MAX_TURNS": "7",
        "MODEL": "claude-sonnet-4-5",
        "SYSTEM_PROMPT": "Be brief.",
        "TASK_ID": "t 1",
        "WALL_SECONDS": "60",
    }


@pytest.mark.parametrize(
    ("script", "cause", "words"),
    [
        ("exit 0", None, "finished"),
        ("echo because >&2; exit 3", Cause.AGENT_CRASHED, "it exited with code 3: because"),
        ("kill -9 $$", Cause.AGENT_CRASHED, "killed by signal 9"),
        ("exit 75", Cause.PROVIDER_ERROR, "temporary failure"),
        ("exit 77", Cause.BAD_LOGIN, "login"),
    ],
)
async def test_its_exit_code_says_how_it_went(
    tmp_path: Path, ask: Ask, script: str, cause: Cause | None, words: str
) -> None:
    outcome = await run(tmp_path, ask(), "sh", "-c", script)
    assert outcome.cause is cause
    assert words in outcome.detail


async def test_a_command_that_is_not_there_is_named(tmp_path: Path, ask: Ask) -> None:
    outcome = await run(tmp_path, ask(), "no-such-agent")
    assert outcome.cause is Cause.MISSING_PROGRAM
    assert "not in the environment" in outcome.detail


async def test_its_time_is_limited(tmp_path: Path, ask: Ask) -> None:
    for seconds in limits(0.5):
        outcome = await run(tmp_path, ask(wall_seconds=seconds), "sh", "-c", "echo begun; exec sleep 600")
        assert outcome.cause is Cause.AGENT_TIMEOUT
        if outcome.final_text:
            break
    assert outcome.final_text == "begun"


async def test_being_cancelled_ends_it_and_keeps_what_it_said(tmp_path: Path, ask: Ask) -> None:
    progress: list[str] = []
    running = asyncio.create_task(run(tmp_path, ask(), "sh", "-c", "echo begun; exec sleep 60", progress=progress))
    await eventually(lambda: progress, "its first line")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    kept = read_outcome(tmp_path / "logs")
    assert kept is not None
    assert (kept.cause, kept.final_text) == (Cause.INTERRUPTED, "begun")


def test_a_limit_of_the_environment_is_its_own_failure() -> None:
    for limit, cause in (("wall clock of the environment", Cause.AGENT_TIMEOUT), ("disk", Cause.RESOURCE_LIMIT)):
        assert classify_exit(ProcessExit(reason=ExitReason.ENVIRONMENT_LIMIT, seconds=1, limit=limit))[0] is cause


def test_a_program_of_this_machine_is_mounted_in_the_environment(tmp_path: Path, ask: Ask) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    setup = AgentSetup(program=str(program))
    with pytest.raises(InfrastructureError, match="not an executable program"):
        CommandAgent(setup).prepare_spec(EnvironmentSpec(), ask())
    program.chmod(0o755)
    spec = CommandAgent(setup).prepare_spec(EnvironmentSpec(), ask())
    assert spec.mounts == (Mount(source=str(program), target=PROGRAM_PATH),)
    known = CommandAgent(setup).versions()
    assert known["command"] == PROGRAM_PATH
    assert set(known) == {"command", "program"}
    program.write_text("#!/bin/sh\ntrue\n")
    assert CommandAgent(setup).versions()["program"] != known["program"]
    assert CommandAgent(AgentSetup(command=("true",))).prepare_spec(EnvironmentSpec(), ask()) == EnvironmentSpec()


async def test_a_program_without_a_command_is_run_itself(tmp_path: Path, ask: Ask) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\necho I am $PROCTOR_AGENT\n")
    program.chmod(0o755)
    agent = CommandAgent(AgentSetup(program=str(program), in_place=True))
    outcome = await agent.solve(ask(), PlainEnvironment(tmp_path), lambda _: None)
    assert outcome.final_text == f"I am {program}"


def test_a_command_is_needed() -> None:
    with pytest.raises(UsageError):
        CommandAgent()
