"""The state of a run's trials, from its journal alone."""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from proctor.core.causes import CONSEQUENCES, Cause, Status
from proctor.core.record import Record
from proctor.core.run import JournalEntry, Stage, Trial

_STAGE_ORDER: Final[dict[Stage | None, int]] = {
    None: 0,
    "prepared": 1,
    "answered": 2,
    "collected": 3,
    "graded": 4,
    "recorded": 5,
}


class TrialState(Record):
    """The state of one trial: its last attempt, and the last stage of it that is finished.

    Attributes:
        attempt_start_times: of all its attempts.
        stage: of the last attempt; None when there was none.
        attempt_cause: why the last attempt ended, once it has.
        result_cause: the cause in the recorded result.
    """

    attempt_start_times: tuple[str, ...] = ()
    stage: Stage | None = None
    attempt_cause: Cause | None = None
    result_cause: Cause | None = None

    @property
    def attempts(self) -> int:
        """How many were started."""
        return len(self.attempt_start_times)

    @property
    def recorded(self) -> bool:
        """Whether its result is recorded."""
        return self.stage == "recorded"

    @property
    def failed(self) -> bool:
        """Whether its recorded result is an error: ours or the provider's, not the agent's."""
        return (
            self.recorded and self.result_cause is not None and CONSEQUENCES[self.result_cause].status is Status.ERROR
        )

    @property
    def skipped(self) -> bool:
        """Whether it is recorded without an attempt, as the machine of that session could not run it."""
        return self.recorded and not self.attempts

    @property
    def collected(self) -> bool:
        """Whether the last attempt counts, so that only grading and recording can be left."""
        return self.attempts > 0 and _STAGE_ORDER[self.stage] >= _STAGE_ORDER["collected"]

    @property
    def gradable(self) -> bool:
        """Whether the last attempt has a submission that is graded."""
        return self.collected and (self.attempt_cause is None or CONSEQUENCES[self.attempt_cause].graded)

    def without_result(self) -> "TrialState":
        """The same with the result lost: a recorded trial is graded and recorded again."""
        if not self.recorded:
            return self
        return replace(self, stage="graded" if self.attempts else None, result_cause=None)


def read_trial_states(journal: Iterable[JournalEntry]) -> dict[Trial, TrialState]:
    """Every trial that was started. A later attempt starts anew; within one, stages only advance."""
    found: dict[tuple[str, int], TrialState] = {}
    for entry in journal:
        key = (entry.task_id, entry.trial)
        known = found.get(key)
        if known is None:
            known = TrialState()
        if entry.attempt > known.attempts:
            # Attempts that the journal does not have, as after lines were removed from it, started at an unknown time.
            unknown = ("",) * (entry.attempt - known.attempts - 1)
            known = TrialState(attempt_start_times=(*known.attempt_start_times, *unknown, entry.at))
        if entry.attempt == known.attempts and _STAGE_ORDER[entry.stage] > _STAGE_ORDER[known.stage]:
            found[key] = _advance(known, entry)
    return {Trial(task_id=task_id, number=number): state for (task_id, number), state in found.items()}


def _advance(state: TrialState, entry: JournalEntry) -> TrialState:
    recorded = entry.stage == "recorded"
    return TrialState(
        attempt_start_times=state.attempt_start_times,
        stage=entry.stage,
        attempt_cause=entry.cause if entry.stage in {"answered", "collected"} else state.attempt_cause,
        result_cause=entry.cause if recorded else state.result_cause,
    )
