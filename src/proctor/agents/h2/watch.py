"""When a pod is really done, and when it cannot go on: one ladder over what was seen of its agents.

An agent that says "idle" may have just compacted its context, may not have noticed its prompt yet, or may be about to
get a message. So a pod is done only when every turn that was begun has ended, no message is on its way, and nothing
has stirred for a while.
"""

from enum import StrEnum
from typing import Final

import msgspec

from proctor.agents.h2.events import Doing, Event, Kind
from proctor.core.causes import Cause
from proctor.core.record import Record


class Patience(Record):
    """How long what is waited for, in seconds.

    Attributes:
        look: between two looks at the pod.
        ready: until every agent has started.
        taken: until the task is registered as a prompt.
        settle: without any event, once every agent is idle and every turn has ended.
        unfinished: the same, where an agent says idle (or that it has left) in the middle of a turn.
        delivery: for a sign that an agent has got a message; `nudge`: until Enter is pressed for it once more.
        blocked: for the answer of a person, who is not there.
        asking: for a decision on a permission, which hooks make.
        trouble: for a limit, a login or a provider that h2 is sure about; `doubt`: where it may pass.
        status: for one answer of an agent's daemon, which first asks a git that may be slow.
        silent: until a daemon that gives no answer is given up; `dead`: one that nobody listens at.
        stop: for an agent to stop when it is told to.
    """

    look: float = 2.0
    ready: float = 90.0
    taken: float = 60.0
    settle: float = 15.0
    unfinished: float = 300.0
    delivery: float = 60.0
    nudge: float = 5.0
    blocked: float = 10.0
    asking: float = 90.0
    trouble: float = 10.0
    doubt: float = 120.0
    status: float = 15.0
    silent: float = 60.0
    dead: float = 5.0
    stop: float = 15.0


class Seen(Record):
    """What is known of one agent. Times are seconds on one steady clock.

    Attributes:
        since: when it began what it is doing.
        stirred: when something last happened to it.
        turn_open: it was given a prompt, and that turn has not ended.
        prompts: how many it has taken.
        queued: messages that wait for it in h2.
        unread_since: since when a message to it is there of which it has shown no sign.
        messages: how many were sent to it.
        nudged: when Enter was last pressed for it.
        exit_code: of its program, which has ended; h2 itself may go on saying "idle".
        dead_since: since when nobody listens for it.
        silent_since: since when its daemon takes questions and gives no answer.
        words: what h2 says about its trouble.
    """

    name: str
    doing: Doing = Doing.STARTING
    since: float = 0.0
    stirred: float = 0.0
    turn_open: bool = False
    prompts: int = 0
    queued: int = 0
    unread_since: float | None = None
    messages: int = 0
    nudged: float = 0.0
    exit_code: int | None = None
    dead_since: float | None = None
    silent_since: float | None = None
    words: str = ""


class Pod(Record):
    """What is known of a pod at one moment.

    Attributes:
        lead: who gets the task.
        launched: when the pod was launched.
        sent: when the task was sent; None before.
    """

    agents: tuple[Seen, ...]
    lead: str
    now: float
    launched: float
    sent: float | None = None


class Step(StrEnum):
    """What follows from what was seen."""

    WAIT = "wait"
    READY = "ready"
    DONE = "done"
    FAILED = "failed"


class Word(Record):
    """The judgement on a pod.

    Attributes:
        whose: the agent that it is about, whose screen may tell more.
    """

    step: Step
    cause: Cause | None = None
    detail: str = ""
    whose: str | None = None


WAIT: Final = Word(step=Step.WAIT)
_TROUBLE: Final = frozenset({Doing.LIMITED, Doing.REFUSED, Doing.FAILING})


def advance(seen: Seen, event: Event, now: float) -> Seen:
    """What is known of an agent once this event of its is known too."""
    prompts, turn_open, words = seen.prompts, seen.turn_open, seen.words
    doing = seen.doing
    match event.kind:
        case Kind.PROMPT:
            prompts, turn_open = prompts + 1, True
        case Kind.STATE if event.doing is not None:
            doing = event.doing
            # After a compaction it says idle while its turn goes on; the end of the turn is said once more.
            if doing is Doing.IDLE and seen.doing is not Doing.COMPACTING:
                turn_open = False
        case Kind.ENDED:
            doing = Doing.LEFT
        case Kind.TROUBLE:
            words = event.text
    if seen.doing is Doing.LEFT and event.kind not in {Kind.ENDED, Kind.STATE}:
        doing = Doing.STARTING  # it was not gone after all
    return msgspec.structs.replace(
        seen,
        doing=doing,
        since=seen.since if doing is seen.doing else now,
        stirred=now,
        prompts=prompts,
        turn_open=turn_open,
        words=words if doing in _TROUBLE else "",
        unread_since=None,
    )


def judge(pod: Pod, patience: Patience) -> Word:
    """Whether to wait, to hand the task over, or to end, and why."""
    broken = _broken(pod, patience)
    if broken is not None:
        return broken
    return _starting(pod, patience) if pod.sent is None else _at_work(pod, pod.sent, patience)


