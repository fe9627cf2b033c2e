"""A trajectory from what Claude Code prints with ``--output-format stream-json``, or stores as a session's transcript.

Both are lines with a `message` of the Messages API. The stream has no count of output tokens; the gateway's recording
has, and is preferred where there is one. The agent can write into these lines, so nothing here trusts them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from proctor.core.errors import InvalidData
from proctor.core.result import Tokens
from proctor.core.trajectory import Lane, Step, ToolCall, Trajectory
from proctor.core.user_files import parse_json, read_user_lines
from proctor.report.trajectories.content_blocks import ToolResult, parse_assistant, parse_user


class StreamTrajectoryBuilder:
    """All steps of a stream, and the output of every call."""

    def __init__(self) -> None:
        self.outputs: dict[str, ToolResult] = {}
        self._steps: list[Step] = []
        self._messages: dict[str, int] = {}
        self._lanes: dict[str, Lane] = {}
        self._version = ""

    def add_event(self, event: dict[str, Any]) -> None:
        """Add one line."""
        lane, at = self._lane(event), _time(event.get("timestamp"))
        message = event.get("message")
        match event.get("type"), event.get("subtype"):
            case "assistant", _ if isinstance(message, dict):
                self._add_assistant_message(message, lane, at)
            case "user", _ if isinstance(message, dict):
                content = parse_user(message.get("content"))
                self.outputs |= {result.call_id: result for result in content.results}
                self._steps += [Step(source="system", lane=lane, at=at, text=text) for text in content.reminders]
                source: Any = "system" if event.get("isSynthetic") or event.get("isMeta") else "user"
                self._steps += [Step(source=source, lane=lane, at=at, text=text) for text in content.texts]
            case "system", "init":
                self._version = str(event.get("claude_code_version") or self._version)
            case "system", "api_retry":
                text = f"The provider failed ({event.get('error_status') or 'no connection'}); the request is retried."
                self._steps.append(Step(source="system", lane=lane, at=at, kind="error", text=text))
            case "system", "compact_boundary":
                self._steps.append(
                    Step(source="system", lane=lane, at=at, kind="compaction", text="The conversation was compacted.")
                )

    def trajectory(self, *, task_id: str, agent: str, version: str) -> Trajectory:
        """The steps as a trajectory, in the order of the stream: not every line has a time."""
        models = [step.model for step in self._steps if step.model]
        return Trajectory(
            task_id=task_id,
            agent=agent,
            version=version or self._version,
            model=models[0] if models else None,
            lanes=tuple(self._lanes.values()),
            steps=tuple(self._with_outputs()),
            note="there is no recording: output tokens and cost are unknown",
        )

    def _add_assistant_message(self, message: dict[str, Any], lane: str, at: str | None) -> None:
        content = parse_assistant(message.get("content"))
        identity = str(message.get("id") or "")
        known = self._messages.get(identity) if identity else None
        if known is not None:
            # One line comes for each content block, all with the id of their message.
            step = self._steps[known]
            self._steps[known] = msgspec.structs.replace(
                step,
                text="\n\n".join(filter(None, (step.text, content.text))),
                thinking="\n\n".join(filter(None, (step.thinking, content.thinking))),
                calls=(*step.calls, *content.calls),
            )
            return
        self._messages[identity] = len(self._steps)
        model = message.get("model")
        self._steps.append(
            Step(
                source="agent",
                lane=lane,
                at=at,
                text=content.text,
                thinking=content.thinking,
                calls=content.calls,
                model=model if isinstance(model, str) else None,
                tokens=_tokens(message.get("usage")),
                cost_usd=None,
            )
        )

    def _with_outputs(self) -> Iterator[Step]:
        for step in self._steps:
            calls = tuple(self._with_output(call) for call in step.calls)
            yield msgspec.structs.replace(step, calls=calls) if calls else step

    def _with_output(self, call: ToolCall) -> ToolCall:
        result = self.outputs.get(call.id)
        return msgspec.structs.replace(call, output=result.output, failed=result.failed) if result else call

    def _lane(self, event: dict[str, Any]) -> str:
        parent = event.get("parent_tool_use_id")
        if not isinstance(parent, str):
            return self._lanes.setdefault("", Lane(name="main")).name
        number = sum(lane.kind == "subagent" for lane in self._lanes.values()) + 1
        return self._lanes.setdefault(parent, Lane(name=f"subagent-{number}", kind="subagent")).name


def read_stream(file: Path) -> StreamTrajectoryBuilder:
    """Read a stream line by line; a line that is no event is skipped.

    Raises:
        InvalidData: the file cannot be read.
    """
    stream = StreamTrajectoryBuilder()
    try:
        for line in read_user_lines(file, "the stream"):
            try:
                event = parse_json(line)
            except ValueError:
                continue
            if isinstance(event, dict):
                stream.add_event(event)
    except OSError as error:
        raise InvalidData(f"cannot read the stream: {error.strerror}", where=file) from error
    return stream


def _tokens(usage: Any) -> Tokens:
    """The input side only: the stream's count of output tokens is from before the response."""
    counts = usage if isinstance(usage, dict) else {}
    return Tokens(
        input=_count(counts.get("input_tokens")),
        cache_read=_count(counts.get("cache_read_input_tokens")),
        cache_write_5m=_count(counts.get("cache_creation_input_tokens")),
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**53 else 0


def _time(value: Any) -> str | None:
    return value if isinstance(value, str) else None
