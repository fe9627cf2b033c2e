import msgspec
import pytest

from proctor.core.result import Tokens
from proctor.gateway.dialects.messages_usage import UsageReports, WireUsage
from proctor.gateway.meter import UsageAccumulator
from proctor.gateway.prices import Usage


def wire(**fields: object) -> WireUsage:
    return msgspec.convert(fields, WireUsage)


def test_the_last_report_of_a_stream_counts() -> None:
    tally = UsageAccumulator("asked")
    reports = UsageReports(tally)
    reports.update(wire(input_tokens=100, cache_read_input_tokens=7, output_tokens=1), "served")
    reports.update(wire(output_tokens=55))
    (usage,) = tally.total()
    assert usage == Usage(model="served", tokens=Tokens(input=100, output=55, cache_read=7))


def test_a_later_report_may_correct_the_input_too() -> None:
    tally = UsageAccumulator("m")
    reports = UsageReports(tally)
    reports.update(wire(input_tokens=100, output_tokens=1))
    reports.update(wire(input_tokens=900, output_tokens=5, server_tool_use={"web_search_requests": 2}))
    (usage,) = tally.total()
    assert (usage.tokens.input, usage.tokens.output, usage.web_searches) == (900, 5, 2)


def test_zeros_at_the_end_do_not_take_the_prompt_away() -> None:
    tally = UsageAccumulator("m")
    reports = UsageReports(tally)
    reports.update(wire(input_tokens=100, cache_read_input_tokens=7, output_tokens=0))
    reports.update(wire(input_tokens=0, cache_read_input_tokens=0, output_tokens=55))
    assert tally.total()[0].tokens == Tokens(input=100, output=55, cache_read=7)
    reports.update(wire(input_tokens=0, cache_read_input_tokens=107, output_tokens=55))
    assert tally.total()[0].tokens == Tokens(output=55, cache_read=107)


@pytest.mark.parametrize(
    ("fields", "five", "hour"),
    [
        ({"cache_creation_input_tokens": 30}, 30, 0),
        ({"cache_creation_input_tokens": 30, "cache_creation": {"ephemeral_1h_input_tokens": 20}}, 10, 20),
        ({"cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 20}}, 5, 20),
        ({"cache_creation_input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 20}}, 0, 10),
    ],
)
def test_cache_writes_are_split_by_how_long_they_last(fields: dict[str, object], five: int, hour: int) -> None:
    tally = UsageAccumulator("m")
    reports = UsageReports(tally)
    reports.update(wire(**fields))
    (usage,) = tally.total()
    assert (usage.tokens.cache_write_5m, usage.tokens.cache_write_1h) == (five, hour)


def test_compactions_and_advisors_are_counted_under_their_own_model() -> None:
    tally = UsageAccumulator("m")
    reports = UsageReports(tally)
    iterations = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
        {"type": "advisor_message", "model": "big", "input_tokens": 9, "output_tokens": 1},
    ]
    reports.update(wire(input_tokens=23_000, output_tokens=1_000, iterations=iterations))
    assert {usage.model: usage.tokens for usage in tally.total()} == {
        "m": Tokens(input=203_000, output=4_500),
        "big": Tokens(input=9, output=1),
    }
