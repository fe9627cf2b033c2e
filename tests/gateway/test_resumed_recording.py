import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientError, ClientSession, web

from gateway_lab import Agent, Provider, fail_with, message, provider, respond_with, stream_bytes, upstream
from proctor.gateway import (
    ExchangeFinished,
    Gateway,
    GatewayEvent,
    GatewaySessionSpec,
    ReplayBackend,
    ReplayDivergence,
    ScriptBackend,
    load_recording,
    parse_script,
)
from proctor.gateway.backend import Backend
from proctor.gateway.dialects.messages_events import message_from_events
from proctor.gateway.sse import EventSplitter


@asynccontextmanager
async def attempt(
    backend: Backend, recording: Path, *earlier: Path, cap_usd: float | None = None, workspace: str = "/workspace"
) -> AsyncIterator[tuple[Agent, list[GatewayEvent]]]:
    """One attempt that is recorded, and that may resume earlier ones."""
    events: list[GatewayEvent] = []
    spec = GatewaySessionSpec(
        task_id="t", recording=recording, earlier_recordings=earlier, cap_usd=cap_usd, values={"workspace": workspace}
    )
    async with Gateway(backend) as gateway, ClientSession() as http:
        base = await gateway.listen()
        async with gateway.session(spec, on_event=events.append) as session:
            yield Agent(http, base + session.path), events


async def talk(agent: Agent, *texts: str, stream: bool = True) -> list[str]:
    """A conversation: each request holds all that was said before. What the model said."""
    said: list[dict[str, Any]] = []
    responses = []
    for text in texts:
        said.append({"role": "user", "content": text})
        status, body = await agent.ask(stream=stream, messages=said)
        assert status == 200, body
        whole = (
            message_from_events(json.loads(payload) for payload in EventSplitter().feed(body))
            if stream
            else json.loads(body)
        )
        said.append({"role": "assistant", "content": whole["content"]})
        responses.append(whole["content"][0]["text"])
    return responses


def set_responses(lab: Provider, *texts: str) -> None:
    lab.responses = [respond_with(message(text)) for text in texts]


async def test_recorded_responses_are_replayed_free_and_the_rest_is_requested(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "one", "two", "three")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            assert await talk(agent, "a", "b") == ["one", "two"]
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, events):
            assert await talk(agent, "a", "b", "c") == ["one", "two", "three"]
    assert len(lab.requests) == 3
    costs = [event.cost_usd for event in events if isinstance(event, ExchangeFinished)]
    assert costs[:2] == [0, 0]
    assert costs[2] is not None
    assert costs[2] > 0
    assert [recorded.exchange.paid for recorded in load_recording(tmp_path / "2").exchanges] == [True, True, False]


async def test_an_attempt_that_was_cut_short_while_it_was_catching_up_loses_nothing(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "one", "two", "three", "four")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            await talk(agent, "a", "b", "c")
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, _):
            await talk(agent, "a")
        async with attempt(upstream(lab), tmp_path / "3", tmp_path / "1", tmp_path / "2") as (agent, _):
            assert await talk(agent, "a", "b", "c", "d") == ["one", "two", "three", "four"]
    assert len(lab.requests) == 4


async def test_a_response_that_a_later_attempt_paid_for_is_found_too(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "one", "two", "three")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            await talk(agent, "a")
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, _):
            await talk(agent, "a", "b")
        async with attempt(upstream(lab), tmp_path / "3", tmp_path / "1", tmp_path / "2") as (agent, _):
            assert await talk(agent, "a", "b", "c") == ["one", "two", "three"]
    assert len(lab.requests) == 3


async def test_a_question_that_differs_is_asked_and_so_is_all_that_follows_from_it(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "one", "two", "other", "more")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            await talk(agent, "a", "b")
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, _):
            assert await talk(agent, "a", "something else", "c") == ["one", "other", "more"]
    assert len(lab.requests) == 4


async def test_a_question_asked_twice_gets_the_two_responses_that_it_got_and_then_a_new_one(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "heads", "tails", "edge")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            assert [await talk(agent, "toss") for _ in range(2)] == [["heads"], ["tails"]]
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, _):
            assert [await talk(agent, "toss") for _ in range(3)] == [["heads"], ["tails"], ["edge"]]


async def test_a_repeated_request_gets_the_form_that_it_asks_for(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "one")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            await talk(agent, "a", stream=True)
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, _):
            assert await talk(agent, "a", stream=False) == ["one"]
    assert len(lab.requests) == 1


async def html(_: Any) -> Any:
    return web.Response(text="<html>a proxy's page</html>", content_type="text/html")


async def malformed(request: Any) -> Any:
    body = stream_bytes(message("bad")).replace(b'"content_block_delta","index"', b'"content_block_delta" "index"')
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    await response.write(body)
    return response


