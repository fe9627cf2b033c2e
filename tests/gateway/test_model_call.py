from typing import Any

import msgspec
import pytest

from gateway_lab import parse_call
from proctor.gateway.dialects.messages import content_text
from proctor.gateway.model_call import (
    MAX_CONVERSATIONS,
    ConversationNames,
    ModelCall,
    Role,
)

SUMMARY = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\n"
    "Your task is to create a detailed summary of the conversation so far."
)
WORKING = [{"name": "Bash"}, {"name": "Edit"}]


def call(headers: dict[str, str] | None = None, agent: str = "", **fields: Any) -> ModelCall:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    found = parse_call(msgspec.json.encode(body), headers or {}, agent=agent)
    assert found is not None
    return found


CLAUDE = {"x-claude-code-session-id": "s1"}


def test_claude_codes_requests_are_told_apart() -> None:
    compacting = [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": SUMMARY}]}]
    assert call(CLAUDE, tools=WORKING).role is Role.MAIN
    assert call({**CLAUDE, "x-claude-code-agent-id": "a1"}, tools=WORKING).role is Role.SUBAGENT
    assert call(CLAUDE, tools=[{"name": "web_search", "type": "web_search_20250305"}]).role is Role.SIDE
    assert call(CLAUDE).role is Role.SIDE
    assert call(CLAUDE, tools=WORKING, messages=compacting).role is Role.COMPACTION


def test_a_text_that_only_quotes_the_summary_instruction_is_a_turn() -> None:
    quoted = [{"role": "user", "content": f"What does this mean: {SUMMARY}"}]
    assert call(CLAUDE, tools=WORKING, messages=quoted).role is Role.MAIN


def test_another_program_may_work_without_tools() -> None:
    assert call().role is Role.MAIN


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"model":1,"messages":[]}', b'{"model":"m"}', b"\xff"])
def test_other_bodies_are_not_parsed_as_requests(body: bytes) -> None:
    assert parse_call(body, {}) is None


def test_half_a_character_does_not_hide_a_request() -> None:
    body = rb'{"model":"m","messages":[{"role":"user","content":"a\ud83d b \ude00 \ud83d\ude00 \uD83D"}],"stream":true}'
    found = parse_call(body, {})
    assert found is not None
    assert found.stream
    assert found.last_text() == "a\ufffd b \ufffd \U0001f600 \ufffd"


def test_a_body_nested_without_end_is_no_request() -> None:
    assert parse_call(b'{"model":"m","messages":' + b"[" * 100_000, {}) is None


@pytest.mark.parametrize(("given", "stream"), [({}, False), ({"stream": None}, False), ({"stream": True}, True)])
def test_a_stream_is_what_asks_for_one(given: dict[str, Any], stream: bool) -> None:
    assert call(**given).stream is stream


def test_the_last_text_holds_what_the_tools_said() -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "3 passed"}]},
        {"type": "tool_result", "tool_use_id": "u", "content": "4 failed"},
        {"type": "text", "text": "continue"},
    ]
    asked = call(messages=[{"role": "user", "content": "first"}, {"role": "user", "content": content}])
    assert asked.last_text() == "3 passed\n4 failed\ncontinue"
    assert asked.first_text() == "first"
    assert call(messages=[]).last_text() == ""
    assert content_text(None) == ""


def test_the_system_prompt_is_one_text() -> None:
    assert call(system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]).system_text() == "a\nb"
    assert call(system="c").system_text() == "c"
    assert call().system_text() == ""


def test_conversations_are_named_in_the_order_of_their_appearance() -> None:
    names = ConversationNames()
    main = call(CLAUDE, tools=WORKING)
    sub = call({**CLAUDE, "x-claude-code-agent-id": "a9"}, tools=WORKING)
    other = call({**CLAUDE, "x-claude-code-agent-id": "a1"}, tools=WORKING)
    second = call({"x-claude-code-session-id": "s2"}, tools=WORKING)
    pod = call(CLAUDE, agent="coder", tools=WORKING)
    compaction = call(CLAUDE, tools=WORKING, messages=[{"role": "user", "content": SUMMARY}])
    calls = [main, sub, other, main, second, pod, call(CLAUDE), compaction, sub]
    expected = ["main", "subagent-1", "subagent-2", "main", "main-2", "coder/main", "side", "main", "subagent-1"]
    assert [names.name(each) for each in calls] == expected


def test_ids_without_end_are_not_all_remembered() -> None:
    names = ConversationNames()
    one = call({**CLAUDE, "x-claude-code-agent-id": "x" * 60_000}, tools=WORKING)
    assert len(one.subagent_id) < 1000
    assert names.name(one) == "subagent-1"
    found = {
        names.name(msgspec.structs.replace(one, subagent_id=str(number))) for number in range(MAX_CONVERSATIONS + 100)
    }
    assert len(found) == MAX_CONVERSATIONS
    assert "subagent-more" in found
    assert names.name(one) == "subagent-1"
