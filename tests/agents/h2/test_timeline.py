"""From events to who was active when, and to metrics."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.h2.events import AgentActivity, PodEvent, PodEventKind, SentMessage
from proctor.agents.h2.timeline import Timeline, build_timeline, metrics_of, render_timeline

AGENTS = {"lead": "concierge", "coder": "coder"}


def prompt(at: float) -> PodEvent:
    return PodEvent(at=at, kind=PodEventKind.PROMPT)


def state(at: float, activity: AgentActivity) -> PodEvent:
    return PodEvent(at=at, kind=PodEventKind.STATE, activity=activity)


def tool(at: float) -> PodEvent:
    return PodEvent(at=at, kind=PodEventKind.TOOL)


LEAD = [
    state(90, AgentActivity.IDLE),
    prompt(100),
    state(100, AgentActivity.WORKING),
    tool(101),
    state(104, AgentActivity.IDLE),
    prompt(118),
    state(118, AgentActivity.WORKING),
    state(120, AgentActivity.IDLE),
]
CODER = [state(91, AgentActivity.IDLE), prompt(105), state(105, AgentActivity.WORKING), state(117, AgentActivity.IDLE)]


def made(lead: Sequence[PodEvent] = LEAD, coder: Sequence[PodEvent] = CODER, ended: float = 200.0) -> Timeline:
    sent = [SentMessage(at=103, sender="lead", to="coder"), SentMessage(at=116.5, sender="coder", to="lead")]
    timeline = build_timeline(AGENTS, {"lead": lead, "coder": coder}, sent, lead="lead", ended_at=ended)
    assert timeline is not None
    return timeline


def test_time_counts_from_the_task_to_the_last_work_and_not_to_when_we_were_sure() -> None:
    timeline = made()
    assert (timeline.started_at, timeline.seconds) == (100, 20)
    assert [line.active_seconds for line in timeline.agents] == [6, 12]
    metrics = metrics_of(timeline, AGENTS, messages=2)
    assert metrics.active_share == pytest.approx(18 / 40)
    assert [(one.name, one.role, one.active_seconds, one.idle_seconds, one.messages) for one in metrics.members] == [
        ("lead", "concierge", 6, 14, 1),
        ("coder", "coder", 12, 8, 1),
    ]
    assert (metrics.agents, metrics.steps, metrics.messages) == (2, 1, 2)


def test_work_that_was_cut_short_counts_to_the_end() -> None:
    assert made(coder=CODER[:-1], ended=130).seconds == 30


def test_idle_after_a_compaction_was_work_if_work_came_of_it_without_a_prompt() -> None:
    compacted = [
        prompt(100),
        state(100, AgentActivity.WORKING),
        state(102, AgentActivity.COMPACTING),
        state(104, AgentActivity.IDLE),
    ]
    went_on = made([*compacted, tool(108), state(108, AgentActivity.WORKING), state(110, AgentActivity.IDLE)])
    assert went_on.agents[0].active_seconds == 10
    ended = made([*compacted, prompt(108), state(108, AgentActivity.WORKING), state(110, AgentActivity.IDLE)])
    assert ended.agents[0].active_seconds == 6
    assert (went_on.agents[0].compactions, ended.agents[0].compactions) == (1, 1)


def test_a_session_that_is_left_and_gone_on_with_is_a_context_that_was_reset() -> None:
    left = PodEvent(at=110, kind=PodEventKind.SESSION_ENDED)
    assert made([*LEAD[:5], left, *LEAD[5:]]).agents[0].context_resets == 1
    assert made([*LEAD, PodEvent(at=121, kind=PodEventKind.SESSION_ENDED)]).agents[0].context_resets == 0


def test_the_last_words_are_kept() -> None:
    texts = [
        PodEvent(at=119, kind=PodEventKind.MESSAGE, text="so"),
        PodEvent(at=119.5, kind=PodEventKind.MESSAGE, text="done"),
    ]
    assert made([*LEAD, *texts]).agents[0].final_text == "done"


def test_a_task_that_nobody_took_has_no_timeline_and_metrics_all_the_same() -> None:
    assert build_timeline(AGENTS, {"lead": [state(90, AgentActivity.IDLE)]}, [], lead="lead", ended_at=200) is None
    metrics = metrics_of(None, AGENTS, messages=0)
    assert (metrics.agents, metrics.active_share) == (2, None)
    assert [member.name for member in metrics.members] == ["lead", "coder"]


def test_a_drawing_has_a_row_for_each_agent_and_one_for_messages() -> None:
    drawn = render_timeline(made(), 56).splitlines()
    assert drawn == [
        "lead      ████████····························████   30%",
        "coder     ··········████████████████████████······   60%",
        "messages        ✉                          ✉           2",
        "          0                                   20 s",
        "█ active  ▒ compacting  ? awaiting permission  ! rate limit, login or provider error  · idle",
    ]


def test_a_pod_that_was_quick_has_tenths_of_seconds() -> None:
    quick = Timeline(started_at=0, seconds=0.54, agents=made().agents, messages=())
    assert render_timeline(quick, 56).splitlines()[-2].endswith(" 0.5 s")


MOMENTS = st.lists(st.tuples(st.floats(0, 500), st.sampled_from(AgentActivity)), max_size=20)


@given(MOMENTS, MOMENTS, st.integers(20, 200))
def test_shares_are_shares_and_rows_are_as_wide_as_they_may_be(
    lead: list[tuple[float, AgentActivity]], coder: list[tuple[float, AgentActivity]], width: int
) -> None:
    def events(moments: list[tuple[float, AgentActivity]]) -> list[PodEvent]:
        return [state(at, activity) for at, activity in sorted(moments, key=lambda moment: moment[0])]

    timeline = build_timeline(
        AGENTS, {"lead": [prompt(10), *events(lead)], "coder": events(coder)}, [], lead="lead", ended_at=600
    )
    assert timeline is not None
    metrics = metrics_of(timeline, AGENTS, messages=0)
    assert metrics.active_share is None or 0 <= metrics.active_share <= 1
    for line in timeline.agents:
        assert all(0 <= span.start < span.end <= timeline.seconds for span in line.spans)
        assert all(one.end <= two.start for one, two in zip(line.spans, line.spans[1:], strict=False))
    assert {len(row) for row in render_timeline(timeline, width).splitlines()[:2]} == {max(width, 26)}
