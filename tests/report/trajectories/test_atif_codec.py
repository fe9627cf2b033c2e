import json
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.errors import InvalidData
from proctor.core.result import Tokens
from proctor.core.trajectory import Lane, Step, ToolCall, Trajectory
from proctor.report.trajectories import from_atif, read_trajectory, to_atif
from recorded import record_pod

AGENT_ONLY = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
STEP = {"step_id", "timestamp", "source", "message", "observation", "extra", *AGENT_ONLY}
ROOT = {
    *("schema_version", "session_id", "trajectory_id", "agent", "steps", "notes", "final_metrics", "extra"),
    "subagent_trajectories",
}


def check(document: dict[str, Any], *, embedded: bool = False) -> None:
    """The rules of ATIF 1.7, from its description."""
    assert set(document) <= ROOT
    assert document["schema_version"] == "ATIF-v1.7"
    assert set(document["agent"]) <= {"name", "version", "model_name", "tool_definitions", "extra"}
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    assert document["steps"]
    if embedded:
        assert document["trajectory_id"]
    for step in document["steps"]:
        assert set(step) <= STEP
        assert step["source"] in {"system", "user", "agent"}
        if step["source"] != "agent":
            assert not AGENT_ONLY & set(step)
        if "timestamp" in step:
            datetime.fromisoformat(step["timestamp"])
        calls = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        for result in step.get("observation", {}).get("results", ()):
            assert result.get("source_call_id") is None or result["source_call_id"] in calls
    inner = document.get("subagent_trajectories", [])
    assert len({one["trajectory_id"] for one in inner}) == len(inner)
    for one in inner:
        check(one, embedded=True)


async def test_a_pod_is_one_valid_document_and_reads_back_as_it_was(tmp_path: Path) -> None:
    await record_pod(tmp_path / "cassette.jsonl", "t1")
    trajectory = read_trajectory(tmp_path, task_id="t1", agent="pod", version="1")
    assert trajectory is not None
    document = json.loads(to_atif(trajectory))
    check(document)
    assert [one["agent"]["name"] for one in (document, *document["subagent_trajectories"])] == [
        *("coder", "coder", "reviewer")
    ]
    metrics = document["final_metrics"]
    own = [step["metrics"] for step in document["steps"] if step["source"] == "agent"]
    assert metrics["total_prompt_tokens"] == sum(each["prompt_tokens"] for each in own)
    assert from_atif(to_atif(trajectory)) == trajectory


texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text("abc/-1", min_size=1, max_size=6)
counts = st.integers(0, 2**40)
tokens = st.builds(Tokens, input=counts, output=counts, cache_read=counts, cache_write_5m=counts, cache_write_1h=counts)
costs = st.none() | st.floats(0, 1e6)
calls = st.builds(
    ToolCall,
    id=names,
    name=names,
    arguments=st.dictionaries(texts, st.none() | st.integers(-100, 100) | texts | st.lists(texts, max_size=2)),
    output=st.none() | texts,
    failed=st.just(False),
)
steps = st.builds(
    Step,
    source=st.sampled_from(["system", "user", "agent"]),
    lane=st.sampled_from(["main", "coder/main", "x"]),
    at=st.none() | st.datetimes().map(datetime.isoformat) | st.just("yesterday"),
    seconds=st.none() | st.floats(0, 1e6),
    kind=st.sampled_from(["message", "compaction", "error"]),
    text=texts,
    thinking=texts,
    calls=st.lists(calls, max_size=2, unique_by=lambda call: call.id).map(tuple),
    observation=texts,
    model=st.none() | names,
    tokens=tokens,
    cost_usd=costs,
    note=texts,
)


@given(
    st.builds(
        Trajectory,
        task_id=names,
        agent=names,
        version=texts,
        model=st.none() | names,
        session_id=st.none() | names,
        lanes=st.just(()),
        steps=st.lists(steps, min_size=1, max_size=5).map(tuple),
        note=texts,
    )
)
def test_every_trajectory_of_ours_is_valid_and_reads_back(trajectory: Trajectory) -> None:
    lanes = tuple(Lane(name=name) for name in dict.fromkeys(step.lane for step in trajectory.steps))
    whole = msgspec.structs.replace(trajectory, lanes=lanes)
    written = to_atif(whole)
    check(json.loads(written))
    assert from_atif(written) == whole


def theirs(**changes: Any) -> bytes:
    """A small document as another tool writes it."""
    step = {
        "step_id": 1,
        "source": "agent",
        "timestamp": "2026-01-01T00:00:00Z",
        "message": [{"type": "text", "text": "I look."}, {"type": "image", "source": {"path": "x.png"}}],
        "reasoning_effort": "high",
        "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"keystrokes": "ls"}}],
        "observation": {"results": [{"content": "a.py"}]},
        "metrics": {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "cached_tokens": 60,
            "cost_usd": 0.5,
            "logprobs": [0],
        },
    }
    agent = {"name": "terminus", "version": "2", "model_name": "big"}
    return json.dumps({"schema_version": "ATIF-v1.2", "agent": agent, "steps": [step], **changes}).encode()


def test_a_trajectory_of_another_tool_is_read() -> None:
    trajectory = from_atif(theirs(), task_id="t")
    (step,) = trajectory.steps
    assert (trajectory.task_id, trajectory.agent, trajectory.version) == ("t", "terminus", "2")
    assert (step.text, step.model, step.cost_usd) == ("I look.\n[image]", "big", 0.5)
    assert step.tokens == Tokens(input=40, output=5, cache_read=60)
    assert (step.calls[0].output, step.observation) == ("a.py", "")


USER = {"step_id": 1, "source": "user", "message": "hi"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schema_version": "ATIF-v9"}, "not a known version of ATIF"),
        ({"steps": []}, "no steps"),
        ({"steps": [{**USER, "step_id": 2}]}, "has the id 2"),
        ({"steps": [{**USER, "source": "nobody"}]}, "nobody"),
        (
            {"steps": [{**USER, "tool_calls": [{"tool_call_id": "a", "function_name": "b", "arguments": {}}]}]},
            "not the",
        ),
        ({"steps": [{**USER, "observation": {"results": [{"source_call_id": "z"}]}}]}, "did not make"),
        ({"steps": [{**USER, "source": "agent", "metrics": {"prompt_tokens": -1}}]}, "below zero"),
        ({"agent": {"name": "x"}}, "version"),
        ({"extra": {"proctor": {"lanes": 3}}}, "changed"),
        (
            {
                "subagent_trajectories": [
                    {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": []}
                ]
            },
            "no steps",
        ),
    ],
)
def test_an_invalid_trajectory_is_refused_in_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidData, match=words) as refused:
        from_atif(theirs(**changes), where="x.json")
    assert refused.value.sentence.startswith("x.json: ")
    assert "\n" not in refused.value.sentence


def test_invalid_json_is_refused() -> None:
    with pytest.raises(InvalidData, match="truncated"):
        from_atif(b'{"schema_version":')
