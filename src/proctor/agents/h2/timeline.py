"""Activity by agent: from a pod's events to spans, metrics, and a chart for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from proctor.agents.h2.events import AgentActivity, PodEvent, PodEventKind, SentMessage
from proctor.core.record import Record
from proctor.core.result import AgentMetrics, Member

TIMELINE_FILE: Final = "timeline.json"
_ACTIVE: Final = frozenset({AgentActivity.WORKING, AgentActivity.COMPACTING})
_SIGNS: Final = {
    AgentActivity.WORKING: "█",
    AgentActivity.COMPACTING: "▒",
    AgentActivity.AWAITING_PERMISSION: "?",
    AgentActivity.AWAITING_USER: "?",
    AgentActivity.RATE_LIMITED: "!",
    AgentActivity.AUTH_ERROR: "!",
    AgentActivity.PROVIDER_ERROR: "!",
}
_IDLE_SIGN: Final = "·"
_MESSAGE: Final = "✉"
_MESSAGES: Final = "messages"


class ActivitySpan(Record):
    """A time in which an agent did one thing, in seconds since the task was taken."""

    start: float
    end: float
    activity: AgentActivity

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end - self.start


class AgentTimeline(Record):
    """One agent's part of a timeline."""

    name: str
    role: str
    spans: tuple[ActivitySpan, ...]
    prompts: int = 0
    tools: int = 0
    turns: int = 0
    compactions: int = 0
    context_resets: int = 0
    final_text: str = ""

    @property
    def active_seconds(self) -> float:
        """How long it was active."""
        return sum(span.seconds for span in self.spans if span.activity in _ACTIVE)


class Timeline(Record):
    """Activity by agent, from the moment the task was taken to the last event.

    Attributes:
        started_at: when the task was taken, in seconds since 1970.
    """

    started_at: float
    seconds: float
    agents: tuple[AgentTimeline, ...]
    messages: tuple[SentMessage, ...] = ()
    schema_version: Literal["proctor.timeline@2"] = "proctor.timeline@2"


def build_timeline(
    agents: Mapping[str, str],
    events: Mapping[str, Sequence[PodEvent]],
    sent_messages: Iterable[SentMessage],
    *,
    lead: str,
    ended_at: float,
) -> Timeline | None:
    """The timeline of a pod's events; None when no agent took the task.

    Args:
        agents: roles by name, in the pod's order.
        events: of each agent, in the order in which they happened.
        sent_messages: between agents.
        lead: the agent that was given the task.
        ended_at: when the pod was ended; it counts only if something was active until then.
    """
    started_at = next((event.at for event in events.get(lead, ()) if event.kind is PodEventKind.PROMPT), None)
    if started_at is None:
        return None
    lines = [_agent_timeline(name, role, events.get(name, ()), started_at, ended_at) for name, role in agents.items()]
    # The time in which all agents were idle at the end is not the pod's.
    seconds = max(
        (span.end for line in lines for span in line.spans if span.activity is not AgentActivity.IDLE), default=0.0
    )
    cut = tuple(msgspec.structs.replace(line, spans=_clip_spans(line.spans, seconds)) for line in lines)
    messages = tuple(
        msgspec.structs.replace(message, at=round(max(0.0, message.at - started_at), 3)) for message in sent_messages
    )
    return Timeline(started_at=started_at, seconds=seconds, agents=cut, messages=messages)


def metrics_of(timeline: Timeline | None, agents: Mapping[str, str], *, messages: int) -> AgentMetrics:
    """A pod's metrics. What its agents used is the gateway's to say.

    Args:
        timeline: None when the pod did not get to work.
        agents: roles by name.
        messages: how many agents got from each other.
    """
    if timeline is None:
        members = tuple(Member(name=name, role=role) for name, role in agents.items())
        return AgentMetrics(agents=len(agents), members=members)
    senders = [message.sender for message in timeline.messages]
    members = tuple(
        Member(
            name=line.name,
            role=line.role,
            active_seconds=round(line.active_seconds, 3),
            idle_seconds=round(max(0.0, timeline.seconds - line.active_seconds), 3),
            turns=line.turns,
            compactions=line.compactions,
            messages=senders.count(line.name),
        )
        for line in timeline.agents
    )
    whole = timeline.seconds * len(members)
    return AgentMetrics(
        agents=len(members),
        turns=sum(member.turns for member in members),
        steps=sum(line.tools for line in timeline.agents),
        compactions=sum(member.compactions for member in members),
        context_resets=sum(line.context_resets for line in timeline.agents),
        messages=max(messages, len(senders)),
        active_share=min(1.0, sum(member.active_seconds for member in members) / whole) if whole > 0 else None,
        members=members,
    )


