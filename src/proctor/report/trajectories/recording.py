"""A trajectory from the gateway's recording."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from proctor.core.result import Tokens
from proctor.core.trajectory import Lane, LaneKind, Step, StepSource, ToolCall, Trajectory
from proctor.gateway import load_recording
from proctor.gateway.dialects import DIALECTS
from proctor.gateway.model_call import Role
from proctor.gateway.recording import ExpandedExchange, RecordedExchange
from proctor.report.trajectories.content_blocks import ToolResult, content_text, parse_assistant, parse_user

_OK: Final = 200
_LAST: Final = 1 << 62


def read_recording(path: Path, *, agent: str, version: str, outputs: Mapping[str, ToolResult]) -> Trajectory:
    """The trajectory in a recording. A call's output is in the next request, or for the last calls in `outputs`.

    Raises:
        InvalidData: the recording cannot be read.
    """
    recording = load_recording(path)
    conversations: dict[str, _LaneBuilder] = {}
    for recorded in recording.exchanges:
        exchange = recorded.exchange
        lane = conversations.setdefault(exchange.conversation, _LaneBuilder(_lane(exchange)))
        lane.add_exchange(recorded)
    for refusal in recording.refusals:
        lane = conversations.setdefault(refusal.conversation, _LaneBuilder(Lane(name=refusal.conversation)))
        text = f"The gateway refused with status {refusal.status}: {refusal.message}"
        step = Step(source="system", lane=lane.lane.name, at=refusal.at, kind="error", text=text)
        lane.steps.append((_LAST, step))
    numbered = [step for lane in conversations.values() for step in lane.finished_steps(outputs)]
    # Times are in milliseconds; within one, requests are in the order of their numbers.
    steps = [step for _, step in sorted(numbered, key=lambda pair: (pair[1].at or "", pair[0]))]
    models = [step.model for step in steps if step.model]
    return Trajectory(
        task_id=recording.header.task_id,
        agent=agent,
        version=version,
        model=models[0] if models else None,
        lanes=tuple(lane.lane for lane in conversations.values()),
        steps=tuple(steps),
    )


class _LaneBuilder:
    """One lane under construction."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.steps: list[tuple[int, Step]] = []
        self._seen: set[str] = set()
        self._results: dict[str, ToolResult] = {}
        self._unnamed: Counter[str] = Counter()
        self._named: set[str] = set()
        self._given_ids: dict[str, str] = {}

    def add_exchange(self, recorded: ExpandedExchange) -> None:
        exchange = recorded.exchange
        dialect = recorded.dialect
        for item in exchange.request.add:
            if not (dialect.is_from_model(item) or dialect.is_instruction(item)):
                self._add_user_content(dialect.content_blocks(item), exchange)
        step = _agent_step(recorded, self.lane.name)
        self._named.update(call.id for call in step.calls if call.id)
        calls = tuple(msgspec.structs.replace(call, id=call.id or self._next_id("call")) for call in step.calls)
        self.steps.append((exchange.number, msgspec.structs.replace(step, calls=calls)))

    def _next_id(self, kind: str) -> str:
        """The id of a call or of a result without one: results come in the order of the calls."""
        self._unnamed[kind] += 1
        return f"unnamed-{self._unnamed[kind]}"

    def _answered_call(self, given: str) -> str:
        """The id of the call that a result belongs to. Programs give ids to calls that came without one."""
        if given in self._named:
            return given
        if given in self._given_ids:
            return self._given_ids[given]
        if given and self._unnamed["result"] >= self._unnamed["call"]:
            return given  # of a call that is not in this recording
        found = self._next_id("result")
        if given:
            self._given_ids[given] = found
        return found

    def _add_user_content(self, content: Any, exchange: RecordedExchange) -> None:
        parsed = parse_user(content)
        for result in parsed.results:
            self._results.setdefault(self._answered_call(result.call_id), result)
        # The agent's own program requests a compaction, not the user.
        user: StepSource = "system" if exchange.role is Role.COMPACTION else "user"
        self._add_steps("system", parsed.reminders, exchange)
        for text in parsed.texts:
            self._add_steps(user, [text], exchange)

    def _add_steps(self, source: StepSource, texts: Iterable[str], exchange: RecordedExchange) -> None:
        # After a compaction, and in a retry, a conversation repeats earlier messages.
        new = [text for text in texts if text not in self._seen]
        self._seen.update(new)
        if new:
            step = Step(source=source, lane=self.lane.name, at=exchange.at, text="\n\n".join(new))
            self.steps.append((exchange.number, step))

    def finished_steps(self, outputs: Mapping[str, ToolResult]) -> Iterator[tuple[int, Step]]:
        """The steps, each call with its output."""
        for number, step in self.steps:
            calls = tuple(_with_output(call, self._results.get(call.id) or outputs.get(call.id)) for call in step.calls)
            yield number, msgspec.structs.replace(step, calls=calls) if calls else step


def _with_output(call: ToolCall, result: ToolResult | None) -> ToolCall:
    if result is None:
        return call
    return msgspec.structs.replace(call, output=result.output, failed=result.failed)


def _agent_step(recorded: ExpandedExchange, lane: str) -> Step:
    exchange = recorded.exchange
    response = exchange.response
    message = _message(exchange)
    notes = [f"retried after {', '.join(map(str, exchange.errors))}"] if exchange.errors else []
    notes += ["paid for before"] if exchange.paid else []
    notes += [f"cut short: {response.cut}"] if response.cut else []
    tokens = Tokens()
    for usage in exchange.usage:
        tokens += usage.tokens
    step = Step(
        source="agent",
        lane=lane,
        at=exchange.at,
        seconds=response.ms / 1000,
        model=exchange.usage[0].model if exchange.usage else exchange.request.model,
        tokens=tokens,
        cost_usd=0.0 if exchange.paid else exchange.cost_usd,
        note="; ".join(notes),
    )
    if message is None:
        status = "none" if response.status is None else str(response.status)
        text = f"No response from the model (status {status}): {_error_message(response.body)}".rstrip(": ")
        return msgspec.structs.replace(step, source="system", kind="error", text=text, model=None)
    dialect = recorded.dialect
    blocks = [block for item in dialect.message_items(message) for block in dialect.content_blocks(item)]
    content = parse_assistant(blocks)
    kind = "compaction" if exchange.role is Role.COMPACTION else "message"
    return msgspec.structs.replace(step, kind=kind, text=content.text, thinking=content.thinking, calls=content.calls)


def _message(exchange: RecordedExchange) -> Any:
    """The model's message, as far as it was received."""
    if exchange.response.status != _OK:
        return None
    dialect = DIALECTS[exchange.request.dialect]
    if exchange.events is not None:
        events = [event for _, event, *_ in exchange.events if isinstance(event, dict)]
        try:
            return dialect.message_from_events(events) or None
        except (LookupError, TypeError, ValueError):
            return None  # events in an invalid order
    body = exchange.response.body
    return body if dialect.is_message(body) else None


def _error_message(body: Any) -> str:
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        return str(body["error"].get("message", ""))
    return content_text(body) if isinstance(body, str) else ""


def _lane(exchange: RecordedExchange) -> Lane:
    kinds: dict[Role, LaneKind] = {Role.SUBAGENT: "subagent", Role.SIDE: "side"}
    return Lane(name=exchange.conversation, agent=exchange.agent, kind=kinds.get(exchange.role, "main"))
