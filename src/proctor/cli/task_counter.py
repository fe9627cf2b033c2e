"""Counts the tasks of an evaluation on stderr, with the reason of each that has one, and shows what takes long."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from proctor.cli.heartbeat import Heartbeat
from proctor.cli.output import log
from proctor.core.formatting import duration, unnamed_reason

_SHOWN_TASKS: Final = 3


class ReasonLog:
    """Knows which reasons were given, and for which task first."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def text(self, task_id: str, reason: str) -> str:
        """The reason; where another task had the same one, that it is as for that task."""
        line = " ".join(reason.split())
        first = self._first.setdefault(unnamed_reason(task_id, line), task_id)
        return line if first == task_id else f"as for {first}"


class TaskCounter:
    """Logs every task that is finished; and what is running, while nothing else is logged, in a `with` block."""

    def __init__(self, total: int, *, quiet: bool, describe_nodes: Callable[[], str] = lambda: "") -> None:
        self._count = 0
        self._total = total
        self._quiet = quiet
        self._describe_nodes = describe_nodes
        self._running: dict[str, float] = {}
        self._reasons = ReasonLog()
        self._heartbeat = Heartbeat(self._describe)

    def started(self, task_id: str) -> None:
        """Work on a task has started."""
        self._running[task_id] = time.monotonic()

    def done(self, task_id: str, state: str, reason: str = "") -> None:
        """One more is finished; `reason` is logged with it, in full for the first task that has it."""
        self._running.pop(task_id, None)
        self._count += 1
        if not self._quiet:
            self._heartbeat.logged()
            why = f": {self._reasons.text(task_id, reason)}" if reason else ""
            log(f"[{self._count}/{self._total}] {state:11} {task_id}{why}")

    def __enter__(self) -> Self:
        if not self._quiet:
            self._heartbeat.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._quiet:
            self._heartbeat.__exit__(kind, error, trace)

    def __str__(self) -> str:
        return f"{self._count} of {self._total} tasks"

    def _describe(self) -> str:
        now, running = time.monotonic(), sorted(self._running.items(), key=lambda item: item[1])
        shown = ", ".join(f"{task_id} for {duration(now - since)}" for task_id, since in running[:_SHOWN_TASKS])
        more = f", and {len(running) - _SHOWN_TASKS} more" if len(running) > _SHOWN_TASKS else ""
        return f"{self} are done; running: {shown}{more}{self._describe_nodes()}" if running else ""
