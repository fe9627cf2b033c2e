"""Where a run stands, from its journal alone."""

from collections.abc import Iterable
from typing import Final

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.record import Record
from proctor.core.run import JournalEntry, Stage
from proctor.runner.records import Slot

_ORDER: Final[dict[Stage | None, int]] = {
    None: 0,
    "prepared": 1,
    "answered": 2,
    "collected": 3,
    "graded": 4,
    "recorded": 5,
}


class Standing(Record):
    """How far one slot has come: its last attempt, and the last stage of it that is finished.

    Attributes:
        began: when each of its attempts was begun.
        stage: of the last attempt; None when there was none.
        ended: why the last attempt ended, once it has.
        result: what the recorded result says.
    """

    began: tuple[str, ...] = ()
    stage: Stage | None = None
    ended: Cause | None = None
    result: Cause | None = None

    @property
    def attempts(self) -> int:
        """How many were begun."""
        return len(self.began)

    @property
    def done(self) -> bool:
        """Whether its result is recorded."""
        return self.stage == "recorded"

    @property
    def failed(self) -> bool:
        """Whether its recorded result is an error: ours or the provider's, not the agent's."""
        return self.done and self.result is not None and CONSEQUENCES[self.result].status is Status.ERROR

    @property
    def answered(self) -> bool:
        """Whether the last attempt's answer counts, so that only grading and recording can be left."""
        return _ORDER[self.stage] >= _ORDER["collected"]

    @property
    def gradable(self) -> bool:
        """Whether the last attempt handed something in that goes to the grader."""
        return self.answered and (self.ended is None or CONSEQUENCES[self.ended].graded)


def standings(journal: Iterable[JournalEntry]) -> dict[Slot, Standing]:
    """Every slot that was begun. A later attempt begins anew; within one, stages only go forward."""
    found: dict[tuple[str, int], Standing] = {}
    for entry in journal:
        key = (entry.task_id, entry.sample)
        known = found.get(key)
        if known is None:
            known = Standing()
        if entry.attempt > known.attempts:
            # Attempts that the journal does not know, as after lines were removed from it, began nobody knows when.
            unknown = ("",) * (entry.attempt - known.attempts - 1)
            known = Standing(began=(*known.began, *unknown, entry.at))
        if entry.attempt == known.attempts and _ORDER[entry.stage] > _ORDER[known.stage]:
            found[key] = _advanced(known, entry)
    return {Slot(task_id=task_id, sample=sample): standing for (task_id, sample), standing in found.items()}


def _advanced(known: Standing, entry: JournalEntry) -> Standing:
    recorded = entry.stage == "recorded"
    return Standing(
        began=known.began,
        stage=entry.stage,
        ended=entry.cause if entry.stage in {"answered", "collected"} else known.ended,
        result=entry.cause if recorded else known.result,
    )
