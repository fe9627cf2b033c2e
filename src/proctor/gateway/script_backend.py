"""Responds from a script: each request of a conversation gets the next step, be it a response or an error."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import msgspec

from proctor.gateway.backend import (
    EVENT_STREAM_HEADERS,
    JSON_HEADERS,
    Backend,
    BackendReply,
    GatewaySessionSpec,
    IncomingRequest,
    Responder,
    Sleep,
    StreamBroken,
    StreamEnd,
    TimedChunk,
    divergence_reply,
    estimated_tokens,
    offline_reply,
    synthetic_reply,
)
from proctor.gateway.dialects.base import OVERLOADED, Dialect, ScriptedMessage, ScriptedTool
from proctor.gateway.events import ReplayDivergence
from proctor.gateway.model_call import ModelCall, Role
from proctor.gateway.script import (
    Script,
    ScriptConversation,
    ScriptCut,
    ScriptError,
    ScriptStep,
    ScriptUsage,
    TaskScript,
)
from proctor.gateway.sse import SseEvent
from proctor.gateway.tool_kinds import MissingTool, resolve_call

# For what a script need not mention.
_DEFAULT_STEPS: Final = {
    Role.SIDE: [ScriptStep(text="Done.", repeat="forever")],
    Role.COMPACTION: [ScriptStep(text="<summary>What was said so far, in short.</summary>", repeat="forever")],
}
# More than a gateway's retries: a script of errors only must not be read for ever.
_MAX_SKIPPED_STEPS: Final = 100


class ScriptBackend(Backend):
    """Responds from a script."""

    def __init__(self, script: Script, *, name: str = "script", sleep: Sleep = asyncio.sleep) -> None:
        self.name = name
        self._script = script
        self._sleep = sleep

    def responder(self, spec: GatewaySessionSpec) -> Responder:
        """A responder at the start of the task's script."""
        return ScriptResponder(self._script, spec, sleep=self._sleep)


class _StepCursor:
    """The position of a conversation in its steps."""

    def __init__(self, steps: list[ScriptStep]) -> None:
        self._last = ""
        self._steps = self._iterate(steps)

    def next(self, last: str) -> ScriptStep | None:
        """The next step, given the last text."""
        self._last = last
        return next(self._steps, None)

    def _iterate(self, steps: list[ScriptStep]) -> Iterator[ScriptStep]:
        for step in steps:
            if step.if_ is not None:
                yield from self._iterate(step.then if self._matches(step.if_) else step.else_)
            else:
                yield from self._repeat(step)

    def _repeat(self, step: ScriptStep) -> Iterator[ScriptStep]:
        # A step with `until` and without `repeat` is repeated until then.
        count = step.repeat if step.repeat is not None else "forever" if step.until is not None else 1
        done = 0
        while (count == "forever" or done < count) and not (step.until and self._matches(step.until)):
            done += 1
            if step.steps is None:
                yield step
                continue
            idle = True
            for inner in self._iterate(step.steps):
                idle = False
                yield inner
            if idle:
                return  # no step applies, and that cannot change before the next request

    def _matches(self, pattern: str) -> bool:
        return re.search(pattern, self._last, re.MULTILINE) is not None


