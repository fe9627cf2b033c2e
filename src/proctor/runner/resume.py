"""Where a run stands, from its journal alone."""

from collections.abc import Iterable
from typing import Final

from proctor.core.record import Record
from proctor.core.run import JournalEntry
from proctor.runner.records import Slot

_ORDER: Final = {"prepared": 1, "answered": 2, "collected": 3, "graded": 4, "recorded": 5}


class Standing(Record):
    """How far one slot has come: its last attempt, and the last stage of it that is finished.

    Attributes:
        attempts: how many were begun.
        stage: of the last one; None when none was begun.
    """

    attempts: int = 0
    stage: str | None = None

    @property
    def done(self) -> bool:
        """Whether its result is recorded."""
        return self.stage == "recorded"

    @property
    def answered(self) -> bool:
        """Whether the last attempt's answer is on disk, so that only grading is left."""
        return self.stage in {"collected", "graded"}


def standings(journal: Iterable[JournalEntry]) -> dict[Slot, Standing]:
    """Every slot that was begun. A later attempt begins anew; within one, stages only go forward."""
    found: dict[Slot, Standing] = {}
    for entry in journal:
        slot = Slot(task_id=entry.task_id, sample=entry.sample)
        known = found.get(slot, Standing())
        if entry.attempt > known.attempts or (
            entry.attempt == known.attempts and _ORDER[entry.stage] > _ORDER.get(known.stage or "", 0)
        ):
            found[slot] = Standing(attempts=entry.attempt, stage=entry.stage)
    return found
