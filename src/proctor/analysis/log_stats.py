"""Statistics of the logs of a run, as reports contain them."""

from proctor.core.record import Record
from proctor.core.trajectory import LogMeasure


class ToolCallStats(Record):
    """Tool calls and wasted ones; a call that is wasted in two ways counts as the first of them.

    Attributes:
        failed: the tool reports a failure.
        reread: it reads what was read before, and not changed since.
        repeated: the same call again, with no change in between.
    """

    calls: int = 0
    failed: int = 0
    reread: int = 0
    repeated: int = 0

    @property
    def wasted(self) -> int:
        """All wasted calls."""
        return self.failed + self.reread + self.repeated

    def __add__(self, other: "ToolCallStats") -> "ToolCallStats":
        return ToolCallStats(
            calls=self.calls + other.calls,
            failed=self.failed + other.failed,
            reread=self.reread + other.reread,
            repeated=self.repeated + other.repeated,
        )


class LogStats(Record):
    """The logs of one run, in numbers.

    Attributes:
        trajectories_read: counted trials whose trajectory could be read; `trajectories_missing`: the others.
        gave_up: unresolved trials whose final text says that the agent could not solve the task.
        measures: the benchmark's own, where it has any.
    """

    run: str
    trajectories_read: int
    trajectories_missing: int
    tool_calls: ToolCallStats
    gave_up: int
    measures: tuple[LogMeasure, ...] = ()