@pytest.mark.parametrize("bad", [html, malformed, fail_with(400)])
async def test_an_incomplete_response_is_not_replayed(tmp_path: Path, bad: Any) -> None:
    async with provider() as lab:
        lab.responses = [bad, respond_with(message("good"))]
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            await agent.ask(stream=True, messages=[{"role": "user", "content": "a"}])
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, _):
            assert await talk(agent, "a") == ["good"]
    assert len(lab.requests) == 2


async def test_redacted_values_are_not_compared(tmp_path: Path) -> None:
    """The agent's base URL holds a secret of its session, and its tools may print it."""
    async with provider() as lab:
        set_responses(lab, "one", "two")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            await talk(agent, f"env says {agent.base.rpartition('/')[2]} and more")
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1") as (agent, _):
            assert await talk(agent, f"env says {agent.base.rpartition('/')[2]} and more") == ["one"]
    assert len(lab.requests) == 1


async def test_paths_in_the_responses_move_with_the_workspace(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "edit /old/workspace/a.py")
        async with attempt(upstream(lab), tmp_path / "1", workspace="/old/workspace") as (agent, _):
            await talk(agent, "we are in /old/workspace")
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1", workspace="/new/workspace") as (
            agent,
            _,
        ):
            said = await talk(agent, "we are in /new/workspace")
    assert said == ["edit /new/workspace/a.py"]


@pytest.mark.parametrize("content", [b"", b'{"kind":"cass', b"rubbish\n"])
async def test_a_recording_that_cannot_be_read_holds_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "1").write_bytes(content)
    async with provider() as lab:
        set_responses(lab, "one")
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1", tmp_path / "none") as (agent, _):
            assert await talk(agent, "a") == ["one"]


async def test_replayed_responses_spend_no_budget(tmp_path: Path) -> None:
    async with provider() as lab:
        set_responses(lab, "one", "two", "three")
        async with attempt(upstream(lab), tmp_path / "1") as (agent, _):
            await talk(agent, "a", "b")
        # Enough for one response, not for two; the two that are paid for do not count.
        async with attempt(upstream(lab), tmp_path / "2", tmp_path / "1", cap_usd=1e-12) as (agent, _):
            assert await talk(agent, "a", "b", "c") == ["one", "two", "three"]
            status, _ = await agent.ask(messages=[{"role": "user", "content": "d"}])
            assert status == 402


LINES = [{"text": "one"}, {"error": 529}, {"cut": 2, "text": "lost"}, {"text": "two"}, {"text": "three"}]


async def insist(agent: Agent, said: list[dict[str, Any]]) -> None:
    """Ask until there is a whole response, as an agent does after errors."""
    for _ in range(len(LINES)):
        try:
            status, body = await agent.ask(stream=True, messages=said)
        except ClientError:
            continue
        if status == 200 and b"message_stop" in body:
            return


async def test_a_script_goes_on_after_what_it_has_said_before(tmp_path: Path) -> None:
    script = ScriptBackend(parse_script({"default": LINES}))
    async with attempt(script, tmp_path / "1") as (agent, _):
        assert await talk(agent, "a") == ["one"]
        said = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "one"), ("user", "b"))]
        await insist(agent, said)
    async with attempt(script, tmp_path / "2", tmp_path / "1") as (agent, _):
        assert await talk(agent, "a", "b", "c") == ["one", "two", "three"]


async def test_a_script_that_has_become_all_errors_does_not_go_on_for_ever(tmp_path: Path) -> None:
    async with attempt(ScriptBackend(parse_script({"default": LINES})), tmp_path / "1") as (agent, _):
        await talk(agent, "a")
    worse = ScriptBackend(parse_script({"default": [{"error": 529, "repeat": "forever"}]}))
    async with attempt(worse, tmp_path / "2", tmp_path / "1") as (agent, _):
        assert await talk(agent, "a") == ["one"]


async def test_a_replay_goes_on_after_what_it_has_said_before(tmp_path: Path) -> None:
    async with attempt(ScriptBackend(parse_script({"default": LINES})), tmp_path / "0") as (agent, _):
        await talk(agent, "a")
        said = [{"role": role, "content": text} for role, text in (("user", "a"), ("assistant", "one"), ("user", "b"))]
        await insist(agent, said)
        said += [{"role": "assistant", "content": "two"}, {"role": "user", "content": "c"}]
        await insist(agent, said)
    replay = ReplayBackend(lambda _: tmp_path / "0")
    async with attempt(replay, tmp_path / "1") as (agent, _):
        assert await talk(agent, "a") == ["one"]
        await insist(agent, said[:3])
    async with attempt(replay, tmp_path / "2", tmp_path / "1") as (agent, events):
        assert await talk(agent, "a", "b", "c") == ["one", "two", "three"]
    assert not [event for event in events if isinstance(event, ReplayDivergence)]
