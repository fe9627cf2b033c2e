"""What logs tell beyond results, in numbers. Reports carry these; whoever reads logs makes them."""

from proctor.core.benchmark import LogMeasure
from proctor.core.record import Record


class ToolCallStats(Record):
    """Calls of tools, and those that brought nothing; one that is wasted in two ways counts as the first of them.

    Attributes:
        failed: the tool says so itself.
        reread: what was read before, and not changed since.
        repeated: the same call again, nothing having changed.
    """

    calls: int = 0
    failed: int = 0
    reread: int = 0
    repeated: int = 0

    @property
    def wasted(self) -> int:
        """All of them that brought nothing."""
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
        read: counted answers whose trajectory could be read; `lacking`: those that left none, or none that can be.
        gave_up: unresolved answers whose last words say that it could not be done.
        measures: the benchmark's own, where it has any.
    """

    run: str
    trajectories_read: int
    trajectories_missing: int
    tool_calls: ToolCallStats
    gave_up: int
    measures: tuple[LogMeasure, ...] = ()
