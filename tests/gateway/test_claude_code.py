"""The real Claude Code, from the `claude-agent-sdk` wheel, against the gateway."""

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from gateway_lab import World, fail_with, provider, upstream, world
from proctor.core.causes import Cause
from proctor.core.result import Tokens
from proctor.gateway import ReplayBackend, ScriptBackend, parse_script
from proctor.gateway.recording import load_recording

MODEL = "claude-sonnet-4-5"
FIRST = {"input": 1000, "output": 50, "cache_read": 300, "cache_write_5m": 200, "cache_write_1h": 40}
SECOND = {"input": 1200, "output": 7, "cache_read": 500}
WRITES_A_FILE: list[dict[str, Any]] = [
    {
        "thinking": "A file is wanted.",
        "text": "I write it.",
        "tools": [{"Bash": {"command": "echo made > out.txt && pwd"}}],
        "usage": FIRST,
        "piece": 4,
    },
    {"if": "(?i)error", "then": [{"text": "It failed."}], "else": [{"text": "Done.", "usage": SECOND}]},
]
USED = Tokens(**FIRST) + Tokens(**SECOND)


@pytest.fixture(scope="session")
def claude() -> Path:
    found = importlib.util.find_spec("claude_agent_sdk")
    program = Path(found.origin).parent / "_bundled" / "claude" if found and found.origin else None
    if program is None or not program.is_file():
        pytest.skip("Claude Code is not installed: pip install claude-agent-sdk")
    return program


