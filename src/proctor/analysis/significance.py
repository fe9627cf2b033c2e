"""Is a difference more than chance? Exact tests, Holm's correction, and how many tasks a difference needs."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

from msgspec.structs import replace

from proctor.core.record import Record

SIGNIFICANCE_LEVEL: Final = 0.05
POWER: Final = 0.8
_ROUNDING_ERROR: Final = 1e-12  # a mean below this is rounding
_SMALLEST_SHOWN: Final = 0.001  # a smaller p-value is shown as p < 0.001


def exact_mcnemar(gained: int, lost: int) -> float:
    """The two-sided exact p-value: of n flips, each is a fair coin if the runs do not differ.

    p = min(1, 2 * sum_{i=0}^{min(b,c)} C(n, i) / 2^n), with n = b + c (McNemar 1947, exact form); 1 without flips.
    """
    flips = gained + lost
    tail = sum(math.comb(flips, i) for i in range(min(gained, lost) + 1))
    # Both are whole numbers: where a float would overflow, their ratio does not.
    return min(1.0, 2 * tail / (1 << flips))


def format_p_value(p_value: float) -> str:
    """A p-value for a sentence, as in "p = 0.013", with enough digits to show on which side of 5 % it is."""
    if p_value < _SMALLEST_SHOWN:
        return f"p < {_SMALLEST_SHOWN}"
    digits = 3
    while (float(f"{p_value:.{digits}f}") < SIGNIFICANCE_LEVEL) != (p_value < SIGNIFICANCE_LEVEL):
        digits += 1
    return f"p = {p_value:.{digits}f}"


def fisher_exact(resolved: int, tasks: int, other_resolved: int, other_tasks: int) -> float:
    """The two-sided exact p-value of two groups of tasks having the same rate.

    The margins being what they are, the sum of the chances of all tables that are no likelier than this one
    (R. A. Fisher, "The Design of Experiments", 1935).
    """
    every, both = tasks + other_tasks, resolved + other_resolved
    ways = [
        math.comb(tasks, here) * math.comb(other_tasks, both - here)
        for here in range(max(0, both - other_tasks), min(tasks, both) + 1)
    ]
    this = math.comb(tasks, resolved) * math.comb(other_tasks, other_resolved)
    return min(1.0, sum(way for way in ways if way <= this) / math.comb(every, both))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values adjusted for their number, in their order: those below 5 % hold together at 95 %.

    The i-th smallest of m is multiplied by m - i + 1, and none is below one before it
    (S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scand. J. Statist. 6 (1979)).
    """
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda index: p_values[index])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)


class PairedSpread(Record):
    """The differences of two runs' rates, one (-1 to 1) per task, as far as power depends on them.

    Attributes:
        mean_square: their mean square; with one trial of each task, the share of the tasks that flip.
        differing: the share of the tasks that differ at all.
    """

    mean: float
    mean_square: float
    differing: float

    @classmethod
    def of(cls, differences: Sequence[float]) -> "PairedSpread":
        """That of these differences; without any there is no difference."""
        number = max(1, len(differences))
        return cls(
            mean=math.fsum(differences) / number,
            mean_square=math.fsum(one * one for one in differences) / number,
            differing=sum(one != 0 for one in differences) / number,
        )


def tasks_needed(spread: PairedSpread, *, significance: float = SIGNIFICANCE_LEVEL, power: float = POWER) -> int | None:
    """How many common tasks it takes to see the mean of such differences; None for no difference.

        n = (z_{1-a/2}·√q + z_{power}·√(q - m²))² / m²,   m the mean, q the mean square

    R. J. Connor, "Sample Size for Testing Differences in Proportions for the Paired-Sample Design", Biometrics 43
    (1987), whose q is the share of the tasks that flip. It is an approximation for many tasks; at least as many must
    differ as the exact test needs to show anything.
    """
    if abs(spread.mean) < _ROUNDING_ERROR:
        return None
    normal = NormalDist()
    mean_squared = spread.mean * spread.mean
    reach = normal.inv_cdf(1 - significance / 2) * math.sqrt(spread.mean_square)
    reach += normal.inv_cdf(power) * math.sqrt(max(0.0, spread.mean_square - mean_squared))
    fewest = math.floor(math.log2(2 / significance)) + 1
    return max(math.ceil(reach * reach / mean_squared), math.ceil(fewest / spread.differing))


def minimum_detectable_difference(
    spread: PairedSpread, tasks: int, *, significance: float = SIGNIFICANCE_LEVEL, power: float = POWER
) -> float | None:
    """The smallest mean that this many tasks show if they differ this much; None if they show none."""
    if not spread.mean_square:
        return None
    # No mean is larger: all differences have one sign and one size (Cauchy and Schwarz).
    low, high = 0.0, math.sqrt(spread.mean_square * spread.differing)

    def needed(mean: float) -> int | None:
        return tasks_needed(replace(spread, mean=mean), significance=significance, power=power)

    if (needed(high) or 0) > tasks:
        return None
    for _ in range(50):
        middle = (low + high) / 2
        number = needed(middle)
        low, high = (low, middle) if number is not None and number <= tasks else (middle, high)
    return high