def unsubmitted(pod: Pod, patience: Patience) -> list[str]:
    """The agents before which a message may stand that was typed, while the Enter behind it was taken for its part.

    That happens on a busy machine, where a terminal's input arrives in one piece and looks like a paste. Whoever was
    at work then has stirred since, and is known only by having got more messages than prompts; some of them may have
    become part of a turn, so Enter is pressed once for these, whenever they have come to rest.
    """
    waiting = []
    for agent in pod.agents:
        quiet = pod.now - max(agent.stirred, agent.nudged) >= patience.nudge
        missed = agent.messages > agent.prompts and agent.nudged <= agent.stirred
        if agent.doing is Doing.IDLE and quiet and (agent.unread_since is not None or missed):
            waiting.append(agent.name)
    return waiting


def _broken(pod: Pod, patience: Patience) -> Word | None:
    """What no waiting mends. h2's own word for an agent counts for nothing here: it says idle of the dead."""
    started = pod.sent is not None
    for agent in pod.agents:
        if agent.exit_code is not None:
            when = "in the middle of the work" if started else "before it had begun"
            cause = Cause.AGENT_CRASHED if started else Cause.ENVIRONMENT_FAILED
            return _failed(cause, agent, f"its program exited with code {agent.exit_code} {when}")
        if _lasted(agent.dead_since, pod.now, patience.dead):
            return _failed(Cause.ENVIRONMENT_FAILED, agent, "its h2 daemon has died")
        if _lasted(agent.silent_since, pod.now, patience.silent):
            return _failed(Cause.ENVIRONMENT_FAILED, agent, f"its h2 daemon gave no answer for {patience.silent:.0f} s")
    for agent in pod.agents:
        word = _trouble(pod, agent, patience)
        if word is not None:
            return word
    return None


def _trouble(pod: Pod, agent: Seen, patience: Patience) -> Word | None:
    lasted = pod.now - agent.since
    said = f": {agent.words}" if agent.words else ""
    match agent.doing:
        case Doing.BLOCKED if lasted >= patience.blocked:
            return _failed(Cause.AGENT_CRASHED, agent, "it waits for a person to allow what it wants to do")
        case Doing.ASKING if lasted >= patience.asking:
            return _failed(Cause.AGENT_CRASHED, agent, "nothing decides on the permission that it asks for")
        case Doing.LIMITED if lasted >= (patience.trouble if agent.words else patience.doubt):
            return _failed(Cause.RATE_LIMITED, agent, f"its usage limit is reached{said}")
        case Doing.REFUSED if lasted >= patience.trouble:
            return _failed(Cause.BAD_LOGIN, agent, f"its login was refused{said}")
        case Doing.FAILING if lasted >= patience.doubt and not _others_work(pod, agent):
            return _failed(Cause.PROVIDER_ERROR, agent, f"the provider went on failing{said}")
    return None


def _starting(pod: Pod, patience: Patience) -> Word:
    late = [agent for agent in pod.agents if agent.doing is not Doing.IDLE]
    if not late:
        return Word(step=Step.READY)
    if pod.now - pod.launched < patience.ready:
        return WAIT
    return _failed(
        Cause.ENVIRONMENT_FAILED, late[0], f"it is still {late[0].doing.value} {patience.ready:.0f} s after its launch"
    )


def _at_work(pod: Pod, sent: float, patience: Patience) -> Word:
    lead = next(agent for agent in pod.agents if agent.name == pod.lead)
    if not lead.prompts:
        if pod.now - sent < patience.taken:
            return WAIT
        return _failed(Cause.ENVIRONMENT_FAILED, lead, f"it did not take the task in {patience.taken:.0f} s")
    if any(
        agent.queued
        or agent.silent_since is not None
        or agent.dead_since is not None
        or agent.doing not in {Doing.IDLE, Doing.LEFT}
        or (agent.unread_since is not None and pod.now - agent.unread_since < patience.delivery)
        for agent in pod.agents
    ):
        return WAIT
    quiet = pod.now - max(agent.stirred for agent in pod.agents)
    unfinished = next((agent for agent in pod.agents if agent.turn_open or agent.doing is Doing.LEFT), None)
    if quiet < (patience.settle if unfinished is None else patience.unfinished):
        return WAIT
    if unfinished is not None:
        return _failed(
            Cause.AGENT_CRASHED, unfinished, f"it stopped in the middle of a turn, {patience.unfinished:.0f} s ago"
        )
    return Word(step=Step.DONE, detail="every agent of the pod has finished")


def _others_work(pod: Pod, agent: Seen) -> bool:
    return any(other.doing in {Doing.WORKING, Doing.COMPACTING} for other in pod.agents if other is not agent)


def _lasted(since: float | None, now: float, seconds: float) -> bool:
    return since is not None and now - since >= seconds


def _failed(cause: Cause, agent: Seen, what: str) -> Word:
    return Word(step=Step.FAILED, cause=cause, detail=f"{agent.name}: {what}", whose=agent.name)
