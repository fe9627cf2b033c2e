"""From a log of scores to one number: pure rules.

A family says which of its scores counts (the least, the greatest, or the last), and two scores give them a scale that
all families share: the starting solution is 0, the reference solution 1. Better than the reference is more than 1.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from proctor.core.record import Record
from proctor.core.submission import ScoreLogEntry

BUDGET_SECONDS: Final = {"30m": 1800.0, "2h": 7200.0, "8h": 28800.0, "32h": 115200.0}


class ScoreSelection(StrEnum):
    """Which of an attempt's scores counts."""

    MIN = "min"
    MAX = "max"
    LAST = "last"


class ScoreScale(Record):
    """How a family's scores are read."""

    selection: ScoreSelection
    start: float
    reference: float

    def normalised(self, score: float) -> float:
        """A score on the common scale; the sign of the denominator says which way is better."""
        return (score - self.start) / (self.reference - self.start)


def finite_or_none(score: float | None) -> float | None:
    """A score that is a number; NaN and the infinities are how scorers say that there is none."""
    return score if score is not None and math.isfinite(score) else None


def selected_score(
    scores: Sequence[ScoreLogEntry], selection: ScoreSelection, *, within: float = math.inf
) -> float | None:
    """The score that counts among those asked for within so many seconds; None when no valid one is there."""
    known = [one.score for one in scores if one.seconds <= within and finite_or_none(one.score) is not None]
    numbers = [score for score in known if score is not None]
    if not numbers:
        return None
    match selection:
        case ScoreSelection.MIN:
            return min(numbers)
        case ScoreSelection.MAX:
            return max(numbers)
        case ScoreSelection.LAST:
            return numbers[-1]


def score_within(scores: Sequence[ScoreLogEntry], scale: ScoreScale, seconds: float = math.inf) -> float:
    """The normalised score that an attempt had after so many seconds.

    The starting solution was there from the start, so an attempt without a valid score has 0. One that ends with
    something worse has less, where the last score counts; where the best does, it still has the start.
    """
    score = selected_score(scores, scale.selection, within=seconds)
    if score is None:
        return 0.0
    reached = scale.normalised(score)
    return reached if scale.selection is ScoreSelection.LAST else max(reached, 0.0)
