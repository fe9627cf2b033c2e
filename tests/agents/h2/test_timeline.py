"""From events to who was active when, and to metrics."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.h2.events import Doing, Event, Kind, Sent
from proctor.agents.h2.timeline import Timeline, draw, make_timeline, metrics_of

AGENTS = {"lead": "concierge", "coder": "coder"}


def prompt(at: float) -> Event:
    return Event(at=at, kind=Kind.PROMPT)


def state(at: float, doing: Doing) -> Event:
    return Event(at=at, kind=Kind.STATE, doing=doing)


def tool(at: float) -> Event:
    return Event(at=at, kind=Kind.TOOL)


LEAD = [
    state(90, Doing.IDLE),
    prompt(100),
    state(100, Doing.WORKING),
    tool(101),
    state(104, Doing.IDLE),
    prompt(118),
    state(118, Doing.WORKING),
    state(120, Doing.IDLE),
]
CODER = [state(91, Doing.IDLE), prompt(105), state(105, Doing.WORKING), state(117, Doing.IDLE)]


def made(lead: Sequence[Event] = LEAD, coder: Sequence[Event] = CODER, ended: float = 200.0) -> Timeline:
    sent = [Sent(at=103, sender="lead", to="coder"), Sent(at=116.5, sender="coder", to="lead")]
    timeline = make_timeline(AGENTS, {"lead": lead, "coder": coder}, sent, lead="lead", ended=ended)
    assert timeline is not None
    return timeline


def test_time_counts_from_the_task_to_the_last_work_and_not_to_when_we_were_sure() -> None:
    timeline = made()
    assert (timeline.began, timeline.seconds) == (100, 20)
    assert [line.active_seconds for line in timeline.lines] == [6, 12]
    metrics = metrics_of(timeline, AGENTS, messages=2)
    assert metrics.utilisation == pytest.approx(18 / 40)
    assert [(one.name, one.role, one.active_seconds, one.idle_seconds, one.messages) for one in metrics.members] == [
        ("lead", "concierge", 6, 14, 1),
        ("coder", "coder", 12, 8, 1),
    ]
    assert (metrics.agents, metrics.steps, metrics.messages) == (2, 1, 2)


def test_work_that_was_cut_short_counts_to_the_end() -> None:
    assert made(coder=CODER[:-1], ended=130).seconds == 30


def test_idle_after_a_compaction_was_work_if_work_came_of_it_without_a_prompt() -> None:
    compacted = [prompt(100), state(100, Doing.WORKING), state(102, Doing.COMPACTING), state(104, Doing.IDLE)]
    went_on = made([*compacted, tool(108), state(108, Doing.WORKING), state(110, Doing.IDLE)])
    assert went_on.lines[0].active_seconds == 10
    ended = made([*compacted, prompt(108), state(108, Doing.WORKING), state(110, Doing.IDLE)])
    assert ended.lines[0].active_seconds == 6
    assert (went_on.lines[0].compactions, ended.lines[0].compactions) == (1, 1)


def test_a_session_that_is_left_and_gone_on_with_is_a_context_that_was_reset() -> None:
    left = Event(at=110, kind=Kind.ENDED)
    assert made([*LEAD[:5], left, *LEAD[5:]]).lines[0].context_resets == 1
    assert made([*LEAD, Event(at=121, kind=Kind.ENDED)]).lines[0].context_resets == 0


def test_the_last_words_are_kept() -> None:
    said = [Event(at=119, kind=Kind.SAID, text="so"), Event(at=119.5, kind=Kind.SAID, text="done")]
    assert made([*LEAD, *said]).lines[0].last_words == "done"


def test_a_task_that_nobody_took_has_no_timeline_and_metrics_all_the_same() -> None:
    assert make_timeline(AGENTS, {"lead": [state(90, Doing.IDLE)]}, [], lead="lead", ended=200) is None
    metrics = metrics_of(None, AGENTS, messages=0)
    assert (metrics.agents, metrics.utilisation) == (2, None)
    assert [member.name for member in metrics.members] == ["lead", "coder"]


def test_a_drawing_has_a_row_for_each_agent_and_one_for_messages() -> None:
    drawn = draw(made(), 56).splitlines()
    assert drawn == [
        "lead      ████████····························████   30%",
        "coder     ··········████████████████████████······   60%",
        "messages        ✉                          ✉           2",
        "          0                                   20 s",
        "█ at work  ▒ compacting  ? waits for a permission  ! limited, refused or failing  · idle",
    ]


def test_a_pod_that_was_quick_has_tenths_of_seconds() -> None:
    quick = Timeline(began=0, seconds=0.54, lines=made().lines, messages=())
    assert draw(quick, 56).splitlines()[-2].endswith(" 0.5 s")


MOMENTS = st.lists(st.tuples(st.floats(0, 500), st.sampled_from(Doing)), max_size=20)


@given(MOMENTS, MOMENTS, st.integers(20, 200))
def test_shares_are_shares_and_rows_are_as_wide_as_they_may_be(
    lead: list[tuple[float, Doing]], coder: list[tuple[float, Doing]], width: int
) -> None:
    def events(moments: list[tuple[float, Doing]]) -> list[Event]:
        return [state(at, doing) for at, doing in sorted(moments, key=lambda moment: moment[0])]

    timeline = make_timeline(
        AGENTS, {"lead": [prompt(10), *events(lead)], "coder": events(coder)}, [], lead="lead", ended=600
    )
    assert timeline is not None
    metrics = metrics_of(timeline, AGENTS, messages=0)
    assert metrics.utilisation is None or 0 <= metrics.utilisation <= 1
    for line in timeline.lines:
        assert all(0 <= span.start < span.end <= timeline.seconds for span in line.spans)
        assert all(one.end <= two.start for one, two in zip(line.spans, line.spans[1:], strict=False))
    assert {len(row) for row in draw(timeline, width).splitlines()[:2]} == {max(width, 26)}
