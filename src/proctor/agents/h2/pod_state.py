"""When a pod is done, and when it has failed: rules over the states of its agents.

An idle agent may have just compacted its context, may not have read its prompt yet, or may be about to get a message.
So a pod is done only when every turn that was begun has ended, no message is on its way, and no event has come for a
while.
"""

from enum import StrEnum
from typing import Final

import msgspec

from proctor.agents.h2.events import AgentActivity, PodEvent, PodEventKind
from proctor.core.agent import DEFAULT_POD_START_SECONDS
from proctor.core.causes import Cause
from proctor.core.record import Record


class PodTimeouts(Record):
    """Seconds to wait.

    Attributes:
        poll: between two polls of the pod.
        ready: until every agent has started.
        prompt: until the task is registered as a prompt.
        quiet: without any event, once every agent is idle and every turn has ended.
        open_turn: the same, where an agent is idle, or has left, in the middle of a turn.
        delivery: for a sign that an agent has got a message; `nudge`: until Enter is pressed for it once more.
        blocked: where a user would have to decide.
        permission: for a decision on a permission, which hooks make.
        dialog: without any event of an agent that is not idle, until its screen is read: a dialog may wait there.
        confirmed_error: for a limit, a refused login or a provider error that h2 is sure about; `possible_error`: for
            one that may pass.
        status: for one reply of an agent's daemon, which first runs a git that may be slow.
        unresponsive: until a daemon that does not reply counts as failed; `dead`: one that has no socket.
        stop: for an agent to stop.
    """

    poll: float = 2.0
    ready: float = DEFAULT_POD_START_SECONDS
    prompt: float = 60.0
    quiet: float = 15.0
    open_turn: float = 300.0
    delivery: float = 60.0
    nudge: float = 5.0
    blocked: float = 10.0
    permission: float = 90.0
    dialog: float = 10.0
    confirmed_error: float = 10.0
    possible_error: float = 120.0
    status: float = 15.0
    unresponsive: float = 60.0
    dead: float = 5.0
    stop: float = 15.0


class PodAgentState(Record):
    """The state of one agent. Times are seconds on one steady clock.

    Attributes:
        activity_since: when its activity last changed.
        last_event_at: when its last event came.
        turn_open: it was given a prompt, and that turn has not ended.
        prompts: how many it has taken.
        queued: messages that wait for it in h2.
        unread_since: since when there has been a message to it, without any event after it.
        messages: how many were sent to it.
        nudged_at: when Enter was last pressed for it.
        screen_read_at: when its screen was last read.
        exit_code: of its program, which has ended; h2 itself may still report "idle".
        dead_since: since when its daemon has had no socket.
        unresponsive_since: since when its daemon has not replied to queries.
        error_text: h2's message about a limit, a login or the provider.
    """

    name: str
    activity: AgentActivity = AgentActivity.STARTING
    activity_since: float = 0.0
    last_event_at: float = 0.0
    turn_open: bool = False
    prompts: int = 0
    queued: int = 0
    unread_since: float | None = None
    messages: int = 0
    nudged_at: float = 0.0
    screen_read_at: float = 0.0
    exit_code: int | None = None
    dead_since: float | None = None
    unresponsive_since: float | None = None
    error_text: str = ""


class PodState(Record):
    """The state of a pod at one moment.

    Attributes:
        lead: the agent that gets the task.
        launched_at: when the pod was launched.
        sent_at: when the task was sent; None before.
    """

    agents: tuple[PodAgentState, ...]
    lead: str
    now: float
    launched_at: float
    sent_at: float | None = None


class PodStatus(StrEnum):
    """What follows from the state of a pod."""

    WAITING = "wait"
    READY = "ready"
    DONE = "done"
    FAILED = "failed"


class PodAssessment(Record):
    """The decision on a pod.

    Attributes:
        agent: the one that it is about, whose screen may show more.
        screen: what was on that screen, where it was read already.
    """

    status: PodStatus
    cause: Cause | None = None
    detail: str = ""
    agent: str | None = None
    screen: str = ""


WAITING: Final = PodAssessment(status=PodStatus.WAITING)
_ERROR_ACTIVITIES: Final = frozenset(
    {AgentActivity.RATE_LIMITED, AgentActivity.AUTH_ERROR, AgentActivity.PROVIDER_ERROR}
)


