import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway_lab import message, stream_bytes
from proctor.core.result import Tokens
from proctor.gateway.dialects import MESSAGES
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.sse import encode_named_event
from proctor.gateway.stream_reader import BodyReader, EventStreamReader

TOKENS = Tokens(input=11, output=22, cache_read=33, cache_write_5m=44, cache_write_1h=55)
# The text pretends to be what the tap looks for.
STREAM = stream_bytes(
    message('say "message_delta" and "error"\n\ndata: {"type":"message_stop"}', tokens=TOKENS), piece=7
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=10), st.booleans())
def test_usage_is_read_to_the_token_however_the_stream_is_cut(cuts: list[int], noted: bool) -> None:
    notes: list[bytes] = []
    tally = UsageAccumulator("asked")
    tap = EventStreamReader(MESSAGES, tally, (lambda payload, _: notes.append(payload)) if noted else None)
    edges = [0, *sorted(cuts), len(STREAM)]
    for a, b in itertools.pairwise(edges):
        tap.feed(STREAM[a:b], 0)
    (usage,) = tally.total()
    assert usage.tokens == TOKENS
    assert tap.events.finished
    assert len(notes) == (STREAM.count(b"\n\n") if noted else 0)


def test_a_stream_that_reports_an_error_says_which() -> None:
    tap = EventStreamReader(MESSAGES, UsageAccumulator("m"))
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    tap.feed(STREAM[: STREAM.index(b"event: content_block_stop")] + encode_named_event(error), 0)
    assert (tap.events.finished, tap.events.error) == (False, "overloaded_error: Overloaded")


def test_the_received_part_of_a_cut_stream_counts() -> None:
    tally = UsageAccumulator("m")
    tap = EventStreamReader(MESSAGES, tally)
    tap.feed(STREAM[: STREAM.index(b"event: message_delta")], 0)
    (usage,) = tally.total()
    assert (usage.tokens.input, usage.tokens.output) == (11, 1)
    assert not tap.events.finished


def test_events_that_cannot_be_read_are_passed_over() -> None:
    tally = UsageAccumulator("m")
    EventStreamReader(MESSAGES, tally).feed(
        b'data: {"type":"message_start","message":{"usage":{"input_tokens":"many"}}}\n\n', 0
    )
    EventStreamReader(MESSAGES, tally).feed(b'data: {"type":"message_delta",\n\n', 0)
    assert tally.total() == ()


def test_a_whole_message_is_read_when_it_has_passed() -> None:
    tally = UsageAccumulator("m")
    tap = BodyReader(MESSAGES, tally)
    body = msgspec.json.encode(message(tokens=TOKENS))
    for start in range(0, len(body), 100):
        tap.feed(body[start : start + 100])
    assert tap.finish() == body
    assert tally.total()[0].tokens == TOKENS


def test_an_error_page_uses_nothing() -> None:
    tally = UsageAccumulator("m")
    for page in (b"<html>", b'{"type":"error","usage":{"input_tokens":5}}', b"[]"):
        tap = BodyReader(MESSAGES, tally)
        tap.feed(page)
        assert tap.finish() == page
    assert tally.total() == ()
