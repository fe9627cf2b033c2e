import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientError, ClientPayloadError

from gateway_lab import Agent, World, world
from proctor.core.result import Tokens
from proctor.gateway import ReplayDivergence, ScriptBackend, parse_script
from proctor.gateway.dialects.messages_events import message_from_events
from proctor.gateway.sse import EventSplitter
from waiting import PATIENCE, eventually

CLAUDE = {"X-Claude-Code-Session-Id": "s1"}
WORKING = [{"name": "Bash"}, {"name": "Edit"}]
SUMMARY = "CRITICAL: Respond with TEXT ONLY. Your task is to create a detailed summary of the conversation so far."


def script(*steps: dict[str, Any], **more: Any) -> ScriptBackend:
    return ScriptBackend(parse_script({"default": {"steps": list(steps), **more}}))


async def said(here: World | Agent, text: str = "hi", **extra: Any) -> str:
    agent = here if isinstance(here, Agent) else here.agent
    status, body = await agent.ask(text, **extra)
    assert status == 200, body
    return "".join(block["text"] for block in json.loads(body)["content"] if block["type"] == "text")


async def test_each_request_gets_the_next_step() -> None:
    async with world(script({"text": "one"}, {"text": "two"})) as here:
        assert [await said(here), await said(here)] == ["one", "two"]


async def test_a_response_has_thinking_text_and_tools_with_its_usage_in_both_forms() -> None:
    step = {
        "thinking": "Hm.",
        "text": "I run it.",
        "tools": [{"Bash": {"command": "ls {{workspace}}"}}, {"Read": {"file_path": "/x"}}],
        "usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write_5m": 4, "cache_write_1h": 5},
        "repeat": 2,
        "piece": 3,
    }
    async with world(script(step), values={"workspace": "/ws"}) as here:
        status, body = await here.agent.ask()
        whole = json.loads(body)
        _, streamed = await here.agent.ask(stream=True)
        folded = message_from_events(json.loads(payload) for payload in EventSplitter().feed(streamed))
        assert status == 200
        for message in (whole, folded):
            thinking, text, first, second = message["content"]
            assert (thinking["thinking"], text["text"]) == ("Hm.", "I run it.")
            assert (first["name"], first["input"]) == ("Bash", {"command": "ls /ws"})
            assert (second["name"], second["input"]) == ("Read", {"file_path": "/x"})
            assert message["stop_reason"] == "tool_use"
        assert len({block["id"] for m in (whole, folded) for block in m["content"] if "id" in block}) == 4
        tokens = Tokens(input=1, output=2, cache_read=3, cache_write_5m=4, cache_write_1h=5)
        assert here.session.usage.tokens == tokens + tokens


async def test_usage_that_is_not_given_is_estimated() -> None:
    async with world(script({"text": "x" * 400})) as here:
        await here.agent.ask("y" * 4000)
        tokens = here.session.usage.tokens
        assert 1000 < tokens.input < 1100
        assert 100 < tokens.output < 130


async def test_only_known_names_are_filled_in() -> None:
    backend = ScriptBackend(
        parse_script(
            {"values": {"name": "Ada"}, "default": [{"text": "{{name}} {{ task }} {{workspace}} {{other}} {}"}]}
        )
    )
    async with world(backend, task_id="t-7", values={"workspace": "/ws"}) as here:
        assert await said(here) == "Ada t-7 /ws {{other}} {}"


async def test_steps_depend_on_what_was_said_last() -> None:
    steps: list[dict[str, Any]] = [
        {"if": r"^\d+ failed", "then": [{"text": "fix"}], "else": [{"text": "fine"}]},
        {"until": "all passed", "steps": [{"text": "again"}, {"text": "test"}]},
        {"repeat": 2, "text": "bye"},
    ]
    async with world(script(*steps)) as here:
        inputs = ["go\n2 failed", "no", "no", "no", "no", "all passed", "x"]
        responses = [await said(here, text) for text in inputs]
        assert responses == ["fix", "again", "test", "again", "test", "bye", "bye"]