def apply_event(state: PodAgentState, event: PodEvent, now: float) -> PodAgentState:
    """The state of an agent after an event."""
    prompts, turn_open, error_text = state.prompts, state.turn_open, state.error_text
    activity = state.activity
    match event.kind:
        case PodEventKind.PROMPT:
            prompts, turn_open = prompts + 1, True
        case PodEventKind.STATE if event.activity is not None:
            activity = event.activity
            # After a compaction it is idle while its turn continues; the end of the turn is another event.
            if activity is AgentActivity.IDLE and state.activity is not AgentActivity.COMPACTING:
                turn_open = False
        case PodEventKind.SESSION_ENDED:
            activity = AgentActivity.EXITED
        case PodEventKind.ERROR:
            error_text = event.text
    if state.activity is AgentActivity.EXITED and event.kind not in {PodEventKind.SESSION_ENDED, PodEventKind.STATE}:
        activity = AgentActivity.STARTING  # it was not gone after all
    return msgspec.structs.replace(
        state,
        activity=activity,
        activity_since=state.activity_since if activity is state.activity else now,
        last_event_at=now,
        prompts=prompts,
        turn_open=turn_open,
        error_text=error_text if activity in _ERROR_ACTIVITIES else "",
        unread_since=None,
    )


def assess(pod: PodState, timeouts: PodTimeouts) -> PodAssessment:
    """Whether to wait, to send the task, or to end, and why."""
    failure = _find_failure(pod, timeouts)
    if failure is not None:
        return failure
    return _assess_start(pod, timeouts) if pod.sent_at is None else _assess_running(pod, pod.sent_at, timeouts)


def agents_with_unsubmitted_message(pod: PodState, timeouts: PodTimeouts) -> list[str]:
    """The agents on whose terminals a message may have been typed and not submitted.

    That happens on a busy machine, where a terminal's input arrives in one piece and looks like a paste, the Enter at
    its end included. An agent that was working then has had events since, and is known only by having more messages
    than prompts. Some of these may have become part of a turn, so Enter is pressed for it once, when it is idle.
    """
    waiting = []
    for agent in pod.agents:
        quiet = pod.now - max(agent.last_event_at, agent.nudged_at) >= timeouts.nudge
        missed = agent.messages > agent.prompts and agent.nudged_at <= agent.last_event_at
        if agent.activity is AgentActivity.IDLE and quiet and (agent.unread_since is not None or missed):
            waiting.append(agent.name)
    return waiting


def agents_to_look_at(pod: PodState, timeouts: PodTimeouts) -> list[str]:
    """The agents on whose screens a dialog may wait: h2 reports nothing of most dialogs.

    An agent that runs a long command looks the same from outside; only its screen shows the difference. What h2 knows
    to wait for a permission has a time limit of its own.
    """
    at_rest = {AgentActivity.IDLE, AgentActivity.EXITED, AgentActivity.AWAITING_PERMISSION}
    return [
        agent.name
        for agent in pod.agents
        if agent.activity not in at_rest and pod.now - max(agent.last_event_at, agent.screen_read_at) >= timeouts.dialog
    ]


def dialog_failure(agent: str, screen: str) -> PodAssessment:
    """The decision on a pod of which an agent waits at a dialog: nobody is there to answer it."""
    detail = f"{agent}: a dialog waits for a person"
    return PodAssessment(
        status=PodStatus.FAILED, cause=Cause.ENVIRONMENT_FAILED, detail=detail, agent=agent, screen=screen
    )


def _find_failure(pod: PodState, timeouts: PodTimeouts) -> PodAssessment | None:
    """Failures that do not pass. The activity that h2 reports does not count here: for a dead agent it is idle."""
    started = pod.sent_at is not None
    for agent in pod.agents:
        if agent.exit_code is not None:
            when = "in the middle of the work" if started else "before it had begun"
            cause = Cause.AGENT_CRASHED if started else Cause.ENVIRONMENT_FAILED
            return _failed(cause, agent, f"its program exited with code {agent.exit_code} {when}")
        if _has_lasted(agent.dead_since, pod.now, timeouts.dead):
            return _failed(Cause.ENVIRONMENT_FAILED, agent, "its h2 daemon has died")
        if _has_lasted(agent.unresponsive_since, pod.now, timeouts.unresponsive):
            return _failed(
                Cause.ENVIRONMENT_FAILED, agent, f"its h2 daemon did not reply for {timeouts.unresponsive:.0f} s"
            )
    for agent in pod.agents:
        failure = _agent_failure(pod, agent, timeouts)
        if failure is not None:
            return failure
    return None