async def run(program: Path, here: World, folder: Path, *options: str) -> tuple[int, dict[str, Any], Path]:
    """Start it in a fresh home and workspace; gives its exit code, its last event and the workspace."""
    home, workspace = folder / "home", folder / "workspace"
    home.mkdir(parents=True)
    workspace.mkdir()
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / "config"),
        "ANTHROPIC_BASE_URL": here.agent.base,
        "ANTHROPIC_API_KEY": "dummy",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    command = [str(program), "--print", "--output-format", "stream-json", "--verbose", "--model", MODEL]
    process = await asyncio.create_subprocess_exec(
        *command,
        "--dangerously-skip-permissions",
        *options,
        env=environment,
        cwd=workspace,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, error = await asyncio.wait_for(process.communicate(b"Make a file out.txt."), 60)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines, error.decode()
    return process.returncode or 0, lines[-1], workspace


def backend(*steps: dict[str, Any], **more: Any) -> ScriptBackend:
    return ScriptBackend(parse_script({"default": {"steps": list(steps), **more}}))


async def test_a_script_drives_it_and_a_recording_drives_it_again(claude: Path, tmp_path: Path) -> None:
    recording = tmp_path / "cassette.jsonl"
    async with world(backend(*WRITES_A_FILE), recording=recording, cap_usd=1.0) as here:
        code, result, workspace = await run(claude, here, tmp_path / "recorded")
        scripted = here.session.usage
    assert (code, result["is_error"], result["result"]) == (0, False, "Done.")
    assert (workspace / "out.txt").read_text() == "made\n"
    assert scripted.tokens == USED
    assert (scripted.requests, scripted.turns, scripted.retries, scripted.cut) == (2, 2, 0, 0)
    # Claude Code prices what it used from a table of its own: the two must agree.
    assert scripted.cost_usd == pytest.approx(result["total_cost_usd"])
    assert result["modelUsage"][MODEL]["inputTokens"] == USED.input
    assert result["modelUsage"][MODEL]["outputTokens"] == USED.output

    recorded = load_recording(recording)
    assert [entry.exchange.conversation for entry in recorded.exchanges] == ["main", "main"]
    assert recording.stat().st_size < 250_000, "the second request holds only what is new"

    async with world(ReplayBackend(lambda _: recording)) as here:
        code, again, workspace = await run(claude, here, tmp_path / "replayed")
        assert here.session.divergence is None
        assert here.session.usage == scripted
    assert (code, again["result"]) == (0, "Done.")
    assert (workspace / "out.txt").read_text() == "made\n"


async def test_a_spent_budget_ends_it_at_the_first_refusal(claude: Path, tmp_path: Path) -> None:
    async with world(backend(*WRITES_A_FILE), cap_usd=0.001) as here:
        code, result, workspace = await run(claude, here, tmp_path)
        usage = here.session.usage
        assert here.session.limit is not None
        assert here.session.limit.cause is Cause.TASK_BUDGET
    assert (code, result["is_error"], result["api_error_status"]) == (1, True, 402)
    assert "budget_exhausted" in result["result"]
    assert (usage.requests, usage.refused) == (1, 1)
    assert (workspace / "out.txt").exists(), "what was done before stays"


async def test_a_web_search_is_refused_to_it_once_and_it_goes_on(claude: Path, tmp_path: Path) -> None:
    searches: list[dict[str, Any]] = [
        {"text": "I look it up.", "tools": [{"WebSearch": {"query": "how to make a file"}}]},
        {"if": "web_not_allowed", "then": [{"text": "I go on without."}], "else": [{"text": "It found something."}]},
    ]
    async with world(backend(*searches)) as here:
        code, result, _ = await run(claude, here, tmp_path / "refused")
        usage = here.session.usage
    assert (code, result["result"]) == (0, "I go on without.")
    assert (usage.web_refused, usage.refused, usage.turns) == (1, 0, 2)
    async with world(backend(*searches), web=True) as here:
        code, result, _ = await run(claude, here, tmp_path / "allowed")
        usage = here.session.usage
    assert (code, result["result"], usage.web_refused) == (0, "It found something.", 0)


async def test_a_closed_session_ends_it_too(claude: Path, tmp_path: Path) -> None:
    async with world(backend({"text": "never"})) as here:
        await here.session.close()
        code, result, _ = await run(claude, here, tmp_path)
        assert here.session.usage.requests == 0
    assert (code, result["api_error_status"]) == (1, 403)


async def test_a_script_that_ends_too_early_ends_it_at_once(claude: Path, tmp_path: Path) -> None:
    async with world(backend(WRITES_A_FILE[0])) as here:
        code, result, _ = await run(claude, here, tmp_path)
        assert here.session.divergence is not None
        assert here.session.divergence.request == 2
        assert here.session.usage.requests == 2
    assert (code, result["api_error_status"]) == (1, 451)


async def test_a_cut_stream_is_asked_for_again_and_both_are_counted(claude: Path, tmp_path: Path) -> None:
    cut = {"text": "Half of", "cut": 3, "usage": {"input": 900, "output": 9}}
    async with world(backend(cut, {"text": "Whole.", "usage": SECOND, "repeat": 3})) as here:
        code, result, _ = await run(claude, here, tmp_path)
        usage = here.session.usage
    assert (code, result["result"]) == (0, "Whole.")
    assert (usage.cut, usage.models[0].estimated_requests) == (1, 1)
    # Of the one that was cut: the input as it was reported, and no more output than there was text.
    cut_off = Tokens(input=900, output=1) + Tokens(**SECOND)
    assert (usage.tokens.input, usage.tokens.cache_read) == (cut_off.input, cut_off.cache_read)
    assert cut_off.output <= usage.tokens.output <= cut_off.output + 20


@pytest.mark.parametrize(("status", "cause"), [(529, Cause.PROVIDER_ERROR), (401, Cause.BAD_LOGIN)])
async def test_a_provider_that_stays_down_is_not_asked_all_over_again(
    claude: Path, tmp_path: Path, status: int, cause: Cause
) -> None:
    """By itself Claude Code would try eleven times, for three minutes."""
    async with provider() as lab, world(upstream(lab)) as here:
        lab.responses = [fail_with(status, text="no")]
        code, result, _ = await run(claude, here, tmp_path)
        assert here.session.usage.requests == 1
        assert here.session.failure is not None
        assert here.session.failure.cause is cause
    assert (code, result["api_error_status"]) == (1, status)


@pytest.mark.slow
async def test_a_subagent_is_a_conversation_of_its_own(claude: Path, tmp_path: Path) -> None:
    ask = {"description": "look", "prompt": "Explore: look around", "subagent_type": "general-purpose"}
    steps: list[dict[str, Any]] = [
        {"text": "I ask.", "tools": [{"Agent": ask}], "usage": FIRST},
        {"text": "Thanks.", "usage": SECOND, "repeat": "forever"},
    ]
    conversations = [{"prompt": "Explore: look", "steps": [{"text": "I looked.", "usage": {"input": 70, "output": 3}}]}]
    async with world(backend(*steps, conversations=conversations)) as here:
        code, _, _ = await run(claude, here, tmp_path)
        found = {entry.conversation: entry.tokens for entry in here.session.usage.conversations}
    assert code == 0
    assert found["subagent-1"] == Tokens(input=70, output=3)


async def test_compaction_is_told_apart(claude: Path, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = [
        {"text": "One.", "tools": [{"Bash": {"command": "echo 1"}}], "usage": FIRST},
        {"text": "Two.", "tools": [{"Bash": {"command": "echo 2"}}], "usage": FIRST},
        {"too_long": {}},
        {"text": "Done.", "usage": SECOND},
    ]
    async with world(backend(*steps)) as here:
        code, result, _ = await run(claude, here, tmp_path)
        usage = here.session.usage
    assert (code, result["result"]) == (0, "Done.")
    assert (usage.compactions, usage.turns, usage.errors) == (1, 3, {"400": 1})
