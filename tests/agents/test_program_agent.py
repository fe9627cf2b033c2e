"""What holds for every agent that is one program, with the real programs: counting, ending, prompts, isolation.

CI has three of them, which cover the four dialects; the others are tried where they are installed. `make agents` runs
all of them through whole runs.
"""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from gateway_lab import QUICK, provider
from lab_agents import LAB_AGENTS, POISON, STARTED, LabAgent
from proctor.agents import agent_class, agent_names
from proctor.agents.program_agent import ProgramAgent, choose_dialect
from proctor.core.agent import AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.errors import InfrastructureError, UsageError
from proctor.core.result import Tokens
from proctor.gateway import ProviderAuth, ReplayBackend, Secret, Upstream, load_recording
from program_lab import IN_CI, need_agent, processes_with, program_run, requests_of, script
from waiting import eventually

FIRST = {"input": 1000, "output": 50, "cache_read": 300, "reasoning": 20}
SECOND = {"input": 1200, "output": 7, "cache_read": 500}
AGENTS = [pytest.param(agent, id=agent.name) for agent in LAB_AGENTS.values()]
DIALECTS = [
    pytest.param(agent, dialect, id=f"{agent.name}-{dialect}")
    for agent in LAB_AGENTS.values()
    for dialect in agent.models
]
# Programs of CI that take a second or two to start: what depends on the program least, they do in the long proof.
SLOW_STARTERS = ("gemini", "pi")
QUICK_FIRST = [
    pytest.param(agent, id=agent.name, marks=[pytest.mark.long] if agent.name in SLOW_STARTERS else [])
    for agent in LAB_AGENTS.values()
]
WITH_TOOLS = [param for param in QUICK_FIRST if LAB_AGENTS[str(param.id)].has_tools]


@pytest.fixture
def installed(agent: LabAgent) -> None:
    need_agent(agent)


def work_steps(agent: LabAgent, model: str = "") -> list[dict[str, Any]]:
    """Make a file, look where it is, and end."""
    first = agent.writes("out.txt", "made\n", model or agent.model)
    thought = {"thinking": "Hm.", "piece": 4} if agent.has_tools else {}
    return [{**first, **thought, "usage": FIRST}, *({**step, "usage": SECOND} for step in agent.ends)]


def used_by(agent: LabAgent, dialect: str) -> Tokens:
    """What these steps use; Messages has no count of reasoning."""
    used = Tokens(**FIRST) + (Tokens(**SECOND) if agent.ends else Tokens())
    return msgspec.structs.replace(used, reasoning=0) if dialect == "messages" else used


def test_the_lab_knows_every_agent_that_is_one_program() -> None:
    assert sorted(LAB_AGENTS) == [name for name in agent_names() if issubclass(agent_class(name), ProgramAgent)]
    assert all(tuple(sorted(one.models)) == tuple(sorted(one.kind.dialects)) for one in LAB_AGENTS.values())
    assert {dialect for name in IN_CI for dialect in LAB_AGENTS[name].models} == {
        *("chat", "responses", "messages", "gemini")
    }


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("agent", "dialect"), DIALECTS)
async def test_it_works_with_nothing_but_the_gateway_and_every_token_is_counted(
    agent: LabAgent, dialect: str, tmp_path: Path
) -> None:
    recording, used, model = tmp_path / "cassette.jsonl", used_by(agent, dialect), agent.models[dialect]
    async with program_run(agent.kind, script(*work_steps(agent, model)), tmp_path / "1", recording=recording) as run:
        before = await run.processes()
        outcome = await run.work(model)
        assert outcome.cause is None, (outcome.detail, run.events)
        assert outcome.final_text.strip() == agent.says or not agent.says
        assert await run.files() == {"out.txt": "made\n"}
        assert run.session.usage.tokens == used
        assert (run.session.usage.turns, run.session.usage.refused) == (len(work_steps(agent)), 0)
        assert (run.session.usage.pinned, outcome.metrics.steps >= 1) == ({}, True)
        if agent.claims:
            claimed = outcome.claimed[0].tokens
            wanted = used if agent.claims_reasoning else msgspec.structs.replace(used, reasoning=0)
            assert msgspec.structs.replace(claimed, reasoning=wanted.reasoning) == wanted
        assert await run.processes() == before
        assert await run.other_traffic() == {}
    assert {one.dialect.name for one in load_recording(recording).exchanges} == {dialect}
    if model != agent.model:
        return
    async with program_run(agent.kind, ReplayBackend(lambda _: recording), tmp_path / "2") as run:
        again = await run.work(model)
        assert again.cause is None, (again.detail, run.session.divergence)
        assert run.session.usage.tokens == used


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("agent", WITH_TOOLS)
async def test_what_an_earlier_attempt_has_paid_for_is_not_paid_again(agent: LabAgent, tmp_path: Path) -> None:
    first, *rest = work_steps(agent)
    recording = tmp_path / "cassette.jsonl"
    async with program_run(agent.kind, script(first, {"error": 500}), tmp_path / "1", recording=recording) as run:
        assert (await run.work(agent.model)).cause is not None
        assert run.session.usage.turns == 1
    again = program_run(agent.kind, script(first, *rest), tmp_path / "2", earlier_recordings=(recording,))
    async with again as run:
        outcome = await run.work(agent.model)
        assert outcome.cause is None, (outcome.detail, run.events)
        assert await run.files() == {"out.txt": "made\n"}
        assert run.session.usage.tokens == Tokens(**SECOND)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("agent", QUICK_FIRST)