async def test_a_block_in_which_nothing_applies_is_not_repeated_for_ever() -> None:
    steps: list[dict[str, Any]]
    steps = [{"repeat": "forever", "steps": [{"if": "never", "then": [{"text": "no"}]}]}, {"text": "on"}]
    async with world(script(*steps)) as here:
        assert await asyncio.wait_for(said(here), PATIENCE) == "on"


async def test_a_script_that_has_ended_says_so_to_the_client_and_to_the_runner() -> None:
    async with world(script({"text": "one"})) as here:
        await here.agent.ask()
        response = await here.agent.post()
        assert (response.status, response.headers["x-should-retry"]) == (451, "false")
        assert "the script of 'main' ends before request 2" in (await response.json())["error"]["message"]
        await asyncio.sleep(0)
        (diverged,) = here.events_of(ReplayDivergence)
        assert (diverged.conversation, diverged.request) == ("main", 2)
        assert here.session.divergence == diverged


async def test_a_task_that_the_script_does_not_know_is_an_error_of_the_script() -> None:
    async with world(ScriptBackend(parse_script({"tasks": {"a": [{"text": "x"}]}})), task_id="b") as here:
        status, body = await here.agent.ask()
        assert status == 451
        assert b"nothing for task 'b'" in body


async def test_conversations_have_their_own_steps() -> None:
    conversations = [
        {"agent": "reviewer", "steps": [{"text": "reviewed"}]},
        {"prompt": "^Find", "steps": [{"text": "found"}, {"text": "found more"}]},
        {"system": "planner", "steps": [{"text": "planned"}]},
    ]
    backend = script({"text": "main 1"}, {"text": "main 2"}, conversations=conversations)
    async with world(backend) as here:
        reviewer = Agent(here.agent.http, here.agent.base + "/a/reviewer")
        finder = {**CLAUDE, "X-Claude-Code-Agent-Id": "a1"}
        planner = {**CLAUDE, "X-Claude-Code-Agent-Id": "a2"}
        stranger = {**CLAUDE, "X-Claude-Code-Agent-Id": "a3"}
        assert await said(here, headers=CLAUDE, tools=WORKING) == "main 1"
        assert await said(reviewer) == "reviewed"
        assert await said(here, "Find it", headers=finder, tools=WORKING) == "found"
        assert await said(here, "Plan", headers=planner, tools=WORKING, system="You are a planner.") == "planned"
        assert await said(here, headers=CLAUDE, tools=WORKING) == "main 2"
        assert await said(here, "Find it", headers=finder, tools=WORKING) == "found more"
        assert (await here.agent.ask("Else", headers=stranger, tools=WORKING))[0] == 451


async def test_side_calls_and_compactions_get_default_responses() -> None:
    async with world(script({"text": "main"})) as here:
        assert await said(here, headers=CLAUDE, tools=[{"name": "web_search"}]) == "Done."
        assert "<summary>" in await said(here, SUMMARY, headers=CLAUDE, tools=WORKING)
        assert await said(here, headers=CLAUDE, tools=WORKING) == "main"
        assert here.session.usage.compactions == 1


