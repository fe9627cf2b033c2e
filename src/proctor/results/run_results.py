"""A run on disk, as a program reads it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proctor.core.causes import Cause
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig, RunSummary
from proctor.results.frames import FrameKind, FrameLibrary, make_frame
from proctor.results.store import RunStore


@dataclass(frozen=True, slots=True)
class RunResults:
    """A run on disk. Iterating over it gives its results, read one at a time.

    Attributes:
        trials_left: trials without a recorded result; `resume` continues with them.
        stopped_by: what stopped this session before its end, where anything did; `detail`: in words.
    """

    folder: Path
    config: RunConfig
    summary: RunSummary
    trials_left: int
    stopped_by: Cause | None = None
    detail: str = ""

    @property
    def name(self) -> str:
        """As commands and `resume` know it: benchmark/run-id."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    def task(self, task_id: str, trial: int = 1) -> TaskResult:
        """The result of one trial.

        Raises:
            UsageError: there is none.
        """
        return RunStore(self.folder).result(task_id, trial)

    def __iter__(self) -> Iterator[TaskResult]:
        return RunStore(self.folder).results()

    def to_frame(self, rows: FrameKind = "trials", *, library: FrameLibrary = "polars") -> Any:
        """A data frame with a row for each trial, each of the `tests`, or each of the `model_calls`.

        Raises:
            UsageError: the library is not installed (`pip install 'proctor[frames]'`), or there are no such rows.
        """
        return make_frame([RunStore(self.folder)], rows, library)
