"""What `bench report` says, for programs."""

from typing import Literal

from msgspec import UNSET, UnsetType

from proctor.analysis.log_stats import LogStats
from proctor.analysis.runs import RunRow
from proctor.core.published_result import PublishedResult
from proctor.core.record import Record


class RunsReport(Record):
    """All runs of a benchmark in numbers, and what others have published of it.

    Attributes:
        logs: what the logs tell, run by run; only where they were asked for.
    """

    benchmark: str
    runs: tuple[RunRow, ...]
    published: tuple[PublishedResult, ...]
    log_stats: tuple[LogStats, ...] | UnsetType = UNSET
    schema_version: Literal["proctor.runs_report@1"] = "proctor.runs_report@1"
