"""Which tool calls of a trajectory were wasted.

A call is wasted when the tool itself reports a failure, when it reads again what was read before and not changed since,
or when it repeats the previous call of its kind with no change in between. A read that was not needed does not show in
a trajectory and is not counted: the true waste is larger.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from proctor.analysis.log_stats import ToolCallStats
from proctor.core.trajectory import Step, ToolCall

# Tools that change nothing; any other tool may have changed anything.
_READ_TOOLS: Final = frozenset({"Read", "NotebookRead"})
_READ_ONLY_TOOLS: Final = frozenset({"Glob", "Grep", "LS", "TodoWrite", "WebFetch", "WebSearch", *_READ_TOOLS})
_EDIT_TOOLS: Final = frozenset({"Edit", "MultiEdit", "NotebookEdit", "Write"})
_GAVE_UP: Final = re.compile(
    r"\b(?:I (?:am|was) unable to|I (?:cannot|can't|could not|couldn't) (?:solve|complete|finish|fix|find a way)"
    r"|I (?:do not|don't) know (?:what to do|how to)|I(?:'m| am)? giv(?:e|ing) up)\b",
    re.IGNORECASE,
)


def tool_call_stats(steps: Iterable[Step]) -> ToolCallStats:
    """The tool calls of one attempt. Each agent of a pod has its own record of what it has read."""
    lanes: dict[str, list[ToolCall]] = {}
    for step in steps:
        lanes.setdefault(step.lane, []).extend(step.calls)
    total = ToolCallStats()
    for calls in lanes.values():
        total += _lane_stats(calls)
    return total


def gave_up(final_text: str) -> bool:
    """Whether an agent's final text says that it could not solve the task."""
    return _GAVE_UP.search(final_text) is not None


def _lane_stats(calls: Sequence[ToolCall]) -> ToolCallStats:
    failed = reread = repeated = 0
    read: dict[str, list[tuple[float, float]]] = {}
    since_change: set[str] = set()
    last = ""
    for call in calls:
        identity = f"{call.name} {json.dumps(call.arguments, sort_keys=True, default=str)}"
        read_only = call.name in _READ_ONLY_TOOLS
        if call.failed:
            failed += 1
        elif call.name in _READ_TOOLS and _already_read(read, call.arguments):
            reread += 1
        elif identity in since_change if read_only else identity == last:
            repeated += 1
        if not read_only:
            since_change.clear()
        elif not call.failed:
            since_change.add(identity)
        if call.name in _READ_TOOLS and not call.failed:
            read.setdefault(_path_argument(call.arguments), []).append(_line_range(call.arguments))
        elif call.name in _EDIT_TOOLS:
            read.pop(_path_argument(call.arguments), None)
        elif not read_only:
            read.clear()  # a command may have changed any file
        last = identity
    return ToolCallStats(calls=len(calls), failed=failed, reread=reread, repeated=repeated)


def _already_read(read: Mapping[str, Sequence[tuple[float, float]]], arguments: Mapping[str, Any]) -> bool:
    first, end = _line_range(arguments)
    return any(start <= first and end <= stop for start, stop in read.get(_path_argument(arguments), ()))


def _path_argument(arguments: Mapping[str, Any]) -> str:
    return str(arguments.get("file_path") or arguments.get("notebook_path") or "")


def _line_range(arguments: Mapping[str, Any]) -> tuple[float, float]:
    """The first and last line that a call reads; without a limit, all that follow the first."""
    offset, limit = arguments.get("offset"), arguments.get("limit")
    first = float(offset) if isinstance(offset, int | float) else 0.0
    return first, first + float(limit) if isinstance(limit, int | float) else float("inf")
