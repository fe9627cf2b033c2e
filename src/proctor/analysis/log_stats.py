"""What logs tell beyond results, in numbers. Reports carry these; whoever reads logs makes them."""

import msgspec

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
        setup_failures: of answers that are a machine's state: why it was not what was asked for, in the categories of
            the SetupBench paper, as far as the grader's output and the agent's log show.
        setup_waste: steps that a person would not have needed, by the paper's causes; `setup_steps`: of so many.
    """

    run: str
    trajectories_read: int
    trajectories_missing: int
    tool_calls: ToolCallStats
    gave_up: int
    setup_failures: dict[str, int] = msgspec.field(default_factory=dict)
    setup_waste: dict[str, int] = msgspec.field(default_factory=dict)
    setup_steps: int = 0