async def test_a_spent_budget_ends_it_with_one_refusal(agent: LabAgent, tmp_path: Path) -> None:
    steps = [{**step, "usage": FIRST} for step in agent.endless()]
    async with program_run(agent.kind, script(*steps), tmp_path, cap_usd=0.003) as run:
        outcome = await run.work(agent.model)
        assert outcome.cause is Cause.AGENT_CRASHED
        assert "budget_exhausted" in outcome.detail
        limit = run.session.limit
        assert (run.session.usage.refused, limit.cause if limit else None) == (1, Cause.TASK_BUDGET)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("agent", QUICK_FIRST)
async def test_an_error_of_the_provider_is_retried_by_the_gateway_alone(agent: LabAgent, tmp_path: Path) -> None:
    async def fail(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "busy"}}, status=500)

    async with provider() as source:
        source.responses = [fail]
        upstream = Upstream(source.url, key=Secret("dummy-key-0123"), auth=ProviderAuth.BEARER, retry=QUICK)
        async with program_run(agent.kind, upstream, tmp_path) as run:
            outcome = await run.work(agent.model)
            assert len(source.requests) == QUICK.tries
            assert outcome.cause is Cause.AGENT_CRASHED
            assert run.session.failure is not None


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("agent", AGENTS)
async def test_a_repository_does_not_steer_it_and_the_options_of_the_run_do(agent: LabAgent, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    options = AgentOptions(
        append_system_prompt="Be: kind\nand #terse." if agent.appends else None,
        allowed_tools=agent.tools,
        effort=agent.effort[0] if agent.effort else None,
    )
    started = program_run(
        agent.kind, script(*work_steps(agent)), tmp_path, options, files=agent.hostile, recording=recording
    )
    async with started as run:
        outcome = await run.work(agent.model)
        assert outcome.cause is None, (outcome.detail, run.events)
        files = await run.files()
        assert STARTED not in files
        assert {name: files[name] for name in agent.hostile} == agent.hostile
        assert files["out.txt"] == "made\n"
    said = requests_of(recording)
    assert POISON not in said
    if agent.appends:
        assert "Be: kind\\nand #terse." in said
    if agent.own_prompt:
        assert agent.own_prompt in said
    if agent.tools:
        assert offered_tools(recording) == set(agent.tools)
    if agent.effort:
        assert agent.effort[1] in effort_of(recording)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("agent", [param for param in QUICK_FIRST if LAB_AGENTS[str(param.id)].own_prompt])
async def test_a_system_prompt_of_the_run_replaces_its_own(agent: LabAgent, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    options = AgentOptions(system_prompt='Be "terse".')
    async with program_run(agent.kind, script(*agent.ends), tmp_path, options, recording=recording) as run:
        assert (await run.work(agent.model)).cause is None
    said = requests_of(recording)
    assert 'Be "terse".' in said
    assert str(agent.own_prompt) not in said


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("agent", WITH_TOOLS)
async def test_when_its_time_is_up_what_it_started_ends_with_it(agent: LabAgent, tmp_path: Path) -> None:
    command = f"sleep 8{os.getpid()}.5"
    async with program_run(agent.kind, script({"tools": [{"shell": {"command": command}}]}), tmp_path) as run:
        before = await run.processes()
        working = asyncio.create_task(run.work(agent.model))
        await eventually(lambda: working.done() or processes_with(command), "its command")
        working.cancel()
        await asyncio.wait({working})
        await eventually(lambda: not processes_with(command), "the end of its command")
        assert await run.processes() == before


@pytest.mark.parametrize("agent", AGENTS)
def test_an_option_without_a_setting_is_refused_in_one_sentence(agent: LabAgent) -> None:
    refused: list[AgentOptions] = [AgentOptions(effort="extreme")]
    refused += [AgentOptions(allowed_tools=("x",))] if not agent.tools else []
    refused += [AgentOptions(append_system_prompt="x")] if not agent.appends else []
    refused += [AgentOptions(system_prompt="x")] if not agent.own_prompt else []
    for options in refused:
        with pytest.raises(UsageError):
            agent.kind(AgentSetup(agent_options=options))


def wrong_program(folder: Path, what: str) -> Path:
    """What somebody may give as a program by mistake."""
    match what:
        case "nothing":
            return folder / "nothing"
        case "folder":
            return folder
        case "system":
            return Path("/bin/true")
        case "text":
            program = folder / "program"
            program.write_text("notes\n")
        case "shell":
            program = folder / "program"
            program.write_text("#!/bin/sh\necho 1.2.3\n")
        case _:
            package = folder / "node_modules" / "another-agent"
            package.mkdir(parents=True)
            (package / "package.json").write_text('{"name": "another-agent", "version": "1.2.3", "bin": {"x": "x.js"}}')
            program = package / "x.js"
            program.write_text("#!/usr/bin/env node\n")
    program.chmod(0o644 if what == "text" else 0o755)
    return program


@pytest.mark.parametrize("what", ["nothing", "folder", "system", "text", "shell", "another package"])
@pytest.mark.parametrize("agent", AGENTS)
def test_a_program_that_is_another_is_refused_before_anything_is_run(
    agent: LabAgent, what: str, tmp_path: Path
) -> None:
    program = wrong_program(tmp_path, what)
    with pytest.raises(InfrastructureError) as refused:
        agent.kind(AgentSetup(program=str(program))).versions()
    assert str(program) in str(refused.value)


def offered_tools(recording: Path) -> set[str]:
    """The names of the tools in the first request."""

    def names(value: Any) -> set[str]:
        if isinstance(value, Mapping):
            inner = [value[key] for key in ("function", "functionDeclarations") if key in value]
            return set().union(*map(names, inner)) if inner else {str(value["name"])}
        return set().union(*map(names, value))

    return names(load_recording(recording).exchanges[0].tools)


def effort_of(recording: Path) -> str:
    """What the first request says on effort."""
    return str(load_recording(recording).exchanges[0].params)


@pytest.mark.parametrize(
    ("model", "dialects", "chosen"),
    [
        ("claude-sonnet-5", ("chat", "messages"), "messages"),
        ("claude-sonnet-5", ("chat",), "chat"),
        ("anthropic/claude-sonnet-5", ("chat", "messages"), "chat"),
        ("gpt-5.5", ("chat", "responses"), "responses"),
        ("gpt-4.1", ("chat", "responses"), "chat"),
        ("gpt-oss-120b", ("chat", "responses"), "chat"),
        ("gemini-3.8-flash", ("chat", "gemini"), "gemini"),
        ("kimi-k2.5", ("chat", "messages"), "chat"),
    ],
)
def test_a_model_is_asked_in_its_own_dialect_where_the_program_has_it(
    model: str, dialects: tuple[str, ...], chosen: str
) -> None:
    assert choose_dialect(model, dialects) == chosen
