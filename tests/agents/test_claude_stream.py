import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.claude_stream import ClaudeStream, ClaudeStreamSummary
from proctor.core.record import to_json
from proctor.core.result import Tokens

INIT = {"type": "system", "subtype": "init", "claude_code_version": "2.1.197"}


def assistant(identity: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"id": identity, "model": "claude-sonnet-4-5", "content": list(blocks), "usage": {"output_tokens": 1}}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None, **more}


def call(identity: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def text_block(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def result(**more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "Done.", **more}


def fold(*events: dict[str, Any] | bytes, seconds: float = 1.0) -> ClaudeStreamSummary:
    """Events that come a second apart."""
    stream = ClaudeStream()
    for number, event in enumerate(events):
        stream.feed(event if isinstance(event, bytes) else json.dumps(event).encode(), number * seconds)
    return stream.summary(len(events) * seconds)


def progress(event: dict[str, Any]) -> str | None:
    return ClaudeStream().feed(json.dumps(event).encode(), 0.0)


def test_blocks_of_one_message_are_one_turn_and_each_call_is_a_step() -> None:
    summary = fold(
        INIT,
        assistant("m1", text_block("I look.")),
        assistant("m1", call("t1")),
        assistant("m1", call("t2")),
        assistant("m1", call("t2")),
        assistant("m2", text_block("Done.")),
        result(),
    )
    assert (summary.turns, summary.steps, summary.final_text) == (2, 2, "Done.")


def test_the_order_of_keys_does_not_matter() -> None:
    last = {"duration_ms": 1, "result": "x", "subtype": "success", "usage": {}, "type": "result", "is_error": False}
    summary = fold(INIT, last)
    assert summary.result is not None
    assert summary.result.text == "x"


def test_usage_is_that_of_the_last_result_by_model() -> None:
    one = {"inputTokens": 10, "outputTokens": 1, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 4}
    two = {**one, "inputTokens": 30, "cacheCreationEphemeral1hInputTokens": 1, "costUSD": 0.25}
    summary = fold(
        INIT,
        assistant("m1", text_block("a")),
        result(modelUsage={"claude-sonnet-4-5": one}, usage={"input_tokens": 999}, total_cost_usd=0.1),
        INIT,
        assistant("m2", text_block("b")),
        result(modelUsage={"claude-sonnet-4-5": two, "other": {}}, total_cost_usd=0.3, result="Second."),
    )
    assert summary.result is not None
    (sonnet, other) = summary.result.usage
    assert sonnet.tokens == Tokens(input=30, output=1, cache_read=3, cache_write_5m=3, cache_write_1h=1)
    assert (sonnet.requests, sonnet.cost_usd) == (2, 0.25)
    assert (other.requests, other.tokens.total, other.cost_usd) == (0, 0, None)
    assert (summary.result.cost_usd, summary.final_text) == (0.3, "Second.")


def test_a_turn_that_began_after_a_result_is_not_rest() -> None:
    assert not fold(INIT).idle
    assert fold(INIT, result()).idle
    assert not fold(INIT, result(), INIT).idle
    assert fold(INIT, result(), INIT, result()).idle


def test_time_between_turns_and_before_retries_is_not_active() -> None:
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 1500.0, "error_status": None}
    summary = fold({"type": "system", "subtype": "hook_started"}, INIT, retry, result(), INIT)
    assert summary.active_seconds == pytest.approx(2 - 1.5 + 1)


def test_a_synthetic_message_is_no_turn_and_shows_the_error_until_a_response_comes() -> None:
    failure = {"type": "assistant", "error": "rate_limit", "message": {"id": "x", "model": "<synthetic>"}}
    assert fold(INIT, failure).api_error == "rate_limit"
    assert fold(INIT, failure).turns == 0
    assert fold(INIT, failure, assistant("m", text_block("x"))).api_error == ""


def test_compactions_are_counted_and_the_text_of_subagents_is_passed_over() -> None:
    summary = fold(
        INIT,
        {"type": "system", "subtype": "task_started", "task_id": "a1", "task_type": "local_agent"},
        assistant("m", text_block("below"), parent_tool_use_id="t9"),
        {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto"}},
        result(result=""),
    )
    assert summary.compactions == 1
    assert summary.final_text == "", "the text of a sub-agent is not the final one"


def test_lines_that_cannot_be_read_are_counted_and_some_are_kept() -> None:
    summary = fold(b"\xff\xfe", b"[1]", b'"text"', b"", b"  ", b'{"type":', *(20 * [b"more"]), b"[" * 100_000)
    assert summary.unreadable == 25
    assert len(summary.unreadable_lines) == 5
    assert summary.unreadable_lines[1] == "[1]"


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (assistant("m", call("t", command="pytest -q\n\ttests")), "Bash: pytest -q tests"),
        (assistant("m", call("t", "Edit", old_string="x", file_path="/a/b.py")), "Edit: /a/b.py"),
        (assistant("m", call("t", "Odd", number=1, words=["x"])), "Odd"),
        (assistant("m", call("t", "Odd", what="this")), "Odd: this"),
        (assistant("m", call("t"), parent_tool_use_id="t0"), "sub-agent: Bash"),
        (assistant("m", call("t", command="\x1b[2J\x07bell\u202e")), "Bash: [2J bell"),
        (assistant("m", text_block("words")), None),
        ({"type": "system", "subtype": "status", "status": "compacting"}, "compacting its context"),
        ({"type": "system", "subtype": "status", "status": None}, None),
        (
            {"type": "system", "subtype": "api_retry", "attempt": 2, "error_status": 529},
            "retrying (529, attempt 3)",
        ),
        ({"type": "system", "subtype": "api_retry"}, "retrying (no connection, attempt 1)"),
        ({"type": "something new"}, None),
    ],
)
def test_progress_is_a_few_words(event: dict[str, Any], words: str | None) -> None:
    assert progress(event) == words


