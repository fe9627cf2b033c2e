"""Trajectories of the real Claude Code: a sub-agent, a failed call, a compaction."""

import asyncio
import os
from pathlib import Path
from typing import Any

from gateway_lab import MODEL, world
from proctor.core.trajectory import Trajectory
from proctor.gateway import ScriptBackend, parse_script
from proctor.report.trajectories import from_atif, read_trajectory, to_atif
from real_claude import claude_program

LOOK = {"description": "look", "prompt": "Explore: look around", "subagent_type": "general-purpose"}
STEPS: list[dict[str, Any]] = [
    {"thinking": "Hm.", "text": "I ask.", "tools": [{"Agent": LOOK}], "usage": {"input": 100, "output": 10}},
    {"text": "I try.", "tools": [{"Bash": {"command": "echo out; exit 3"}}], "usage": {"input": 200, "output": 20}},
    {"too_long": {}},
    {"text": "Done.", "usage": {"input": 50, "output": 5}},
]
EXPLORER = [
    {"text": "I list.", "tools": [{"Bash": {"command": "echo listed"}}], "usage": {"input": 70, "output": 3}},
    {"text": "I looked.", "usage": {"input": 80, "output": 4}},
]


async def record(folder: Path) -> None:
    """Let it work on a script, and keep what an attempt keeps."""
    (folder / "home").mkdir()
    (folder / "work").mkdir()
    script = {"default": {"steps": STEPS, "conversations": [{"prompt": "Explore: look", "steps": EXPLORER}]}}
    backend = ScriptBackend(parse_script(script))
    async with world(backend, recording=folder / "cassette.jsonl", task_id="t") as here:
        environment = {
            "PATH": os.defpath,
            "HOME": str(folder / "home"),
            "CLAUDE_CONFIG_DIR": str(folder / "home/config"),
            "ANTHROPIC_BASE_URL": here.agent.base,
            "ANTHROPIC_API_KEY": "dummy",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
            "IS_SANDBOX": "1",
        }
        with (folder / "stream.jsonl").open("wb") as stream:
            process = await asyncio.create_subprocess_exec(
                *(claude_program(), "--print", "--output-format", "stream-json", "--verbose", "--model", MODEL),
                "--dangerously-skip-permissions",
                env=environment,
                cwd=folder / "work",
                stdin=asyncio.subprocess.PIPE,
                stdout=stream,
                stderr=asyncio.subprocess.DEVNULL,
            )
            await asyncio.wait_for(process.communicate(b"Look, then try."), 60)
        assert process.returncode == 0


def calls(trajectory: Trajectory, lane: str) -> list[tuple[str, str, bool]]:
    """What was called in a lane, with the first line of what came back."""
    return [
        (call.name, (call.output or "").strip().split("\n")[0], call.failed)
        for step in trajectory.steps
        if step.lane == lane
        for call in step.calls
    ]


async def test_the_recording_and_the_stream_agree(tmp_path: Path) -> None:
    await record(tmp_path)
    recorded = read_trajectory(tmp_path, task_id="t", agent="claude_code")
    assert recorded is not None
    assert recorded.instruction == "Look, then try."
    assert [(lane.name, lane.kind) for lane in recorded.lanes] == [("main", "main"), ("subagent-1", "subagent")]
    messages = [(step.lane, step.kind, step.text) for step in recorded.steps if step.source == "agent"]
    assert [(lane, text) for lane, kind, text in messages if kind == "message"] == [
        ("main", "I ask."),
        ("subagent-1", "I list."),
        ("subagent-1", "I looked."),
        ("main", "I try."),
        ("main", "Done."),
    ]
    assert [kind for _, kind, _ in messages].count("compaction") == 1
    errors = [step.text for step in recorded.steps if step.kind == "error"]
    assert len(errors) == 1
    assert "prompt is too long" in errors[0]
    agent, bash = calls(recorded, "main")
    assert (agent[0], agent[2], bash) == ("Agent", False, ("Bash", "Exit code 3", True))
    outputs = [call.output or "" for step in recorded.steps for call in step.calls if call.name == "Agent"]
    assert "I looked." in outputs[0]
    assert calls(recorded, "subagent-1") == [("Bash", "listed", False)]
    assert sum(step.text == "Look, then try." for step in recorded.steps) == 1
    assert sum(step.tokens.input for step in recorded.steps if step.kind == "message") == 500
    assert from_atif(to_atif(recorded)) == recorded

    (tmp_path / "cassette.jsonl").unlink()
    streamed = read_trajectory(tmp_path, task_id="t", agent="claude_code")
    assert streamed is not None
    assert calls(streamed, "main") == calls(recorded, "main")
    assert calls(streamed, "subagent-1") == calls(recorded, "subagent-1")
    assert [step.text for step in streamed.steps if step.source == "agent" and step.lane == "main"] == [
        *("I ask.", "I try.", "Done.")
    ]
    assert streamed.version
