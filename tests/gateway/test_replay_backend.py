import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError

from gateway_lab import Agent, World, world
from proctor.core.errors import InvalidData
from proctor.core.result import Tokens
from proctor.gateway import Gateway, GatewaySessionSpec, ReplayBackend, ReplayDivergence, ScriptBackend, parse_script
from proctor.gateway.dialects.messages_events import message_from_events
from proctor.gateway.sse import EventSplitter

CLAUDE = {"X-Claude-Code-Session-Id": "s1"}
WORKING = [{"name": "Bash"}, {"name": "Edit"}]
SUMMARY = "CRITICAL: Respond with TEXT ONLY. Your task is to create a detailed summary of the conversation so far."


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@asynccontextmanager
async def recording(path: Path, *steps: dict[str, Any], **more: Any) -> AsyncIterator[World]:
    backend = ScriptBackend(parse_script({"default": {"steps": list(steps), **more}}))
    async with world(backend, recording=path, values={"workspace": "/old/ws"}) as here:
        yield here


@asynccontextmanager
async def replaying(path: Path, *, values: dict[str, str] | None = None, **options: Any) -> AsyncIterator[World]:
    async with world(ReplayBackend(lambda _: path, **options), values=values) as here:
        yield here


async def talk(here: World, *texts: str, stream: bool = True) -> list[bytes]:
    """A conversation: each request holds all that was said before."""
    said: list[dict[str, Any]] = []
    responses = []
    for text in texts:
        said.append(user(text))
        status, body = await here.agent.ask(stream=stream, messages=said)
        assert status == 200, body
        responses.append(body)
        message = (
            message_from_events(json.loads(payload) for payload in EventSplitter().feed(body))
            if stream
            else json.loads(body)
        )
        said.append({"role": "assistant", "content": message["content"]})
    return responses


STEPS = (
    {"thinking": "Hm.", "text": "First of all.", "tools": [{"Bash": {"command": "ls"}}], "piece": 4},
    {"text": "Second.", "usage": {"input": 5, "output": 6, "cache_read": 7}},
)