def _agent_failure(pod: PodState, agent: PodAgentState, timeouts: PodTimeouts) -> PodAssessment | None:
    lasted = pod.now - agent.activity_since
    message = f": {agent.error_text}" if agent.error_text else ""
    match agent.activity:
        case AgentActivity.AWAITING_USER if lasted >= timeouts.blocked:
            return _failed(Cause.ENVIRONMENT_FAILED, agent, "it waits for a user to permit what it wants to do")
        case AgentActivity.AWAITING_PERMISSION if lasted >= timeouts.permission:
            return _failed(Cause.ENVIRONMENT_FAILED, agent, "nothing decides on the permission that it asks for")
        case AgentActivity.RATE_LIMITED if lasted >= (
            timeouts.confirmed_error if agent.error_text else timeouts.possible_error
        ):
            return _failed(Cause.RATE_LIMITED, agent, f"its usage limit is reached{message}")
        case AgentActivity.AUTH_ERROR if lasted >= timeouts.confirmed_error:
            return _failed(Cause.BAD_LOGIN, agent, f"its login was refused{message}")
        case AgentActivity.PROVIDER_ERROR if lasted >= timeouts.possible_error and not _others_active(pod, agent):
            return _failed(Cause.PROVIDER_ERROR, agent, f"the provider kept failing{message}")
    return None


def _assess_start(pod: PodState, timeouts: PodTimeouts) -> PodAssessment:
    late = [agent for agent in pod.agents if agent.activity is not AgentActivity.IDLE]
    if not late:
        return PodAssessment(status=PodStatus.READY)
    if pod.now - pod.launched_at < timeouts.ready:
        return WAITING
    activity = late[0].activity.value.replace("_", " ")
    waited = f"it is still {activity} {timeouts.ready:g} s after its launch (--pod-start-timeout)"
    return _failed(Cause.ENVIRONMENT_FAILED, late[0], waited)


def _assess_running(pod: PodState, sent_at: float, timeouts: PodTimeouts) -> PodAssessment:
    lead = next(agent for agent in pod.agents if agent.name == pod.lead)
    if not lead.prompts:
        if pod.now - sent_at < timeouts.prompt:
            return WAITING
        return _failed(Cause.ENVIRONMENT_FAILED, lead, f"it did not take the task in {timeouts.prompt:.0f} s")
    if any(
        agent.queued
        or agent.unresponsive_since is not None
        or agent.dead_since is not None
        or agent.activity not in {AgentActivity.IDLE, AgentActivity.EXITED}
        or (agent.unread_since is not None and pod.now - agent.unread_since < timeouts.delivery)
        for agent in pod.agents
    ):
        return WAITING
    quiet = pod.now - max(agent.last_event_at for agent in pod.agents)
    unfinished = next(
        (agent for agent in pod.agents if agent.turn_open or agent.activity is AgentActivity.EXITED), None
    )
    if quiet < (timeouts.quiet if unfinished is None else timeouts.open_turn):
        return WAITING
    if unfinished is not None:
        return _failed(
            Cause.AGENT_CRASHED, unfinished, f"it stopped in the middle of a turn, {timeouts.open_turn:.0f} s ago"
        )
    return PodAssessment(status=PodStatus.DONE, detail="every agent of the pod has finished")


def _others_active(pod: PodState, agent: PodAgentState) -> bool:
    return any(
        other.activity in {AgentActivity.WORKING, AgentActivity.COMPACTING}
        for other in pod.agents
        if other is not agent
    )


def _has_lasted(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds


def _failed(cause: Cause, agent: PodAgentState, what: str) -> PodAssessment:
    return PodAssessment(status=PodStatus.FAILED, cause=cause, detail=f"{agent.name}: {what}", agent=agent.name)
