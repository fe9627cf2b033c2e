"""Counts the tasks of an evaluation on stderr, with the reason of each that has one, and shows what takes long."""

from collections.abc import Callable

from proctor.cli.heartbeat import RunningLog
from proctor.core.formatting import unnamed_reason


class ReasonLog:
    """Knows which reasons were given, and for which task first."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}

    def text(self, task_id: str, reason: str) -> str:
        """The reason; where another task had the same one, that it is as for that task."""
        line = " ".join(reason.split())
        first = self._first.setdefault(unnamed_reason(task_id, line), task_id)
        return line if first == task_id else f"as for {first}"


class TaskCounter(RunningLog):
    """Logs every task that is finished; and what is running, while nothing else is logged, in a `with` block."""

    def __init__(self, total: int, *, quiet: bool, describe_nodes: Callable[[], str] = lambda: "") -> None:
        super().__init__(quiet=quiet)
        self._count = 0
        self._total = total
        self._describe_nodes = describe_nodes
        self._reasons = ReasonLog()

    def done(self, task_id: str, state: str, reason: str = "") -> None:
        """One more is finished; `reason` is logged with it, in full for the first task that has it."""
        self._count += 1

        def line() -> str:
            why = f": {self._reasons.text(task_id, reason)}" if reason else ""
            return f"[{self._count}/{self._total}] {state:11} {task_id}{why}"

        self._log_end(task_id, line)

    def __str__(self) -> str:
        return f"{self._count} of {self._total} tasks"

    def _describe(self) -> str:
        running = self._longest_running()
        return f"{self} are done; running: {running}{self._describe_nodes()}" if running else ""
