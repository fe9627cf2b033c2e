"""How amounts are distributed: minimum, quartiles, p90 and maximum beside the mean."""

import math
from collections.abc import Iterable, Sequence

from proctor.core.record import Record


class Distribution(Record):
    """A distribution in numbers."""

    count: int
    total: float
    mean: float
    minimum: float
    p25: float
    p50: float
    p75: float
    p90: float
    maximum: float


def distribution_of(values: Iterable[float]) -> Distribution | None:
    """The distribution of these values; None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    total = math.fsum(ordered)
    return Distribution(
        count=len(ordered),
        total=total,
        mean=total / len(ordered),
        minimum=ordered[0],
        p25=quantile(ordered, 0.25),
        p50=quantile(ordered, 0.5),
        p75=quantile(ordered, 0.75),
        p90=quantile(ordered, 0.9),
        maximum=ordered[-1],
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share lies, between neighbours in proportion (R's type 7, numpy's default)."""
    position = (len(ordered) - 1) * share
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
