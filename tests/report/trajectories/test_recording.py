import json
from pathlib import Path
from typing import Any

import pytest

from dialect_lab import NAMES, send
from gateway_lab import world
from proctor.core.errors import InvalidData
from proctor.core.result import Tokens
from proctor.core.trajectory import Lane
from proctor.gateway import ScriptBackend, parse_script
from proctor.report.trajectories import read_trajectory
from recorded import REMINDER, record_pod, record_single


async def test_a_recording_has_every_step_with_its_calls_outputs_tokens_and_cost(tmp_path: Path) -> None:
    await record_single(tmp_path / "cassette.jsonl", "t1", ask="Fix the bug.")
    trajectory = read_trajectory(tmp_path, task_id="t1", agent="claude_code", version="2")
    assert trajectory is not None
    assert (trajectory.task_id, trajectory.agent, trajectory.lanes) == ("t1", "claude_code", (Lane(name="main"),))
    assert trajectory.instruction == "Fix the bug."
    assert [(step.source, step.text) for step in trajectory.steps] == [
        ("system", REMINDER),
        ("user", "Fix the bug."),
        ("agent", "I look."),
        ("agent", "I edit."),
        ("agent", "Done."),
    ]
    looks, edits, ends = trajectory.steps[2:]
    assert looks.thinking == "Hm."
    assert [(call.name, call.arguments, call.output, call.failed) for call in (*looks.calls, *edits.calls)] == [
        ("Bash", {"command": "ls"}, "a.py", False),
        ("Edit", {"file_path": "a.py"}, "no such text", True),
    ]
    assert looks.tokens == Tokens(input=100, output=10, cache_write_5m=50)
    so_far = [totals.tokens.total for totals in trajectory.running_totals()]
    assert so_far == sorted(so_far)
    assert so_far[2] == 160
    assert trajectory.totals.cost_usd == pytest.approx(sum(step.cost_usd or 0 for step in trajectory.steps))
    assert 0 < (ends.cost_usd or 0) < trajectory.totals.cost_usd  # type: ignore[operator]


async def test_each_agent_of_a_pod_has_its_lane_and_so_has_a_subagent(tmp_path: Path) -> None:
    await record_pod(tmp_path / "cassette.jsonl", "t1")
    trajectory = read_trajectory(tmp_path, task_id="t1", agent="pod")
    assert trajectory is not None
    assert trajectory.lanes == (
        Lane(name="coder/main", agent="coder"),
        Lane(name="coder/subagent-1", agent="coder", kind="subagent"),
        Lane(name="reviewer/main", agent="reviewer"),
    )
    steps = [(step.lane, step.kind, step.text.split("(")[0].strip()) for step in trajectory.steps]
    assert steps == [
        ("coder/main", "message", "Fix it."),
        ("coder/main", "message", "I ask around."),
        ("coder/subagent-1", "message", "Explore the code"),
        ("coder/subagent-1", "message", "Nothing here."),
        ("coder/main", "error", "No response from the model"),
        ("coder/main", "message", "I try."),
        ("reviewer/main", "message", "Review it."),
        ("reviewer/main", "message", "Looks good."),
    ]
    assert trajectory.steps[1].calls[0].output == "ok"
    assert trajectory.steps[5].calls[0].output is None


async def test_the_output_of_a_last_call_is_taken_from_the_agents_own_stream(tmp_path: Path) -> None:
    await record_pod(tmp_path / "cassette.jsonl", "t1")
    before = read_trajectory(tmp_path, task_id="t1", agent="pod")
    assert before is not None
    call = before.steps[5].calls[0].id
    line = {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": call, "content": "built"}]}}
    (tmp_path / "stream.jsonl").write_text(f"not json\n{json.dumps(line)}\n[1]\n")
    after = read_trajectory(tmp_path, task_id="t1", agent="pod")
    assert after is not None
    assert after.steps[5].calls[0].output == "built"


async def test_a_running_attempt_is_read_as_far_as_it_has_come(tmp_path: Path) -> None:
    await record_single(tmp_path / "whole.jsonl", "t1", ask="Fix the bug.")
    whole = (tmp_path / "whole.jsonl").read_bytes()
    recording = tmp_path / "cassette.jsonl"
    seen = set()
    for end in range(1, len(whole), 997):
        recording.write_bytes(whole[:end])
        try:
            trajectory = read_trajectory(tmp_path, task_id="t1", agent="a")
        except InvalidData as error:
            assert "empty" in error.sentence  # noqa: PT017 - before its first line is whole
            continue
        assert trajectory is not None
        seen.add(len(trajectory.steps))
    assert seen == {0, 3, 4}


def test_without_logs_there_is_no_trajectory(tmp_path: Path) -> None:
    assert read_trajectory(tmp_path, task_id="t", agent="a") is None


def test_an_invalid_recording_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "cassette.jsonl").write_text("{}\n")
    with pytest.raises(InvalidData, match="line 1"):
        read_trajectory(tmp_path, task_id="t", agent="a")


def _asked(name: str, looks: int) -> dict[str, Any]:
    """A conversation in which the model has looked so many times, in the words of a dialect."""
    user: dict[str, Any] = {"role": "user", "content": "Fix it."}
    said: list[dict[str, Any]] = []
    for number in range(looks):
        output, call = f"out {number}", f"script_{number + 1:06}"
        match name:
            case "messages":
                result = {"type": "tool_result", "tool_use_id": f"toolu_{call}", "content": output}
                said += [{"role": "assistant", "content": "I look."}, {"role": "user", "content": [result]}]
            case "chat":
                said += [{"role": "assistant"}, {"role": "tool", "tool_call_id": f"call_{call}", "content": output}]
            case "responses":
                said.append({"type": "function_call_output", "call_id": f"call_{call}", "output": output})
            case _:
                # The first as a program sends it that gives an id of its own to a call that came without one.
                given = {} if number else {"id": "bash-17"}
                returned = {"functionResponse": {**given, "name": "bash", "response": {"output": output}}}
                said += [{"role": "model", "parts": []}, {"role": "user", "parts": [returned]}]
    match name:
        case "messages":
            return {"messages": [user, *said]}
        case "chat":
            return {"messages": [{"role": "system", "content": "Be terse."}, user, *said]}
        case "responses":
            return {"input": [{"role": "developer", "content": "Be terse."}, user, *said]}
    return {"contents": [{"role": "user", "parts": [{"text": "Fix it."}]}, *said]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", NAMES)
async def test_every_dialect_becomes_the_same_steps(name: str, stream: bool, tmp_path: Path) -> None:
    looks = {"thinking": "Hm.", "text": "I look.", "tools": [{"bash": {"command": "ls"}}], "repeat": 2}
    backend = ScriptBackend(parse_script({"default": [looks, {"text": "Done."}]}))
    async with world(backend, recording=tmp_path / "cassette.jsonl") as lab:
        for turn in range(3):
            await send(lab, name, stream=stream, **_asked(name, turn))
    trajectory = read_trajectory(tmp_path, task_id="t1", agent="codex")
    assert trajectory is not None
    assert [(step.source, step.text, step.thinking) for step in trajectory.steps] == [
        ("user", "Fix it.", ""),
        ("agent", "I look.", "Hm."),
        ("agent", "I look.", "Hm."),
        ("agent", "Done.", ""),
    ]
    calls = [(call.name, call.arguments, call.output) for step in trajectory.steps for call in step.calls]
    assert calls == [("bash", {"command": "ls"}, "out 0"), ("bash", {"command": "ls"}, "out 1")]
