"""Is a difference more than chance? Exact tests, Holm's correction, and how many tasks a difference needs."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

SIGNIFICANCE_LEVEL: Final = 0.05
POWER: Final = 0.8
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


def tasks_needed(
    gained: float, lost: float, *, significance: float = SIGNIFICANCE_LEVEL, power: float = POWER
) -> int | None:
    """How many common tasks it takes to see a difference, if these shares of the tasks flip; None for no difference.

        n = (z_{1-a/2}·√(g + l) + z_{power}·√(g + l - (g - l)²))² / (g - l)²

    R. J. Connor, "Sample Size for Testing Differences in Proportions for the Paired-Sample Design", Biometrics 43
    (1987). It is an approximation for many tasks; at least as many must flip as the exact test needs to show anything.
    """
    difference, flips = gained - lost, gained + lost
    if not difference:
        return None
    normal = NormalDist()
    reach = normal.inv_cdf(1 - significance / 2) * math.sqrt(flips)
    reach += normal.inv_cdf(power) * math.sqrt(max(0.0, flips - difference * difference))
    fewest_flips = math.floor(math.log2(2 / significance)) + 1
    return max(math.ceil(reach * reach / (difference * difference)), math.ceil(fewest_flips / flips))


def minimum_detectable_difference(
    flips: float, tasks: int, *, significance: float = SIGNIFICANCE_LEVEL, power: float = POWER
) -> float | None:
    """The smallest difference in rate that this many tasks show if this share of them flips; None if they show none."""
    if not 0 < flips <= 1:
        return None
    low, high = 0.0, flips
    if (tasks_needed(flips, 0.0, significance=significance, power=power) or 0) > tasks:
        return None
    for _ in range(50):
        middle = (low + high) / 2
        needed = tasks_needed((flips + middle) / 2, (flips - middle) / 2, significance=significance, power=power)
        low, high = (low, middle) if needed is not None and needed <= tasks else (middle, high)
    return high