@pytest.mark.parametrize(
    ("step", "status", "kind", "text"),
    [
        ({"error": 401}, 401, "authentication_error", "Unauthorized"),
        ({"error": 402}, 402, "billing_error", "Payment Required"),
        ({"error": 429}, 429, "rate_limit_error", "Too Many Requests"),
        ({"error": 500}, 500, "api_error", "Internal Server Error"),
        ({"error": 529}, 529, "overloaded_error", "Overloaded"),
        ({"error": {"status": 418, "type": "teapot", "message": "short"}}, 418, "teapot", "short"),
        ({"too_long": {}}, 400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum"),
    ],
)
async def test_errors_look_like_the_providers(step: dict[str, Any], status: int, kind: str, text: str) -> None:
    async with world(script(step)) as here:
        response = await here.agent.post()
        assert response.status == status
        assert (await response.json())["error"] == {"type": kind, "message": text}
        assert here.session.usage.errors == {str(status): 1}


async def test_an_error_has_the_headers_that_it_is_given() -> None:
    async with world(script({"error": {"status": 429, "headers": {"retry-after": "2"}}})) as here:
        assert (await here.agent.post()).headers["retry-after"] == "2"


async def test_any_bytes_can_be_a_response() -> None:
    async with world(
        script({"raw": {"body": "<html>Bad gateway</html>", "status": 502}}, {"raw": {"body": "{"}})
    ) as here:
        assert await here.agent.ask() == (502, b"<html>Bad gateway</html>")
        assert await here.agent.ask(stream=True) == (200, b"{")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("cut", [0, 2, 4, {"after": 3, "reset": True}])
async def test_a_stream_can_be_cut_anywhere(cut: Any, stream: bool) -> None:
    async with world(script({"text": "a longer text", "cut": cut, "usage": {"input": 9, "output": 9}})) as here:
        with pytest.raises((ClientPayloadError, ClientError)):
            await here.agent.ask(stream=stream)
        await eventually(lambda: here.session.usage.cut, "the meter's word")
        usage = here.session.usage
        assert (usage.requests, usage.cut) == (1, 1)
        after = cut if isinstance(cut, int) else cut["after"]
        assert usage.tokens.input == (9 if stream and after else 0)


async def test_a_connection_can_end_without_a_response() -> None:
    async with world(script({"drop": True}, {"text": "on"})) as here:
        with pytest.raises(ClientError):
            await here.agent.ask()
        assert await said(here) == "on"
        assert here.session.usage.cut == 1


async def test_a_stream_can_report_an_error() -> None:
    async with world(script({"text": "x", "error_event": {"after": 3}, "repeat": 2})) as here:
        _, body = await here.agent.ask(stream=True)
        assert json.loads(EventSplitter().feed(body)[-1])["error"]["type"] == "overloaded_error"
        assert len(EventSplitter().feed(body)) == 4
        assert here.session.usage.cut == 1
        assert (await here.agent.ask())[0] == 529


async def test_an_event_can_be_broken() -> None:
    async with world(script({"text": "x", "malformed": 2, "repeat": 2})) as here:
        _, body = await here.agent.ask(stream=True)
        with pytest.raises(json.JSONDecodeError):
            json.loads(EventSplitter().feed(body)[2])
        _, body = await here.agent.ask()
        with pytest.raises(json.JSONDecodeError):
            json.loads(body)


async def test_delays_of_a_script_are_kept() -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    steps = [
        {"text": "ab", "delay": 3, "pace": 0.5, "piece": 1},
        {"text": "x", "silence": {"after": 2, "seconds": 100}},
    ]
    backend = ScriptBackend(parse_script({"default": [*steps, {"text": "x", "delay": 7}]}), sleep=sleep)
    async with world(backend) as here:
        await here.agent.ask(stream=True)
        assert waits == [3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]
        waits.clear()
        await here.agent.ask(stream=True)
        assert waits == [100]
        waits.clear()
        await here.agent.ask()
        assert waits == [7]


async def test_silence_lasts_until_the_client_gives_up() -> None:
    async with world(script({"text": "x", "silence": {"after": 1}})) as here:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(here.agent.ask(stream=True), 0.2)
        await eventually(lambda: here.session.usage.cut == 1, "the meter's word")


@pytest.mark.parametrize("reason", ["refusal", "max_tokens", "pause_turn", "model_context_window_exceeded"])
async def test_a_response_can_stop_for_any_reason(reason: str) -> None:
    async with world(script({"text": "x", "stop_reason": reason})) as here:
        assert json.loads((await here.agent.ask())[1])["stop_reason"] == reason
