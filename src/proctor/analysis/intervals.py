"""Confidence intervals, in closed form: the libraries that have them take seconds to import."""

import math
from statistics import NormalDist

from proctor.core.record import Record


class Interval(Record):
    """Where a true value lies, with the stated confidence."""

    low: float
    high: float


def wilson(successes: int, trials: int, *, confidence: float = 0.95) -> Interval | None:
    """Wilson's score interval for a proportion; None without trials, of which nothing can be said.

        centre = (p + z²/2n) / (1 + z²/n)
        margin = z / (1 + z²/n) · √(p(1 - p)/n + z²/4n²)

    It stays within 0 and 1 and is right for few trials and for rates near either end, where p ± z·√(p(1 - p)/n) is not.
    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927).
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    if trials == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, shrink = successes / trials, 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / shrink
    margin = z / shrink * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # At the ends one limit is exact; rounding must not move it.
    low = 0.0 if successes == 0 else max(0.0, centre - margin)
    high = 1.0 if successes == trials else min(1.0, centre + margin)
    return Interval(low=low, high=high)
