from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.core.result import Tokens
from proctor.gateway.dialects import CHAT
from proctor.gateway.dialects.chat_events import UsageFilter, message_from_events, text_path
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.stream_reader import EventStreamReader

USAGE = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def read(*events: Any) -> tuple[UsageAccumulator, EventStreamReader]:
    usage = UsageAccumulator("asked")
    reader = EventStreamReader(CHAT, usage)
    reader.feed(b"".join(CHAT.encode_event(event) for event in events), 0)
    return usage, reader


@given(
    st.dictionaries(st.sampled_from(["content", "reasoning", "reasoning_content", "tool_calls"]), ANY_JSON), ANY_JSON
)
def test_what_servers_write_in_their_own_way_does_not_hide_the_usage(delta: dict[str, Any], finish: Any) -> None:
    chunk = {"choices": [{"delta": delta, "finish_reason": finish}], "model": finish, "usage": USAGE}
    usage, reader = read(chunk, "[DONE]")
    assert usage.total()[0].tokens == Tokens(input=100, output=50)
    assert reader.events.finished


@pytest.mark.parametrize(
    ("reported", "tokens"),
    [
        ({"prompt_tokens": 100.0, "completion_tokens": 50.0}, Tokens(input=100, output=50)),
        ({"prompt_tokens": 100, "total_tokens": 150}, Tokens(input=100, output=50)),
        ({**USAGE, "cached_tokens": 40}, Tokens(input=60, output=50, cache_read=40)),
        ({**USAGE, "prompt_tokens_details": [], "completion_tokens_details": "?"}, Tokens(input=100, output=50)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": -7}}, Tokens(input=100, output=50)),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 1000}}, Tokens(output=50, cache_read=100)),
        (
            {**USAGE, "prompt_tokens_details": {"cached_tokens": 30, "cache_creation_tokens": 10}},
            Tokens(input=60, output=50, cache_read=30, cache_write_5m=10),
        ),
        (
            {**USAGE, "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_input_tokens": 10}},
            Tokens(input=90, output=50, cache_write_5m=10),
        ),
        (
            {**USAGE, "cache_read_input_tokens": 30, "cache_creation_input_tokens": 10},
            Tokens(input=60, output=50, cache_read=30, cache_write_5m=10),
        ),
        ({**USAGE, "total_tokens": 200}, Tokens(input=100, output=100, reasoning=50)),
        (
            {**USAGE, "total_tokens": 190, "prompt_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 10}},
            Tokens(input=100, output=50, cache_read=30, cache_write_5m=10),
        ),
        (
            {
                **USAGE,
                "total_tokens": 200,
                "prompt_tokens_details": {"cached_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            Tokens(input=100, output=70, cache_read=30, reasoning=20),
        ),
        ({**USAGE, "total_tokens": 120}, Tokens(input=100, output=50)),
        ({**USAGE, "cost": 0.01, "is_byok": False, "cost_details": {"upstream": None}}, Tokens(input=100, output=50)),
    ],
)
def test_usage_is_read_as_providers_write_it(reported: dict[str, Any], tokens: Tokens) -> None:
    usage, _ = read({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": reported})
    assert usage.total()[0].tokens == tokens


@pytest.mark.parametrize(
    "reported",
    [
        {},
        [],
        "many",
        {"prompt_tokens": 100},
        {"completion_tokens": 5},
        {"prompt_tokens": -1, "completion_tokens": 5},
        {"prompt_tokens": True, "completion_tokens": True},
        {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        {"prompt_tokens": 1e300, "completion_tokens": 1},
    ],
)
def test_a_report_that_says_nothing_is_none(reported: Any) -> None:
    usage, _ = read({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}], "usage": reported}, "[DONE]")
    assert not usage.has_usage


def test_usage_inside_a_choice_is_read() -> None:
    usage, _ = read({"choices": [{"delta": {}, "finish_reason": "stop", "usage": USAGE}]}, "[DONE]")
    assert usage.total()[0].tokens == Tokens(input=100, output=50)


def test_an_error_within_a_stream_is_not_forgotten_at_its_end() -> None:
    error = {"code": 502, "message": "the server is gone"}
    _, reader = read({"choices": [{"delta": {}, "finish_reason": "error"}], "error": error}, "[DONE]")
    assert (reader.events.finished, reader.events.error) == (False, "502: the server is gone")


def test_a_chunk_without_choices_that_is_not_the_usage_is_passed_on() -> None:
    first = {"choices": [], "prompt_filter_results": [{"prompt_index": 0}], "usage": None}
    got = UsageFilter().feed(CHAT.encode_event(first))
    assert b"prompt_filter_results" in got
    assert b"usage" not in got
    assert UsageFilter().feed(CHAT.encode_event({"choices": [], "usage": USAGE})) == b""


@given(st.lists(st.integers(1, 30), max_size=30), st.sampled_from(["\n\n", "\r\n\r\n"]))
def test_the_filter_gives_the_same_however_the_stream_is_cut(lengths: list[int], end: str) -> None:
    chunks: list[Any] = [
        {"choices": [{"delta": {"content": 'a "usage" of\n'}}], "usage": None},
        {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": USAGE},
        {"choices": [], "usage": USAGE},
    ]
    stream = b"".join(b"data: " + msgspec.json.encode(chunk) + end.encode() for chunk in chunks)
    stream += f"data: [DONE]{end}".encode()
    taken, rest, got = UsageFilter(), stream, b""
    for length in lengths:
        got, rest = got + taken.feed(rest[:length]), rest[length:]
    got += taken.feed(rest) + taken.finish()
    events = [line[6:] for line in got.replace(b"\r", b"").split(b"\n\n") if line]
    assert events.pop() == b"[DONE]"
    assert [msgspec.json.decode(event) for event in events] == [
        {"choices": [{"delta": {"content": 'a "usage" of\n'}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]


def called(index: int | None, call_id: str | None, **function: str) -> dict[str, Any]:
    call: dict[str, Any] = {"type": "function", "function": function}
    call |= {} if index is None else {"index": index}
    call |= {} if call_id is None else {"id": call_id}
    return {"choices": [{"delta": {"tool_calls": [call]}}]}


@pytest.mark.parametrize("indexes", [(0, 1), (0, 0), (None, None)])
def test_calls_in_parallel_are_told_apart(indexes: tuple[int | None, int | None]) -> None:
    first, second = indexes
    whole = message_from_events(
        [
            called(first, "call_a", name="bash", arguments=""),
            called(first, None, arguments='{"command":'),
            called(first, None, arguments='"ls"}'),
            called(second, "call_b", name="bash", arguments='{"command":"pwd"}'),
        ]
    )
    calls = whole["choices"][0]["message"]["tool_calls"]
    assert [(call["id"], call["function"]["arguments"]) for call in calls] == [
        ("call_a", '{"command":"ls"}'),
        ("call_b", '{"command":"pwd"}'),
    ]


@pytest.mark.parametrize(
    ("delta", "member"),
    [
        ({"content": "x"}, "content"),
        ({"role": "assistant", "content": "x"}, "content"),
        ({"content": None, "reasoning_content": "x"}, "reasoning_content"),
        ({"content": "", "reasoning": "x", "reasoning_details": []}, "reasoning"),
    ],
)
def test_a_piece_of_text_is_found_beside_what_servers_repeat(delta: dict[str, Any], member: str) -> None:
    assert text_path({"choices": [{"delta": delta, "finish_reason": None}]}) == ("choices", 0, "delta", member)


@pytest.mark.parametrize("delta", [{}, {"content": ""}, {"content": "x", "reasoning": "y"}, {"content": ["x"]}])
def test_a_delta_without_a_single_text_has_no_text_path(delta: dict[str, Any]) -> None:
    assert text_path({"choices": [{"delta": delta}]}) is None
