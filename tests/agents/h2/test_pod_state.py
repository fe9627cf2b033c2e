"""The rule that says when a pod is done, case by case."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.h2.events import AgentActivity, PodEvent, PodEventKind
from proctor.agents.h2.pod_state import (
    PodAgentState,
    PodState,
    PodStatus,
    PodTimeouts,
    agents_to_look_at,
    agents_with_unsubmitted_message,
    apply_event,
    assess,
)
from proctor.core.causes import Cause

TIMEOUTS = PodTimeouts()
NOW = 1000.0
DONE = PodAgentState(
    name="lead", activity=AgentActivity.IDLE, last_event_at=NOW - 60, activity_since=NOW - 60, prompts=1
)
OTHER = PodAgentState(name="coder", activity=AgentActivity.IDLE, last_event_at=NOW - 60, activity_since=NOW - 60)


def pod(*agents: PodAgentState, sent: float | None = 100.0, launched: float = 90.0) -> PodState:
    return PodState(agents=agents, lead="lead", now=NOW, launched_at=launched, sent_at=sent)


def but(seen: PodAgentState, **fields: Any) -> PodAgentState:
    return msgspec.structs.replace(seen, **fields)


def test_a_pod_in_which_no_event_comes_any_more_is_done() -> None:
    assessment = assess(pod(DONE, OTHER), TIMEOUTS)
    assert (assessment.status, assessment.cause) == (PodStatus.DONE, None)


UNDONE = {
    "it has just had an event": but(OTHER, last_event_at=NOW - TIMEOUTS.quiet + 1),
    "a message is queued": but(OTHER, queued=1),
    "a message is unread": but(OTHER, unread_since=NOW - TIMEOUTS.delivery + 1),
    "it works": but(OTHER, activity=AgentActivity.WORKING),
    "it compacts": but(OTHER, activity=AgentActivity.COMPACTING),
    "its turn has not ended": but(OTHER, turn_open=True),
    "it left its session": but(OTHER, activity=AgentActivity.EXITED),
    "the provider fails for now": but(
        OTHER, activity=AgentActivity.PROVIDER_ERROR, activity_since=NOW - TIMEOUTS.possible_error + 1
    ),
    "a limit that may pass": but(
        OTHER, activity=AgentActivity.RATE_LIMITED, activity_since=NOW - TIMEOUTS.confirmed_error - 1
    ),
    "its daemon does not reply": but(OTHER, unresponsive_since=NOW - 1),
    "its daemon has just died": but(OTHER, dead_since=NOW - 1),
    "a permission is being decided on": but(OTHER, activity=AgentActivity.AWAITING_PERMISSION, activity_since=NOW - 20),
}


@pytest.mark.parametrize("coder", UNDONE.values(), ids=UNDONE.keys())
def test_a_pod_is_not_done_as_long_as_there_is_doubt_about_one_agent(coder: PodAgentState) -> None:
    assert assess(pod(DONE, coder), TIMEOUTS).status is PodStatus.WAITING


ENDED = {
    "exit": (but(OTHER, exit_code=1), Cause.AGENT_CRASHED),
    "dead": (but(OTHER, dead_since=NOW - TIMEOUTS.dead), Cause.ENVIRONMENT_FAILED),
    "silent": (but(OTHER, unresponsive_since=NOW - TIMEOUTS.unresponsive), Cause.ENVIRONMENT_FAILED),
    "blocked": (
        but(OTHER, activity=AgentActivity.AWAITING_USER, activity_since=NOW - TIMEOUTS.blocked),
        Cause.ENVIRONMENT_FAILED,
    ),
    "asking": (
        but(OTHER, activity=AgentActivity.AWAITING_PERMISSION, activity_since=NOW - TIMEOUTS.permission),
        Cause.ENVIRONMENT_FAILED,
    ),
    "limited": (
        but(
            OTHER, activity=AgentActivity.RATE_LIMITED, error_text="5 h", activity_since=NOW - TIMEOUTS.confirmed_error
        ),
        Cause.RATE_LIMITED,
    ),
    "limited, they say": (
        but(OTHER, activity=AgentActivity.RATE_LIMITED, activity_since=NOW - TIMEOUTS.possible_error),
        Cause.RATE_LIMITED,
    ),
    "refused": (
        but(OTHER, activity=AgentActivity.AUTH_ERROR, activity_since=NOW - TIMEOUTS.confirmed_error),
        Cause.BAD_LOGIN,
    ),
    "failing": (
        but(OTHER, activity=AgentActivity.PROVIDER_ERROR, activity_since=NOW - TIMEOUTS.possible_error),
        Cause.PROVIDER_ERROR,
    ),
    "stuck": (but(OTHER, turn_open=True, last_event_at=NOW - 9999), Cause.AGENT_CRASHED),
}


@pytest.mark.parametrize(("coder", "cause"), ENDED.values(), ids=ENDED.keys())
def test_a_failure_that_does_not_pass_ends_the_pod(coder: PodAgentState, cause: Cause) -> None:
    lead = but(DONE, last_event_at=NOW - 9999) if coder.turn_open else DONE
    assessment = assess(pod(lead, coder), TIMEOUTS)
    assert (assessment.status, assessment.cause, assessment.agent) == (PodStatus.FAILED, cause, "coder")
    assert assessment.detail.startswith("coder: ")


def test_a_provider_that_fails_one_agent_is_waited_for_while_others_work() -> None:
    failing = but(OTHER, activity=AgentActivity.PROVIDER_ERROR, activity_since=NOW - 2 * TIMEOUTS.possible_error)
    assert assess(pod(but(DONE, activity=AgentActivity.WORKING), failing), TIMEOUTS).status is PodStatus.WAITING


def test_a_program_that_ends_before_the_task_is_not_the_agents_failure() -> None:
    assessment = assess(pod(DONE, but(OTHER, exit_code=1), sent=None), TIMEOUTS)
    assert assessment.cause is Cause.ENVIRONMENT_FAILED


def test_the_task_is_handed_over_when_all_are_ready_and_not_before() -> None:
    waiting = but(OTHER, activity=AgentActivity.STARTING)
    assert assess(pod(DONE, OTHER, sent=None), TIMEOUTS).status is PodStatus.READY
    assert assess(pod(DONE, waiting, sent=None, launched=NOW - 1), TIMEOUTS).status is PodStatus.WAITING
    late = assess(pod(DONE, waiting, sent=None, launched=NOW - TIMEOUTS.ready), TIMEOUTS)
    assert (late.cause, late.agent) == (Cause.ENVIRONMENT_FAILED, "coder")


def test_idle_means_nothing_before_the_task_is_taken() -> None:
    untaken = but(DONE, prompts=0)
    assert assess(pod(untaken, OTHER, sent=NOW - 1), TIMEOUTS).status is PodStatus.WAITING
    assert assess(pod(untaken, OTHER, sent=NOW - TIMEOUTS.prompt), TIMEOUTS).cause is Cause.ENVIRONMENT_FAILED


def test_enter_is_pressed_for_an_idle_agent_that_shows_no_sign_of_a_message() -> None:
    unread = but(OTHER, unread_since=NOW - 6)
    assert agents_with_unsubmitted_message(pod(DONE, OTHER), TIMEOUTS) == []
    assert agents_with_unsubmitted_message(pod(DONE, unread), TIMEOUTS) == ["coder"]
    assert agents_with_unsubmitted_message(pod(DONE, but(unread, nudged_at=NOW - 1)), TIMEOUTS) == []
    assert (
        agents_with_unsubmitted_message(pod(DONE, but(unread, activity=AgentActivity.AWAITING_PERMISSION)), TIMEOUTS)
        == []
    ), "it would confirm a dialog"


def test_enter_is_pressed_once_for_an_agent_that_may_have_missed_a_message_while_it_worked() -> None:
    missed = but(OTHER, messages=2, prompts=1, last_event_at=NOW - 6)
    assert agents_with_unsubmitted_message(pod(DONE, missed), TIMEOUTS) == ["coder"]
    assert agents_with_unsubmitted_message(pod(DONE, but(missed, nudged_at=NOW - 5.5)), TIMEOUTS) == []
    assert agents_with_unsubmitted_message(pod(DONE, but(missed, last_event_at=NOW - 1)), TIMEOUTS) == []
    assert agents_with_unsubmitted_message(pod(DONE, but(missed, prompts=2)), TIMEOUTS) == []


def state_after(*events: PodEvent) -> PodAgentState:
    seen = PodAgentState(name="a")
    for event in events:
        seen = apply_event(seen, event, event.at)
    return seen


def state(activity: AgentActivity, at: float = 1.0) -> PodEvent:
    return PodEvent(at=at, kind=PodEventKind.STATE, activity=activity)


PROMPT = PodEvent(at=1.0, kind=PodEventKind.PROMPT)


def test_a_turn_ends_with_idle_but_not_with_the_idle_after_a_compaction() -> None:
    compacted = (PROMPT, state(AgentActivity.WORKING), state(AgentActivity.COMPACTING), state(AgentActivity.IDLE))
    assert state_after(*compacted).turn_open
    assert not state_after(*compacted, state(AgentActivity.IDLE)).turn_open
    assert not state_after(PROMPT, state(AgentActivity.WORKING), state(AgentActivity.IDLE)).turn_open


def test_an_exited_agent_is_back_with_the_next_event() -> None:
    left = (PROMPT, PodEvent(at=2.0, kind=PodEventKind.SESSION_ENDED))
    assert state_after(*left).activity is AgentActivity.EXITED
    assert state_after(*left, PodEvent(at=3.0, kind=PodEventKind.TURN)).activity is AgentActivity.STARTING
    assert state_after(*left, state(AgentActivity.WORKING)).activity is AgentActivity.WORKING


def test_the_text_of_an_error_is_dropped_with_the_error() -> None:
    words = PodEvent(at=2.0, kind=PodEventKind.ERROR, text="limit")
    assert state_after(state(AgentActivity.RATE_LIMITED), words).error_text == "limit"
    assert state_after(state(AgentActivity.RATE_LIMITED), words, state(AgentActivity.WORKING)).error_text == ""


KINDS = st.sampled_from(PodEventKind)
EVENTS = st.lists(
    st.builds(PodEvent, at=st.just(1.0), kind=KINDS, activity=st.sampled_from(AgentActivity)), max_size=30
)


@given(EVENTS)
def test_a_pod_is_never_done_in_the_middle_of_a_turn(events: list[PodEvent]) -> None:
    seen = but(
        state_after(*events), name="lead", last_event_at=NOW - TIMEOUTS.quiet, activity_since=NOW - TIMEOUTS.quiet
    )
    if assess(pod(seen), TIMEOUTS).status is PodStatus.DONE:
        assert seen.prompts > 0
        assert not seen.turn_open
        assert seen.activity is AgentActivity.IDLE


LONG_AGO = NOW - TIMEOUTS.dialog
LOOKED_AT = {
    "in a tool call": but(OTHER, activity=AgentActivity.WORKING, last_event_at=LONG_AGO),
    "starting": but(OTHER, activity=AgentActivity.STARTING, last_event_at=LONG_AGO),
    "waiting for a user": but(OTHER, activity=AgentActivity.AWAITING_USER, last_event_at=LONG_AGO),
}
NOT_LOOKED_AT = {
    "idle": but(OTHER, last_event_at=LONG_AGO),
    "working": but(OTHER, activity=AgentActivity.WORKING, last_event_at=LONG_AGO + 1),
    "looked at": but(OTHER, activity=AgentActivity.WORKING, last_event_at=LONG_AGO, screen_read_at=LONG_AGO + 1),
    "at a hook's decision": but(OTHER, activity=AgentActivity.AWAITING_PERMISSION, last_event_at=LONG_AGO),
}


def test_the_screen_of_an_agent_that_is_silent_and_not_idle_is_looked_at() -> None:
    for coder in LOOKED_AT.values():
        assert agents_to_look_at(pod(DONE, coder), TIMEOUTS) == ["coder"]
    for coder in NOT_LOOKED_AT.values():
        assert agents_to_look_at(pod(DONE, coder), TIMEOUTS) == []