def test_a_long_command_is_cut() -> None:
    words = progress(assistant("m", call("t", command="x" * 10_000_000)))
    assert words is not None
    assert len(words) <= 100


def test_half_a_character_can_be_kept() -> None:
    line = b'{"type":"result","is_error":false,"result":"cut \\ud83d","errors":["\\udc00"]}'
    assert b"cut ?" in to_json(fold(line))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
fields = [
    "message",
    "id",
    "model",
    "content",
    "parent_tool_use_id",
    "error",
    "permission_denials",
    "modelUsage",
    "total_cost_usd",
    "result",
    "errors",
    "is_error",
    "api_error_status",
    "stop_reason",
    "terminal_reason",
    "attempt",
    "retry_delay_ms",
    "error_status",
    "task_id",
    "task_type",
    "status",
]
kinds = st.sampled_from(["assistant", "user", "result", "system", "stream_event", "new"])
subtypes = st.sampled_from(["init", "success", "error_max_turns", "api_retry", "status", "task_started", "new"])
usages = st.dictionaries(st.text(max_size=3), st.dictionaries(st.sampled_from(["inputTokens", "costUSD"]), json_values))
blocks = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["tool_use", "text"])}, optional={"id": json_values, "input": json_values}
    )
)
events = st.fixed_dictionaries(
    {"type": kinds | json_values, "subtype": subtypes | json_values},
    optional={
        **dict.fromkeys(fields, json_values),
        "modelUsage": usages | json_values,
        "message": st.fixed_dictionaries({"content": blocks | json_values, "id": json_values}) | json_values,
    },
)


@given(st.lists(events | json_values, max_size=8))
def test_no_line_breaks_the_fold_and_what_it_tells_can_be_written(lines: list[Any]) -> None:
    summary = fold(*(json.dumps(line).encode() for line in lines))
    assert to_json(summary)
    assert summary.active_seconds >= 0
    assert summary.unreadable == sum(not isinstance(line, dict) for line in lines)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_break_the_fold(lines: list[bytes]) -> None:
    assert to_json(fold(*lines))


@given(st.permutations([assistant("m1", call("t1")), assistant("m1", call("t2")), assistant("m2", text_block("x"))]))
def test_counts_do_not_depend_on_the_order(middle: list[dict[str, Any]]) -> None:
    summary = fold(INIT, *middle, result())
    assert (summary.turns, summary.steps) == (2, 2)
