import asyncio
from typing import Any

import msgspec
import pytest

from dialect_lab import parsed, send
from gateway_lab import world
from proctor.core.result import Tokens
from proctor.gateway import ScriptBackend, parse_script
from proctor.gateway.dialects import RESPONSES, route
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.model_call import ConversationNames, Role
from proctor.gateway.stream_reader import EventStreamReader


def read(*events: dict[str, Any]) -> tuple[UsageAccumulator, EventStreamReader]:
    usage = UsageAccumulator("asked")
    reader = EventStreamReader(RESPONSES, usage)
    reader.feed(b"".join(RESPONSES.encode_event(event) for event in events), 0)
    return usage, reader


def ended(kind: str = "completed", **fields: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10},
        "output_tokens": 50,
        "output_tokens_details": {"reasoning_tokens": 20},
        "total_tokens": 150,
    }
    return {"type": f"response.{kind}", "response": {"model": "served", "output": [], "usage": usage, **fields}}


@pytest.mark.parametrize(("kind", "finished"), [("completed", True), ("incomplete", True), ("failed", False)])
def test_the_last_event_has_the_usage_however_the_response_ended(kind: str, finished: bool) -> None:
    usage, reader = read(ended(kind, error={"code": "server_error", "message": "gone"}))
    (one,) = usage.total()
    assert one.tokens == Tokens(input=60, output=50, cache_read=30, cache_write_5m=10, reasoning=20)
    assert one.model == "served"
    assert reader.events.finished is finished
    assert reader.events.error == (None if finished else "server_error: gone")


def test_an_error_event_ends_a_stream() -> None:
    _, reader = read({"type": "error", "code": "rate_limit_exceeded", "message": "slow down"})
    assert (reader.events.finished, reader.events.error) == (False, "rate_limit_exceeded: slow down")


def test_text_is_counted_once_whether_it_comes_in_deltas_or_in_whole_items() -> None:
    item = {"type": "response.output_item.done", "item": {"type": "message", "content": [{"text": "x" * 100}]}}
    with_deltas, _ = read({"type": "response.output_text.delta", "delta": "x" * 100}, item)
    whole, _ = read(item)
    assert with_deltas.unreported_bytes == 100
    assert 100 <= whole.unreported_bytes < 250


def test_web_searches_are_counted() -> None:
    searches = [{"type": "web_search_call", "action": {"type": kind}} for kind in ("search", "open_page", "search")]
    usage, _ = read(*({"type": "response.output_item.done", "item": item} for item in searches), ended())
    assert usage.total()[0].web_searches == 2


def metadata(**fields: Any) -> dict[str, str]:
    return {"session-id": "s", "x-codex-turn-metadata": msgspec.json.encode(fields).decode()}


@pytest.mark.parametrize(
    ("headers", "role"),
    [
        (metadata(request_kind="turn", thread_source="user", thread_id="a"), Role.MAIN),
        (metadata(request_kind="turn", thread_source="subagent", thread_id="b"), Role.SUBAGENT),
        (metadata(request_kind="compaction", thread_source="user", thread_id="a"), Role.COMPACTION),
        ({**metadata(), "x-openai-subagent": "collab_spawn", "thread-id": "b"}, Role.SUBAGENT),
        ({"x-codex-turn-metadata": "{"}, Role.MAIN),
        ({}, Role.MAIN),
    ],
)
def test_codex_says_what_its_requests_are_for(headers: dict[str, str], role: Role) -> None:
    assert parsed("responses", headers=headers).role is role


def test_sub_agents_are_conversations_of_their_own() -> None:
    names = ConversationNames()
    main = parsed("responses", headers=metadata(thread_source="user", thread_id="a"))
    children = [
        parsed("responses", headers=metadata(thread_source="subagent", thread_id=thread)) for thread in ("b", "c", "b")
    ]
    assert [names.name(call) for call in (main, *children)] == ["main", "subagent-1", "subagent-2", "subagent-1"]


def test_the_tools_of_the_newest_models_come_with_the_conversation() -> None:
    tools = [{"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}]
    added = {"type": "additional_tools", "role": "developer", "tools": tools}
    call = parsed("responses", input=[added, {"role": "user", "content": "fix it"}])
    assert (call.tools, call.server_tools) == (("exec",), ())
    assert call.first_text() == "fix it"


def test_an_input_may_be_a_text() -> None:
    assert parsed("responses", input="fix it").last_text() == "fix it"


def test_a_compaction_has_a_path_of_its_own() -> None:
    found = route("POST", "/v1/responses/compact", "")
    assert found is not None
    call = RESPONSES.parse_call(found, b'{"model":"m","input":[]}', {})
    assert call is not None
    assert (call.role, call.path) == (Role.COMPACTION, "/responses/compact")


def test_outputs_of_tools_since_the_models_items_are_the_last_text() -> None:
    items = [
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "2", "name": "b", "input": "x"},
        {"type": "function_call_output", "call_id": "1", "output": "3 passed"},
        {"type": "custom_tool_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "4 failed"}]},
    ]
    assert parsed("responses", input=items).last_text() == "3 passed\n4 failed"


def test_ids_and_thoughts_are_not_compared() -> None:
    one = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "c1",
        "name": "a",
        "arguments": "{}",
        "status": "completed",
    }
    two = {"type": "function_call", "call_id": "c2", "name": "a", "arguments": "{}"}
    assert RESPONSES.comparable_item(one) == RESPONSES.comparable_item(two)
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    assert RESPONSES.comparable_item(thought) == RESPONSES.comparable_item({**thought, "encrypted_content": "def"})


async def test_custom_calls_are_scripted_as_texts() -> None:
    steps = [{"tools": [{"exec": "await tools.exec_command({cmd: 'ls'})"}]}]
    async with world(ScriptBackend(parse_script({"default": steps}))) as lab:
        _, body = await send(lab, "responses")
        (item,) = msgspec.json.decode(body)["output"]
        assert (item["type"], item["name"]) == ("custom_tool_call", "exec")
        assert item["input"].startswith("await")


async def test_a_websocket_is_refused_at_once() -> None:
    async with world(ScriptBackend(parse_script({"default": [{"text": "x"}]}))) as lab:
        host, _, rest = lab.agent.base.removeprefix("http://").partition(":")
        port, _, path = rest.partition("/")
        reader, writer = await asyncio.open_connection(host, int(port))
        head = f"GET /{path}/v1/responses HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        writer.write(head.encode() + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n")
        status = await reader.readline()
        writer.close()
        assert status.startswith(b"HTTP/1.1 426")