async def test_the_same_requests_get_the_same_bytes_and_count_the_same(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with recording(path, *STEPS) as here:
        before = await talk(here, "go", "ok")
        used = here.session.usage
    async with replaying(path) as here:
        assert await talk(here, "go", "ok") == before
        assert here.session.usage == used
        assert here.session.divergence is None


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_response_is_given_in_the_form_that_is_asked_for(tmp_path: Path, streamed: bool) -> None:
    path = tmp_path / "c.jsonl"
    async with recording(path, *STEPS) as here:
        await talk(here, "go", "ok", stream=streamed)
        used = here.session.usage
    async with replaying(path) as here:
        await talk(here, "go", "ok", stream=not streamed)
        assert here.session.usage == used


async def test_a_recorded_replay_is_the_recording_again(tmp_path: Path) -> None:
    one, two = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    async with recording(one, *STEPS) as here:
        before = await talk(here, "go", "ok")
    async with world(ReplayBackend(lambda _: one), recording=two) as here:
        await talk(here, "go", "ok")
    async with replaying(two) as here:
        assert await talk(here, "go", "ok") == before


async def test_the_same_request_again_gets_the_same_response_again(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with recording(path, {"text": "one"}, {"text": "two"}) as here:
        await talk(here, "a", "b")
    async with replaying(path) as here:
        first = await here.agent.ask("a")
        assert await here.agent.ask("a") == first
        _, streamed = await here.agent.ask("a", stream=True)
        assert message_from_events(json.loads(p) for p in EventSplitter().feed(streamed)) == json.loads(first[1])


async def test_errors_are_replayed_too(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    steps: list[dict[str, Any]] = [
        {"error": {"status": 529, "headers": {"retry-after": "2"}}},
        {"text": "a longer text", "cut": 3},
        {"text": "whole"},
        {"raw": {"body": "<html>"}},
    ]

    async def suffer(here: World) -> list[Any]:
        seen: list[Any] = []
        response = await here.agent.post("a")
        seen += [response.status, response.headers["retry-after"], await response.read()]
        with pytest.raises(ClientError):
            await here.agent.ask("a", stream=True)
        seen += [await here.agent.ask("a"), await here.agent.ask("b")]
        return seen

    async with recording(path, *steps) as here:
        before = await suffer(here)
        used = here.session.usage
    async with replaying(path) as here:
        assert await suffer(here) == before
        assert here.session.usage == used


@pytest.mark.parametrize(
    ("texts", "request_number", "reason"),
    [
        (["go", "something else"], 2, "message 3 of 3 differs: recorded"),
        (["go", "ok", "more"], 3, "only 2 requests were recorded"),
    ],
)
async def test_a_divergence_is_reported_where_it_happened(
    tmp_path: Path, texts: list[str], request_number: int, reason: str
) -> None:
    path = tmp_path / "c.jsonl"
    async with recording(path, *STEPS) as here:
        await talk(here, "go", "ok")
    async with replaying(path) as here:
        with pytest.raises(AssertionError):
            await talk(here, *texts)
        await asyncio.sleep(0)
        (diverged,) = here.events_of(ReplayDivergence)
        assert diverged == here.session.divergence
        assert (diverged.conversation, diverged.request) == ("main", request_number)
        assert diverged.message.startswith(f"replay_diverged: request {request_number} of 'main': ")
        assert reason in diverged.message
        assert here.session.usage.errors == {"451": 1}


async def test_another_model_or_another_kind_of_request_is_a_divergence(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with recording(path, {"text": "x"}) as here:
        await here.agent.ask("a")
    async with replaying(path) as here:
        status, body = await here.agent.ask("a", model="claude-opus-5")
        assert (status, b"it is for claude-opus-5 where claude-sonnet-4-5 was recorded" in body) == (451, True)
        assert (await here.agent.ask("a", model="claude-sonnet-4-5-20250929"))[0] == 200


async def test_by_order_alone_what_the_tools_said_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    async with recording(path, *STEPS) as here:
        before = await talk(here, "go", "ok")
    async with replaying(path, tolerance="order") as here:
        assert await talk(here, "gone", "something else") == before
        assert (await here.agent.ask("third"))[0] == 451


async def test_subagents_that_start_together_find_their_own_responses(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    conversations = [
        {"prompt": "cats", "steps": [{"text": "meow"}, {"text": "purr"}]},
        {"prompt": "dogs", "steps": [{"text": "woof"}]},
    ]

    async def ask(here: World, agent: str, text: str) -> bytes:
        headers = {**CLAUDE, "X-Claude-Code-Agent-Id": agent}
        _, body = await here.agent.ask(text, headers=headers, tools=WORKING)
        return body

    async with recording(path, conversations=conversations) as here:
        cats, dogs = await ask(here, "a1", "cats"), await ask(here, "a2", "dogs")
        more = await ask(here, "a1", "cats")
    async with replaying(path) as here:
        assert await ask(here, "z9", "dogs") == dogs
        assert await ask(here, "z8", "cats") == cats
        assert await ask(here, "z8", "cats") == more
        usage = {entry.conversation: entry.requests for entry in here.session.usage.conversations}
        assert usage == {"subagent-1": 1, "subagent-2": 2}


async def test_side_calls_may_come_in_any_order_and_compactions_in_theirs(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    conversations = [{"role": "side", "steps": [{"text": "first"}, {"text": "second"}]}]
    side = {"headers": CLAUDE, "tools": [{"name": "web_search"}]}
    main = {"headers": CLAUDE, "tools": WORKING}
    async with recording(path, {"text": "main"}, conversations=conversations) as here:
        one = await here.agent.ask("q1", **side)
        two = await here.agent.ask("q2", **side)
        summary = await here.agent.ask(SUMMARY, **main)
        turn = await here.agent.ask("go", **main)
    async with replaying(path) as here:
        assert await here.agent.ask("q2", **side) == two
        assert await here.agent.ask("q1", **side) == one
        assert await here.agent.ask(SUMMARY, **main) == summary
        assert await here.agent.ask("go", **main) == turn


async def test_a_pods_agents_are_replayed_apart(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    conversations = [{"agent": "coder", "steps": [{"text": "code"}]}, {"agent": "boss", "steps": [{"text": "plan"}]}]
    async with recording(path, conversations=conversations) as here:
        for name in ("boss", "coder"):
            await Agent(here.agent.http, f"{here.agent.base}/a/{name}").ask()
    async with replaying(path) as here:
        for name, text in (("coder", b"code"), ("boss", b"plan")):
            _, body = await Agent(here.agent.http, f"{here.agent.base}/a/{name}").ask()
            assert text in body
        assert (await Agent(here.agent.http, f"{here.agent.base}/a/stranger").ask())[0] == 451


async def test_a_workspace_may_be_elsewhere_when_it_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    step = {"text": "in {{workspace}}", "tools": [{"Write": {"file_path": "{{workspace}}/a.py"}}], "piece": 2}
    async with recording(path, step) as here:
        await talk(here, "work in /old/ws")
    async with replaying(path, values={"workspace": "/somewhere/new"}) as here:
        (body,) = await talk(here, "work in /somewhere/new")
        message = message_from_events(json.loads(payload) for payload in EventSplitter().feed(body))
        assert message["content"][0]["text"] == "in /somewhere/new"
        assert message["content"][1]["input"] == {"file_path": "/somewhere/new/a.py"}


async def test_responses_come_at_once_or_as_fast_as_they_did(tmp_path: Path) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    path = tmp_path / "c.jsonl"
    async with recording(path, {"text": "abc", "piece": 1, "delay": 0.05, "pace": 0.02}) as here:
        await talk(here, "go")
    async with replaying(path, sleep=sleep) as here:
        await talk(here, "go")
        assert waits == []
    async with replaying(path, sleep=sleep, pace=1.0) as here:
        await talk(here, "go")
        assert 0.15 < sum(waits) < 0.6
        assert len(waits) >= 7


async def test_a_budget_holds_in_a_replay_as_it_did(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    step = {"text": "x", "usage": {"output": 1000}, "repeat": 3}
    async with recording(path, step) as here:
        await talk(here, "a", "b", "c")
        assert here.session.usage.tokens == Tokens(output=3000)
    async with world(ReplayBackend(lambda _: path), cap_usd=0.02) as here:
        with pytest.raises(AssertionError, match="budget_exhausted"):
            await talk(here, "a", "b", "c")
        assert here.session.usage.turns == 2


async def test_a_recording_that_is_not_there_opens_no_session_and_reserves_nothing(tmp_path: Path) -> None:
    async with Gateway(ReplayBackend(lambda spec: tmp_path / spec.task_id)) as gateway:
        with pytest.raises(InvalidData, match="cannot read the recording"):
            async with gateway.session(GatewaySessionSpec(task_id="x", cap_usd=1.0)):
                pass
        assert not gateway.budget._reservations
