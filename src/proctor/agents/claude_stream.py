"""Reads what Claude Code prints with ``--output-format stream-json`` into a summary.

No line is trusted. The order of keys is not stable, every version has new types, several init and result pairs are
normal, and the agent itself can write into its program's output.
"""

import json
import math
from typing import Any, Final

from proctor.core.formatting import DEFAULT_LINE_CHARS, truncate_line
from proctor.core.record import Record
from proctor.core.result import ModelUsage, Tokens

_SYNTHETIC: Final = "<synthetic>"
_MAX_UNREADABLE_LINES: Final = 5
_MAX_COUNT: Final = 2**53  # what JavaScript can count to, and more than a record holds is refused when it is written
# The arguments that say most about a tool call, best first.
_DESCRIPTIVE_ARGUMENTS: Final = (
    "command",
    "file_path",
    "notebook_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)


class ClaudeResult(Record):
    """The end of one turn, as Claude Code sees it.

    Attributes:
        is_error: the only field that shows success; API failures have the subtype ``success`` too.
        status: the HTTP status of the failure; None for a network failure, and where there was no failure.
        reason: why the loop ended: ``completed``, ``max_turns``, ``prompt_too_long``, ``aborted_tools``, …
        usage: by model, over all results so far, sub-agents and compactions included.
    """

    subtype: str
    is_error: bool
    status: int | None = None
    text: str = ""
    stop_reason: str = ""
    reason: str = ""
    errors: tuple[str, ...] = ()
    usage: tuple[ModelUsage, ...] = ()
    cost_usd: float | None = None


class ClaudeStreamSummary(Record):
    """The contents of a stream so far.

    Attributes:
        started: an event of the program has come, so it runs.
        idle: the last turn has ended with a result, and none has begun since.
        turns: responses of the model, sub-agents' included.
        steps: tool calls, sub-agents' included.
        api_error: the kind of the last failed request (``rate_limit``, …), until a response comes.
        active_seconds: time within turns, without those sleeps.
        unreadable: lines that are not JSON objects; the first few are in `unreadable_lines`.
    """

    started: bool = False
    idle: bool = False
    turns: int = 0
    steps: int = 0
    compactions: int = 0
    api_error: str = ""
    final_text: str = ""
    result: ClaudeResult | None = None
    active_seconds: float = 0.0
    unreadable: int = 0
    unreadable_lines: tuple[str, ...] = ()


class ClaudeStream:
    """Reads lines as they arrive. Times are seconds on any steady clock."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}
        self._calls: set[str] = set()
        self._compactions = 0
        self._api_error = ""
        self._last_text = ""
        self._result: ClaudeResult | None = None
        self._started = False
        self._turn_started_at: float | None = None
        self._active = 0.0
        self._retry_sleep = 0.0
        self._unreadable = 0
        self._unreadable_lines: list[str] = []

    @property
    def idle(self) -> bool:
        """Whether a result has come and no turn has begun since."""
        return self._result is not None and self._turn_started_at is None

    def feed(self, line: bytes, received_at: float) -> str | None:
        """Take one line. Returns the agent's current step in a few words, when the line shows it."""
        if not line.strip():
            return None
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict):
            return (
                self._handle_assistant(event)
                if event.get("type") == "assistant"
                else self._handle_event(event, received_at)
            )
        self._unreadable += 1
        if len(self._unreadable_lines) < _MAX_UNREADABLE_LINES:
            self._unreadable_lines.append(truncate_line(line[:1000].decode("utf-8", "replace"), 200))
        return None

    def summary(self, now: float) -> ClaudeStreamSummary:
        """Everything so far, with a turn that is under way counted up to `now`."""
        open_turn = 0.0 if self._turn_started_at is None else now - self._turn_started_at - self._retry_sleep
        text = self._result.text if self._result and not self._result.is_error else ""
        return ClaudeStreamSummary(
            started=self._started,
            idle=self.idle,
            turns=len(self._messages),
            steps=len(self._calls),
            compactions=self._compactions,
            api_error=self._api_error,
            final_text=text or self._last_text,
            result=self._result,
            active_seconds=self._active + max(0.0, open_turn),
            unreadable=self._unreadable,
            unreadable_lines=tuple(self._unreadable_lines),
        )

    def _handle_event(self, event: dict[str, Any], at: float) -> str | None:
        match event.get("type"), event.get("subtype"):
            case "result", _:
                self._end_turn(event, at)
            case "system", "init":
                self._begin_turn(at)
            case "system", "api_retry":
                return self._handle_retry(event)
            case "system", "status" if event.get("status") == "compacting":
                return "compacting its context"
            case "system", "compact_boundary":
                self._compactions += 1
        return None

    def _begin_turn(self, at: float) -> None:
        self._started = True
        if self._turn_started_at is None:
            self._turn_started_at, self._retry_sleep = at, 0.0

    def _end_turn(self, event: dict[str, Any], at: float) -> None:
        self._started = True
        if self._turn_started_at is not None:
            self._active += max(0.0, at - self._turn_started_at - self._retry_sleep)
            self._turn_started_at = None
        subtype = _text(event.get("subtype"))
        self._result = ClaudeResult(
            subtype=subtype,
            is_error=event.get("is_error") is True or subtype.startswith("error"),
            status=_count(event.get("api_error_status")) or None,
            text=_text(event.get("result")),
            stop_reason=_text(event.get("stop_reason")),
            reason=_text(event.get("terminal_reason")),
            errors=tuple(_text(error) for error in _list(event.get("errors"))),
            usage=self._usage(_dict(event.get("modelUsage"))),
            cost_usd=_number(event.get("total_cost_usd")),
        )

    def _handle_assistant(self, event: dict[str, Any]) -> str | None:
        message = _dict(event.get("message"))
        identity, model = _text(message.get("id")), _text(message.get("model"))
        if model == _SYNTHETIC:
            # Written by the program itself, in place of a response that did not come.
            self._api_error = _text(event.get("error")) or self._api_error
            return None
        self._api_error = ""
        # One event comes per content block, all with the id of their message.
        self._messages.setdefault(identity, model)
        inner = event.get("parent_tool_use_id") is not None
        progress = None
        for block in map(_dict, _list(message.get("content"))):
            match block.get("type"):
                case "tool_use":
                    self._calls.add(_text(block.get("id")))
                    progress = ("sub-agent: " if inner else "") + _describe_call(block)
                case "text" if not inner:
                    self._last_text = _text(block.get("text"))
        return progress

    def _handle_retry(self, event: dict[str, Any]) -> str:
        seconds = (_number(event.get("retry_delay_ms")) or 0.0) / 1000
        self._retry_sleep += seconds
        what = _count(event.get("error_status")) or "no connection"
        return f"retrying ({what}, attempt {_count(event.get('attempt')) + 1})"

    def _usage(self, models: dict[str, Any]) -> tuple[ModelUsage, ...]:
        requested = list(self._messages.values())
        return tuple(
            ModelUsage(
                model=_text(model),
                requests=requested.count(model),
                tokens=_tokens(_dict(usage)),
                cost_usd=_number(_dict(usage).get("costUSD")),
            )
            for model, usage in models.items()
        )


def _describe_call(block: dict[str, Any]) -> str:
    arguments = _dict(block.get("input"))
    values = [arguments.get(name) for name in _DESCRIPTIVE_ARGUMENTS] + list(arguments.values())
    first = next((value for value in values if isinstance(value, str) and value.strip()), "")
    name = truncate_line(_text(block.get("name")), 40) or "a tool"
    return f"{name}: {truncate_line(_text(first), DEFAULT_LINE_CHARS - 20)}" if first else name


def _tokens(usage: dict[str, Any]) -> Tokens:
    written = _count(usage.get("cacheCreationInputTokens"))
    # Older versions do not distinguish the two kinds of cache; without a number for an hour, all is for five minutes.
    hour = min(written, _count(usage.get("cacheCreationEphemeral1hInputTokens")))
    return Tokens(
        input=_count(usage.get("inputTokens")),
        output=_count(usage.get("outputTokens")),
        cache_read=_count(usage.get("cacheReadInputTokens")),
        cache_write_5m=written - hour,
        cache_write_1h=hour,
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    # JavaScript cuts strings between the halves of a character; such a half cannot be written as UTF-8.
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _count(value: Any) -> int:
    return int(min(_number(value) or 0, _MAX_COUNT))
