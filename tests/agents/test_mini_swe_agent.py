"""The real mini-SWE-agent, from its package, against the gateway with a scripted model."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from optional_agents import (
    ENDLESS,
    FIRST,
    SECOND,
    USED,
    first_request,
    need_program,
    program_run,
    script,
    works_and_replays,
)
from proctor.agents.mini_swe_agent import REMEDY, MiniSweAgent, MiniSweAgentReader
from proctor.core.agent import AgentRequest, AgentSetup
from proctor.core.agent_options import AgentOptions
from proctor.core.causes import Cause
from proctor.core.errors import UsageError
from proctor.core.programs import find_mini_swe_agent

MODEL = "gpt-5.5"
SUBMITS: list[dict[str, Any]] = [
    {"text": "I make it.", "tools": [{"shell": {"command": "echo made > out.txt && pwd"}}], "usage": FIRST},
    {"tools": [{"shell": {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo Done."}}], "usage": SECOND},
]


@pytest.fixture
def installed() -> None:
    need_program(find_mini_swe_agent, REMEDY)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-4-5"])
async def test_it_works_in_the_dialect_of_the_model_and_every_token_is_counted(model: str, tmp_path: Path) -> None:
    used = msgspec.structs.replace(USED, reasoning=0) if "claude" in model else USED
    outcome = await works_and_replays(MiniSweAgent, model, tmp_path, *SUBMITS, used=used)
    assert outcome.metrics.steps == 2
    assert outcome.claimed[0].tokens == used


@pytest.mark.usefixtures("installed")
async def test_a_spent_budget_ends_it_with_one_refusal(tmp_path: Path) -> None:
    async with program_run(MiniSweAgent, script(ENDLESS), tmp_path, cap_usd=0.01) as run:
        outcome = await run.work(MODEL)
        assert outcome.cause is Cause.AGENT_CRASHED
        assert "budget_exhausted" in outcome.detail
        assert run.session.usage.refused == 1


@pytest.mark.usefixtures("installed")
async def test_the_repository_does_not_steer_it_and_prompts_of_the_run_do(tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    options = AgentOptions(append_system_prompt="Be '{{ kind }}' 😀\nand \"terse\".")
    shows = {"tools": [{"shell": {"command": "env"}}]}
    async with program_run(MiniSweAgent, script(shows, *SUBMITS), tmp_path, options, recording=recording) as run:
        (run.workspace / "mini.yaml").write_text("agent:\n  system_template: BANANA\n  instance_template: BANANA\n")
        (run.workspace / ".env").write_text("OPENAI_API_BASE=http://127.0.0.1:9/\nSTEERED=BANANA\n")
        for name in ("minisweagent", "litellm", "yaml", "sitecustomize", "json"):
            (run.workspace / f"{name}.py").write_text("raise SystemExit('BANANA')")
        outcome = await run.work(MODEL)
        assert outcome.cause is None, outcome.detail
    assert "BANANA" not in recording.read_text()
    said = first_request(recording)
    assert "You are a helpful assistant" in said
    assert "Be \\'{{ kind }}\\' 😀\\nand \"terse\"." in said


@pytest.mark.usefixtures("installed")
async def test_another_system_prompt_stands_in_the_place_of_its_own(tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    options = AgentOptions(system_prompt="You fix programs.")
    async with program_run(MiniSweAgent, script(*SUBMITS), tmp_path, options, recording=recording) as run:
        assert (await run.work(MODEL)).cause is None
    said = first_request(recording)
    assert "You fix programs." in said
    assert "You are a helpful assistant" not in said


@pytest.mark.usefixtures("installed")
def test_its_version_is_known() -> None:
    assert MiniSweAgent().versions()["mini_swe_agent"][0].isdigit()


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(UsageError, match="one tool"):
        MiniSweAgent(AgentSetup(agent_options=AgentOptions(allowed_tools=("bash",))))
    with pytest.raises(UsageError, match="told its model"):
        MiniSweAgent().variables(AgentRequest(task_id="t", instruction="x", logs="/tmp"), "http://127.0.0.1:1")


def test_only_a_submission_is_an_end() -> None:
    reader = MiniSweAgentReader(lambda _: None, "m")
    reader.handle_line(b"mini-swe-agent (step 1, $0.00):")
    reader.handle_line(b'{"proctor":"assistant","text":"I look.","commands":["ls","pwd"],"usage":null,"status":""}')
    reader.handle_line(b'{"proctor":"exit","text":"RepeatedFormatError","status":"RepeatedFormatError"}')
    report = reader.report()
    assert (report.finished, report.steps, report.final_text, report.usage) == (False, 2, "I look.", ())
    assert "RepeatedFormatError" in report.error
