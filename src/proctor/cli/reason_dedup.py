"""Says a reason that many tasks share once, as lines come in one by one."""

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
