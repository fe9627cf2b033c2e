"""What an agent's steps were spent on, as far as its trajectory shows: which of its calls brought nothing.

A call is wasted when the tool itself says that it failed, when it reads again what it has read and nobody has changed
since, or when it is the same call as the one before it of its kind, with no change in between. What cannot be seen
from outside, such as a reading that was not needed, is not counted: the true waste is larger.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from proctor.analysis.log_stats import ToolCallStats
from proctor.core.trajectory import Step, ToolCall

# Tools that look and change nothing; whatever is not among them may have changed anything.
_READ_TOOLS: Final = frozenset({"Read", "NotebookRead"})
_READ_ONLY_TOOLS: Final = frozenset({"Glob", "Grep", "LS", "TodoWrite", "WebFetch", "WebSearch", *_READ_TOOLS})
_EDIT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_GAVE_UP: Final = re.compile(
    r"\b(?:I (?:am|was) unable to|I (?:cannot|can't|could not|couldn't) (?:solve|complete|finish|fix|find a way)"
    r"|I (?:do not|don't) know (?:what to do|how to)|I(?:'m| am)? giv(?:e|ing) up)\b",
    re.IGNORECASE,
)


def tool_call_stats(steps: Iterable[Step]) -> ToolCallStats:
    """What the steps of one attempt were spent on. The agents of a pod each remember what they have read themselves."""
    lanes: dict[str, list[ToolCall]] = {}
    for step in steps:
        lanes.setdefault(step.lane, []).extend(step.calls)
    total = ToolCallStats()
    for calls in lanes.values():
        total += _lane_stats(calls)
    return total


def gave_up(final_text: str) -> bool:
    """Whether an agent's last words say that it could not do it."""
    return _GAVE_UP.search(final_text) is not None


def _lane_stats(calls: Sequence[ToolCall]) -> ToolCallStats:
    failed = reread = repeated = 0
    read: dict[str, list[tuple[float, float]]] = {}
    since_change: set[str] = set()
    last = ""
    for call in calls:
        same = f"{call.name} {json.dumps(call.arguments, sort_keys=True, default=str)}"
        looking = call.name in _READ_ONLY_TOOLS
        if call.failed:
            failed += 1
        elif call.name in _READ_TOOLS and _already_read(read, call.arguments):
            reread += 1
        elif same in since_change if looking else same == last:
            repeated += 1
        if not looking:
            since_change.clear()
        elif not call.failed:
            since_change.add(same)
        if call.name in _READ_TOOLS and not call.failed:
            read.setdefault(_path_argument(call.arguments), []).append(_line_range(call.arguments))
        elif call.name in _EDIT_TOOLS:
            read.pop(_path_argument(call.arguments), None)
        elif not looking:
            read.clear()  # a command may have changed any file
        last = same
    return ToolCallStats(calls=len(calls), failed=failed, reread=reread, repeated=repeated)


def _already_read(read: Mapping[str, Sequence[tuple[float, float]]], arguments: Mapping[str, Any]) -> bool:
    first, end = _line_range(arguments)
    return any(start <= first and end <= stop for start, stop in read.get(_path_argument(arguments), ()))


def _path_argument(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("file_path") or arguments.get("notebook_path") or "")


def _line_range(arguments: Mapping[str, Any]) -> tuple[float, float]:
    """Which lines a call reads: from where, to where; without a limit, all that follow."""
    offset, limit = arguments.get("offset"), arguments.get("limit")
    first = float(offset) if isinstance(offset, int | float) else 0.0
    return first, first + float(limit) if isinstance(limit, int | float) else float("inf")
