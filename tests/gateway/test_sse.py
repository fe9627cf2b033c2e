import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.gateway import sse
from proctor.gateway.dialects.messages_events import events_from_message, message_from_events
from proctor.gateway.sse import EventSplitter, encode_named_event

PAYLOADS = [b'{"type":"message_start"}', b'{"a":"\xc3\xa9 \\n\\n"}', b"{}", b"not json"]
STREAM = b"".join(b"event: x\ndata: " + payload + b"\n\n" for payload in PAYLOADS)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_events_are_the_same_however_the_stream_is_cut_into_chunks(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    splitter = EventSplitter()
    found = [payload for a, b in itertools.pairwise(edges) for payload in splitter.feed(STREAM[a:b])]
    assert found == PAYLOADS


@given(st.lists(st.integers(0, len(STREAM) + 20), max_size=8))
def test_lines_may_end_in_carriage_returns(cuts: list[int]) -> None:
    stream = STREAM.replace(b"\n", b"\r\n")
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    splitter = EventSplitter()
    found = [payload for a, b in itertools.pairwise(edges) for payload in splitter.feed(stream[a:b])]
    assert found == PAYLOADS


def test_comments_and_pings_without_data_are_no_events() -> None:
    assert EventSplitter().feed(b": keep-alive\n\nevent: ping\n\ndata: 1\n\n") == [b"1"]


def test_data_on_several_lines_is_one_payload() -> None:
    assert EventSplitter().feed(b"data: a\ndata: b\n\n") == [b"a\nb"]


def test_an_event_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    splitter = EventSplitter()
    for _ in range(100):
        assert splitter.feed(b"data: " + b"x" * 100) == []
        assert len(splitter._rest) <= 1200
    assert splitter.feed(b"x\n\ndata: next\n\n") == [b"next"]


BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, st.text()),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, st.text()),
    st.builds(
        lambda given: {"type": "tool_use", "id": "t", "name": "Bash", "input": given},
        st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53)),
    ),
    st.just({"type": "redacted_thinking", "data": "abc"}),
)


@given(st.lists(BLOCKS, max_size=4), st.integers(0, 5), st.integers(0, 9))
def test_a_message_is_the_same_whether_it_is_streamed_or_not(
    blocks: list[dict[str, Any]], piece: int, output: int
) -> None:
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": blocks,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": output},
    }
    events = list(events_from_message(message, piece_length=piece))
    assert message_from_events(events) == message
    assert events[-1] == {"type": "message_stop"}
    wire = b"".join(encode_named_event(event) for event in events)
    assert len(EventSplitter().feed(wire)) == len(events)


def test_deltas_of_kinds_unknown_to_us_are_not_lost() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "novel", "note": "a"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "novel_delta", "note": "b", "extra": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"c": 1}}},
        {"type": "ping"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": None},
    ]
    message = message_from_events(events)
    assert message["content"] == [{"type": "novel", "note": "ab", "extra": 1, "citations": [{"c": 1}]}]
    assert message["stop_reason"] == "end_turn"