class ScriptResponder(Responder):
    """Responds to one session."""

    def __init__(self, script: Script, spec: GatewaySessionSpec, *, sleep: Sleep = asyncio.sleep) -> None:
        self._script = script
        self._task = script.for_task(spec.task_id)
        self._spec = spec
        self._sleep = sleep
        self._cursors: dict[tuple[str, Role], _StepCursor] = {}
        self._request_counts: dict[str, int] = {}
        self._messages = 0
        self._tools = 0

    async def respond_other(self, incoming: IncomingRequest) -> BackendReply:
        """Estimate token counts; list the models that the script names."""
        return await offline_reply(incoming, self._script.models)

    async def respond(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> BackendReply:
        """Respond with the conversation's next step."""
        number = self._request_counts[conversation] = self._request_counts.get(conversation, 0) + 1
        if self._task is None:
            return self._exhausted(
                call, conversation, number, f"the script has nothing for task {self._spec.task_id!r}"
            )
        cursor = self._cursor(self._task, call, conversation)
        if cursor is None:
            return self._exhausted(
                call, conversation, number, f"the script has nothing for conversation {conversation!r}"
            )
        step = cursor.next(call.last_text())
        if step is None:
            return self._exhausted(
                call, conversation, number, f"the script of {conversation!r} ends before request {number}"
            )
        try:
            return self._respond_step(self._with_values(step, call), call, incoming)
        except MissingTool as missing:
            return self._exhausted(call, conversation, number, str(missing))

    def skip(self, call: ModelCall, conversation: str, incoming: IncomingRequest) -> None:
        """Skip the step of this response, and the errors before it."""
        self._request_counts[conversation] = self._request_counts.get(conversation, 0) + 1
        cursor = None if self._task is None else self._cursor(self._task, call, conversation)
        if cursor is None:
            return
        steps = (cursor.next(call.last_text()) for _ in range(_MAX_SKIPPED_STEPS))
        step = next((step for step in steps if step is None or _is_complete_response(step)), None)
        if step is not None:
            with suppress(MissingTool):
                self._message(self._with_values(step, call), call, incoming)  # counts its ids as used

    def _cursor(self, task: TaskScript, call: ModelCall, conversation: str) -> _StepCursor | None:
        key = (conversation, call.role)
        if key not in self._cursors:
            steps = _steps_for(task, call)
            if steps is None:
                return None
            self._cursors[key] = _StepCursor(steps)
        return self._cursors[key]

    def _exhausted(self, call: ModelCall, conversation: str, number: int, message: str) -> BackendReply:
        message = f"script_exhausted: {message}"
        divergence = ReplayDivergence(conversation=conversation, request=number, message=message)
        return divergence_reply(divergence, call.dialect)

    def _with_values(self, step: ScriptStep, call: ModelCall) -> ScriptStep:
        """The step with known values substituted for ``{{name}}``; unknown ones are left as they are."""
        values = {**self._script.values, "task": self._spec.task_id, "agent": call.agent, **self._spec.values}
        fields = {name: getattr(step, name) for name in ("text", "thinking", "tools", "content", "raw", "error")}
        return msgspec.structs.replace(step, **{name: _substitute(value, values) for name, value in fields.items()})

    def _respond_step(self, step: ScriptStep, call: ModelCall, incoming: IncomingRequest) -> BackendReply:
        if step.drop:
            raise StreamBroken("dropped on purpose")
        if step.error is not None:
            error = step.error if isinstance(step.error, ScriptError) else ScriptError(status=step.error)
            return self._error_reply(error, call.dialect)
        if step.too_long is not None:
            said = call.dialect.too_long_message(step.too_long.tokens, step.too_long.maximum)
            return self._error_reply(ScriptError(status=400, message=said), call.dialect)
        if step.raw is not None:
            chunks = [TimedChunk(step.delay, step.raw.body.encode())]
            return synthetic_reply(step.raw.status, {"content-type": step.raw.content_type}, chunks, sleep=self._sleep)
        message = self._message(step, call, incoming)
        return self._stream_reply(step, message, call) if call.stream else self._json_reply(step, message, call)

    def _error_reply(self, error: ScriptError, dialect: Dialect) -> BackendReply:
        known = error.status in HTTPStatus._value2member_map_
        message = error.message or (HTTPStatus(error.status).phrase if known else "Overloaded")
        body = msgspec.json.encode(dialect.error_body(error.status, message, kind=error.type))
        headers = JSON_HEADERS | {name.lower(): value for name, value in error.headers.items()}
        return synthetic_reply(error.status, headers, [TimedChunk(0, body)], sleep=self._sleep)

    def _message(self, step: ScriptStep, call: ModelCall, incoming: IncomingRequest) -> dict[str, Any]:
        self._messages += 1
        usage = step.usage or self._script.usage
        if usage is None:
            written = [step.thinking, step.text, step.tools, step.content]
            usage = ScriptUsage(input=estimated_tokens(incoming.body), output=estimated_tokens(str(written)))
        return call.dialect.render(
            ScriptedMessage(
                number=self._messages,
                model=step.model or call.model,
                thinking=step.thinking,
                text=step.text,
                tools=tuple(self._tool_calls(step, call)),
                content=step.content,
                stop_reason=step.stop_reason,
                tokens=usage.tokens(),
            )
        )

    def _tool_calls(self, step: ScriptStep, call: ModelCall) -> Iterator[ScriptedTool]:
        for tool in step.tools or ():
            for name, arguments in tool.items():
                self._tools += 1
                yield ScriptedTool(self._tools, *resolve_call(name, arguments, call))

    def _stream_reply(self, step: ScriptStep, message: dict[str, Any], call: ModelCall) -> BackendReply:
        dialect = call.dialect
        events: list[SseEvent | str] = [*dialect.events_from_message(message, piece_length=step.piece)]
        ending: StreamEnd = "done"
        if step.malformed is not None and step.malformed < len(events):
            events[step.malformed] = dialect.malformed_event
        if step.error_event is not None:
            events[step.error_event.after :] = [dialect.error_event(step.error_event.type, step.error_event.message)]
        if step.cut is not None:
            cut = step.cut if isinstance(step.cut, ScriptCut) else ScriptCut(after=step.cut)
            events, ending = events[: cut.after], "reset" if cut.reset else "close"
        chunks = [TimedChunk(step.pace, dialect.encode_event(event)) for event in events]
        if chunks:
            chunks[0] = TimedChunk(step.delay, chunks[0].data)
        if step.silence is not None:
            after = min(step.silence.after, len(chunks))
            if step.silence.seconds is None:
                chunks, ending = chunks[:after], "hang"
            else:
                chunks.insert(after, TimedChunk(step.silence.seconds, b""))
        return synthetic_reply(200, EVENT_STREAM_HEADERS, chunks, ending=ending, sleep=self._sleep)

    def _json_reply(self, step: ScriptStep, message: dict[str, Any], call: ModelCall) -> BackendReply:
        """The same step as a response that is not streamed."""
        if step.error_event is not None:
            overloaded = step.error_event.type == "overloaded_error"
            status = OVERLOADED if overloaded else int(HTTPStatus.INTERNAL_SERVER_ERROR)
            return self._error_reply(ScriptError(status=status, message=step.error_event.message), call.dialect)
        body, delay = msgspec.json.encode(call.dialect.whole_body(message, call)), step.delay
        ending: StreamEnd = "done"
        if step.silence is not None:
            delay += step.silence.seconds or 0.0
            ending = "done" if step.silence.seconds is not None else "hang"
        if step.malformed is not None:
            body = body[: len(body) // 2]
        if step.cut is not None:
            reset = isinstance(step.cut, ScriptCut) and step.cut.reset
            body, ending = body[: len(body) // 2], "reset" if reset else "close"
        chunks = [] if ending == "hang" else [TimedChunk(delay, body)]
        return synthetic_reply(200, JSON_HEADERS, chunks, ending=ending, sleep=self._sleep)


def _steps_for(task: TaskScript, call: ModelCall) -> list[ScriptStep] | None:
    for conversation in task.conversations:
        if _matches_call(conversation, call):
            return conversation.steps
    if call.role is Role.MAIN:
        return task.steps
    return _DEFAULT_STEPS.get(call.role)


def _is_complete_response(step: ScriptStep) -> bool:
    """Whether a step is a complete response, which is not repeated when a session is resumed."""
    faults = (step.error, step.too_long, step.raw, step.malformed, step.error_event, step.cut)
    endless = step.silence is not None and step.silence.seconds is None
    return not step.drop and not endless and all(fault is None for fault in faults)


def _matches_call(conversation: ScriptConversation, call: ModelCall) -> bool:
    role = conversation.role
    if role is None:
        # Without a role, it is for the named agent's main thread, or for sub-agents.
        role = Role.MAIN if conversation.agent is not None else Role.SUBAGENT
    return (
        role is call.role
        and conversation.agent in {None, call.agent}
        and (conversation.system is None or re.search(conversation.system, call.system_text()) is not None)
        and (conversation.prompt is None or re.search(conversation.prompt, call.first_text()) is not None)
    )


def _substitute(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\{\{ ?(\w+) ?\}\}", lambda found: values.get(found[1], found[0]), value)
    if isinstance(value, list):
        return [_substitute(item, values) for item in value]
    if isinstance(value, dict):
        return {key: _substitute(item, values) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        return msgspec.structs.replace(value, **{name: _substitute(getattr(value, name), values) for name in names})
    return value