def _agent_timeline(
    name: str, role: str, events: Sequence[PodEvent], started_at: float, ended_at: float
) -> AgentTimeline:
    count = [event.kind for event in events].count
    left = [index for index, event in enumerate(events) if event.kind is PodEventKind.SESSION_ENDED]
    texts = [event.text for event in events if event.kind is PodEventKind.MESSAGE and event.text.strip()]
    compactions = sum(
        event.activity is AgentActivity.COMPACTING
        and (index == 0 or _previous_activity(events, index) is not AgentActivity.COMPACTING)
        for index, event in enumerate(events)
    )
    return AgentTimeline(
        name=name,
        role=role,
        spans=_spans(events, started_at, ended_at),
        prompts=count(PodEventKind.PROMPT),
        tools=count(PodEventKind.TOOL),
        turns=count(PodEventKind.TURN),
        compactions=compactions,
        # It left its session and continued in another: its context was reset.
        context_resets=sum(
            any(event.kind is not PodEventKind.SESSION_ENDED for event in events[index + 1 :]) for index in left
        ),
        final_text=texts[-1] if texts else "",
    )


def _previous_activity(events: Sequence[PodEvent], index: int) -> AgentActivity | None:
    return next((event.activity for event in reversed(events[:index]) if event.kind is PodEventKind.STATE), None)


def _spans(events: Sequence[PodEvent], started_at: float, ended_at: float) -> tuple[ActivitySpan, ...]:
    """Its activities over time. An idle span after a compaction that ends without a prompt was work."""
    changes: list[tuple[float, AgentActivity]] = []
    pending: int | None = None
    for event in events:
        if event.kind is PodEventKind.PROMPT:
            pending = None
        elif event.kind in {PodEventKind.TOOL, PodEventKind.TURN} and pending is not None:
            changes[pending] = (changes[pending][0], AgentActivity.WORKING)
            pending = None
        activity = AgentActivity.EXITED if event.kind is PodEventKind.SESSION_ENDED else event.activity
        if activity is None:
            continue
        after_compaction = (
            activity is AgentActivity.IDLE and bool(changes) and changes[-1][1] is AgentActivity.COMPACTING
        )
        changes.append((event.at, activity))
        if after_compaction:
            pending = len(changes) - 1
    spans: list[ActivitySpan] = []
    for index, (at, activity) in enumerate(changes):
        until = changes[index + 1][0] if index + 1 < len(changes) else ended_at
        start, end = round(max(0.0, at - started_at), 3), round(max(0.0, until - started_at), 3)
        if end <= start:
            continue
        if spans and spans[-1].activity is activity:
            spans[-1] = msgspec.structs.replace(spans[-1], end=end)
        else:
            spans.append(ActivitySpan(start=start, end=end, activity=activity))
    return tuple(spans)


def _clip_spans(spans: Sequence[ActivitySpan], seconds: float) -> tuple[ActivitySpan, ...]:
    return tuple(msgspec.structs.replace(span, end=min(span.end, seconds)) for span in spans if span.start < seconds)


def render_timeline(timeline: Timeline, width: int) -> str:
    """The timeline for a terminal that is `width` wide: a row for each agent, and one for their messages."""
    names = max(len(name) for name in (_MESSAGES, *(line.name for line in timeline.agents)))
    columns = max(10, width - names - 8)
    scale = timeline.seconds / columns if timeline.seconds > 0 else 1.0
    rows = []
    for line in timeline.agents:
        share = line.active_seconds / timeline.seconds if timeline.seconds > 0 else 0.0
        rows.append(f"{line.name:{names}}  {_row(line, columns, scale)}  {share:4.0%}")
    if timeline.messages:
        marks = [" "] * columns
        for message in timeline.messages:
            marks[min(columns - 1, int(message.at / scale))] = _MESSAGE
        rows.append(f"{_MESSAGES:{names}}  {''.join(marks)}  {len(timeline.messages):>4}")
    end = f"{timeline.seconds:.{0 if timeline.seconds >= 10 else 1}f} s"  # noqa: PLR2004 - where tenths matter
    rows.append(f"{'':{names}}  0{end:>{columns - 1}}")
    rows.append("█ active  ▒ compacting  ? awaiting permission  ! rate limit, login or provider error  · idle")
    return "\n".join(rows) + "\n"


def _row(agent: AgentTimeline, columns: int, scale: float) -> str:
    """Each column shows the agent's main activity in that time; idle only when there was no other."""
    cells = []
    for column in range(columns):
        start, end = column * scale, (column + 1) * scale
        shares: dict[str, float] = {}
        for span in agent.spans:
            overlap = min(end, span.end) - max(start, span.start)
            if overlap > 0:
                sign = _SIGNS.get(span.activity, _IDLE_SIGN)
                shares[sign] = shares.get(sign, 0.0) + overlap
        busy = {sign: share for sign, share in shares.items() if sign != _IDLE_SIGN}
        cells.append(max(busy, key=lambda sign: busy[sign]) if busy else _IDLE_SIGN)
    return "".join(cells)
