import json
from pathlib import Path
from typing import Any

from proctor.core.result import Tokens
from proctor.report.trajectories import read_trajectory


def write(folder: Path, *events: dict[str, Any]) -> None:
    lines = [json.dumps(event) for event in events]
    (folder / "stream.jsonl").write_text("\n".join(["garbage", "[]", *lines, '{"type":']))


def assistant(identity: str, *blocks: dict[str, Any], parent: str | None = None) -> dict[str, Any]:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 1}
    message = {"id": identity, "model": "m", "content": list(blocks), "usage": usage}
    return {"type": "assistant", "message": message, "parent_tool_use_id": parent}


def test_a_stream_alone_is_a_trajectory_without_output_tokens(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}
    write(
        tmp_path,
        {"type": "system", "subtype": "init", "claude_code_version": "2.1"},
        assistant("m1", {"type": "thinking", "thinking": "Hm."}),
        assistant("m1", {"type": "text", "text": "I look."}),
        assistant("m1", call),
        {"type": "user", "message": {"content": [result]}, "timestamp": "2026-01-01T00:00:00Z"},
        assistant("s1", {"type": "text", "text": "inner"}, parent="t9"),
        {"type": "system", "subtype": "api_retry", "error_status": 529},
        assistant("m2", {"type": "text", "text": "Done \ud83d."}),
    )
    trajectory = read_trajectory(tmp_path, task_id="t", agent="claude_code")
    assert trajectory is not None
    assert (trajectory.version, trajectory.model) == ("2.1", "m")
    assert [(step.lane, step.kind, step.text) for step in trajectory.steps] == [
        ("main", "message", "I look."),
        ("subagent-1", "message", "inner"),
        ("main", "error", "The provider failed (529); the request is retried."),
        ("main", "message", "Done ?."),
    ]
    first = trajectory.steps[0]
    assert (first.thinking, first.calls[0].output) == ("Hm.", "a\n[image]")
    assert (first.tokens, first.cost_usd) == (Tokens(input=5, cache_read=7), None)
    assert "unknown" in trajectory.note


def test_malformed_lines_are_harmless(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "input": 3}, {"type": ["x"]}, 7]}},
        {"type": "user", "message": {"content": {"a": 1}}, "timestamp": 5},
        {"type": "assistant", "message": [], "parent_tool_use_id": {}},
        {"type": {"a": []}},
    )
    trajectory = read_trajectory(tmp_path, task_id="t", agent="claude_code")
    assert trajectory is not None
    (step,) = trajectory.steps
    assert step.calls[0].arguments == {"input": 3}
