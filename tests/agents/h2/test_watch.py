"""The rule that says when a pod is done, case by case."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proctor.agents.h2.events import Doing, Event, Kind
from proctor.agents.h2.watch import Patience, Pod, Seen, Step, advance, judge, unsubmitted
from proctor.core.causes import Cause

PATIENCE = Patience()
NOW = 1000.0
DONE = Seen(name="lead", doing=Doing.IDLE, stirred=NOW - 60, since=NOW - 60, prompts=1)
OTHER = Seen(name="coder", doing=Doing.IDLE, stirred=NOW - 60, since=NOW - 60)


def pod(*agents: Seen, sent: float | None = 100.0, launched: float = 90.0) -> Pod:
    return Pod(agents=agents, lead="lead", now=NOW, launched=launched, sent=sent)


def but(seen: Seen, **fields: Any) -> Seen:
    return msgspec.structs.replace(seen, **fields)


def test_a_pod_in_which_nothing_stirs_any_more_is_done() -> None:
    word = judge(pod(DONE, OTHER), PATIENCE)
    assert (word.step, word.cause) == (Step.DONE, None)


UNDONE = {
    "it has just stirred": but(OTHER, stirred=NOW - PATIENCE.settle + 1),
    "a message is queued": but(OTHER, queued=1),
    "a message is unread": but(OTHER, unread_since=NOW - PATIENCE.delivery + 1),
    "it works": but(OTHER, doing=Doing.WORKING),
    "it compacts": but(OTHER, doing=Doing.COMPACTING),
    "its turn has not ended": but(OTHER, turn_open=True),
    "it left its session": but(OTHER, doing=Doing.LEFT),
    "the provider fails for now": but(OTHER, doing=Doing.FAILING, since=NOW - PATIENCE.doubt + 1),
    "a limit that may pass": but(OTHER, doing=Doing.LIMITED, since=NOW - PATIENCE.trouble - 1),
    "its daemon does not answer": but(OTHER, silent_since=NOW - 1),
    "its daemon has just died": but(OTHER, dead_since=NOW - 1),
    "a permission is being decided on": but(OTHER, doing=Doing.ASKING, since=NOW - 20),
}


@pytest.mark.parametrize("coder", UNDONE.values(), ids=UNDONE.keys())
def test_a_pod_is_not_done_as_long_as_there_is_doubt_about_one_agent(coder: Seen) -> None:
    assert judge(pod(DONE, coder), PATIENCE).step is Step.WAIT


ENDED = {
    "exit": (but(OTHER, exit_code=1), Cause.AGENT_CRASHED),
    "dead": (but(OTHER, dead_since=NOW - PATIENCE.dead), Cause.ENVIRONMENT_FAILED),
    "silent": (but(OTHER, silent_since=NOW - PATIENCE.silent), Cause.ENVIRONMENT_FAILED),
    "blocked": (but(OTHER, doing=Doing.BLOCKED, since=NOW - PATIENCE.blocked), Cause.AGENT_CRASHED),
    "asking": (but(OTHER, doing=Doing.ASKING, since=NOW - PATIENCE.asking), Cause.AGENT_CRASHED),
    "limited": (but(OTHER, doing=Doing.LIMITED, words="5 h", since=NOW - PATIENCE.trouble), Cause.RATE_LIMITED),
    "limited, they say": (but(OTHER, doing=Doing.LIMITED, since=NOW - PATIENCE.doubt), Cause.RATE_LIMITED),
    "refused": (but(OTHER, doing=Doing.REFUSED, since=NOW - PATIENCE.trouble), Cause.BAD_LOGIN),
    "failing": (but(OTHER, doing=Doing.FAILING, since=NOW - PATIENCE.doubt), Cause.PROVIDER_ERROR),
    "stuck": (but(OTHER, turn_open=True, stirred=NOW - 9999), Cause.AGENT_CRASHED),
}


@pytest.mark.parametrize(("coder", "cause"), ENDED.values(), ids=ENDED.keys())
def test_what_no_waiting_mends_ends_the_pod(coder: Seen, cause: Cause) -> None:
    lead = but(DONE, stirred=NOW - 9999) if coder.turn_open else DONE
    word = judge(pod(lead, coder), PATIENCE)
    assert (word.step, word.cause, word.whose) == (Step.FAILED, cause, "coder")
    assert word.detail.startswith("coder: ")


def test_a_provider_that_fails_one_agent_is_waited_for_while_others_work() -> None:
    failing = but(OTHER, doing=Doing.FAILING, since=NOW - 2 * PATIENCE.doubt)
    assert judge(pod(but(DONE, doing=Doing.WORKING), failing), PATIENCE).step is Step.WAIT


def test_a_program_that_ends_before_the_task_is_not_the_agents_failure() -> None:
    word = judge(pod(DONE, but(OTHER, exit_code=1), sent=None), PATIENCE)
    assert word.cause is Cause.ENVIRONMENT_FAILED


def test_the_task_is_handed_over_when_all_are_ready_and_not_before() -> None:
    waiting = but(OTHER, doing=Doing.STARTING)
    assert judge(pod(DONE, OTHER, sent=None), PATIENCE).step is Step.READY
    assert judge(pod(DONE, waiting, sent=None, launched=NOW - 1), PATIENCE).step is Step.WAIT
    late = judge(pod(DONE, waiting, sent=None, launched=NOW - PATIENCE.ready), PATIENCE)
    assert (late.cause, late.whose) == (Cause.ENVIRONMENT_FAILED, "coder")


def test_idle_means_nothing_before_the_task_is_taken() -> None:
    untaken = but(DONE, prompts=0)
    assert judge(pod(untaken, OTHER, sent=NOW - 1), PATIENCE).step is Step.WAIT
    assert judge(pod(untaken, OTHER, sent=NOW - PATIENCE.taken), PATIENCE).cause is Cause.ENVIRONMENT_FAILED


def test_enter_is_pressed_for_an_idle_agent_that_shows_no_sign_of_a_message() -> None:
    unread = but(OTHER, unread_since=NOW - 6)
    assert unsubmitted(pod(DONE, OTHER), PATIENCE) == []
    assert unsubmitted(pod(DONE, unread), PATIENCE) == ["coder"]
    assert unsubmitted(pod(DONE, but(unread, nudged=NOW - 1)), PATIENCE) == []
    assert unsubmitted(pod(DONE, but(unread, doing=Doing.ASKING)), PATIENCE) == [], "it would answer a dialog"


def test_enter_is_pressed_once_for_an_agent_that_may_have_missed_a_message_while_it_worked() -> None:
    missed = but(OTHER, messages=2, prompts=1, stirred=NOW - 6)
    assert unsubmitted(pod(DONE, missed), PATIENCE) == ["coder"]
    assert unsubmitted(pod(DONE, but(missed, nudged=NOW - 5.5)), PATIENCE) == []
    assert unsubmitted(pod(DONE, but(missed, stirred=NOW - 1)), PATIENCE) == []
    assert unsubmitted(pod(DONE, but(missed, prompts=2)), PATIENCE) == []


def told(*events: Event) -> Seen:
    seen = Seen(name="a")
    for event in events:
        seen = advance(seen, event, event.at)
    return seen


def state(doing: Doing, at: float = 1.0) -> Event:
    return Event(at=at, kind=Kind.STATE, doing=doing)


PROMPT = Event(at=1.0, kind=Kind.PROMPT)


def test_a_turn_ends_with_idle_but_not_with_the_idle_after_a_compaction() -> None:
    compacted = (PROMPT, state(Doing.WORKING), state(Doing.COMPACTING), state(Doing.IDLE))
    assert told(*compacted).turn_open
    assert not told(*compacted, state(Doing.IDLE)).turn_open
    assert not told(PROMPT, state(Doing.WORKING), state(Doing.IDLE)).turn_open


def test_who_left_is_back_with_the_next_event() -> None:
    left = (PROMPT, Event(at=2.0, kind=Kind.ENDED))
    assert told(*left).doing is Doing.LEFT
    assert told(*left, Event(at=3.0, kind=Kind.TURN)).doing is Doing.STARTING
    assert told(*left, state(Doing.WORKING)).doing is Doing.WORKING


def test_what_is_said_of_a_trouble_is_forgotten_with_it() -> None:
    words = Event(at=2.0, kind=Kind.TROUBLE, text="limit")
    assert told(state(Doing.LIMITED), words).words == "limit"
    assert told(state(Doing.LIMITED), words, state(Doing.WORKING)).words == ""


KINDS = st.sampled_from(Kind)
EVENTS = st.lists(st.builds(Event, at=st.just(1.0), kind=KINDS, doing=st.sampled_from(Doing)), max_size=30)


@given(EVENTS)
def test_a_pod_is_never_done_in_the_middle_of_a_turn(events: list[Event]) -> None:
    seen = but(told(*events), name="lead", stirred=NOW - PATIENCE.settle, since=NOW - PATIENCE.settle)
    if judge(pod(seen), PATIENCE).step is Step.DONE:
        assert seen.prompts > 0
        assert not seen.turn_open
        assert seen.doing is Doing.IDLE
