"""Is a difference of two runs with several trials of each task more than chance? A paired permutation test.

The statistic is the mean over tasks of the difference of the two rates of a task. If the runs do not differ, it is
chance which of the two rates of a task is which run's: every way of swapping them is as likely as the one observed
(R. A. Fisher, "The Design of Experiments", 1935, §21). The p-value is the share of the ways in which the mean is at
least as far from zero. With one trial of each task it is McNemar's exact test.

Swapping rates of different numbers of trials is not enough: with 16 trials in one run and one in the other, eight tasks
that both resolve nine times out of ten differ by a little, and mostly in the same direction. So where the numbers
differ the trials of each task are also dealt out anew to the two runs, as many to each as it has, and the larger of
both p-values is the result.
"""

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

SAMPLES: Final = 9_999
_SEED: Final = 20260215
_EXACT_STEPS: Final = 1_000_000  # about a quarter of a second; what takes more is sampled

TaskCounts = tuple[int, int, int, int]  # resolved trials and trials of the first run, and of the second
Sums = dict[int, int]  # the values that a difference or a sum of differences may have, and the ways to have each


def paired_permutation(tasks: Sequence[TaskCounts], *, exact_steps: int = _EXACT_STEPS) -> float:
    """The two-sided p-value of two runs having the same rates; 1 where no task differs.

    It is exact where the ways can be counted in so many steps, else from permutations drawn with a fixed seed.
    """
    # In units of this fraction every difference of rates is a whole number, so that equal sums are equal.
    unit = math.lcm(*(trials for _, first, _, second in tasks for trials in (first, second)))
    differences = [unit // second * now - unit // first * was for was, first, now, second in tasks]
    observed = abs(sum(differences))
    swaps = Counter(abs(one) for one in differences if one)
    p_value = _share_as_far([({one: 1, -one: 1}, number) for one, number in swaps.items()], observed, exact_steps)
    if all(first == second for _, first, _, second in tasks):
        return p_value
    deals = Counter((first, second, was + now) for was, first, now, second in tasks)
    dealt = [(_dealt_anew(*deal, unit), number) for deal, number in deals.items()]
    return max(p_value, _share_as_far(dealt, observed, exact_steps))


def _dealt_anew(first: int, second: int, resolved: int, unit: int) -> Sums:
    """The differences of a task's rates when its trials are dealt out anew, as many to each run as it has."""
    return {
        unit // second * (resolved - one) - unit // first * one: math.comb(first, one)
        * math.comb(second, resolved - one)
        for one in range(max(0, resolved - second), min(first, resolved) + 1)
    }


def _share_as_far(groups: Sequence[tuple[Sums, int]], observed: int, exact_steps: int) -> float:
    """The share of all ways whose sum is as far from zero; a group: a task's differences, and how many tasks have them.

    Tasks that are alike are added up first: few sums are possible, so that few steps or draws do for many tasks.
    """
    parts = sorted((_repeated(sums, number) for sums, number in groups), key=len)
    counted: Sums = {0: 1}
    for part in parts:
        exact_steps -= len(counted) * len(part)
        if exact_steps < 0:
            return _sampled_share(parts, observed)
        counted = _added(counted, part)
    # Both are whole numbers: where a float would overflow, their ratio does not.
    return sum(ways for total, ways in counted.items() if abs(total) >= observed) / sum(counted.values())


def _added(one: Sums, other: Sums) -> Sums:
    sums: Sums = {}
    for total, ways in one.items():
        for change, more in other.items():
            sums[total + change] = sums.get(total + change, 0) + ways * more
    return sums


def _repeated(sums: Sums, number: int) -> Sums:
    if len(sums) == 2:  # noqa: PLR2004 - the binomial theorem
        one, other = sums.items()
        return _repeated_pair(one, other, number)
    if number <= 1:
        return sums
    half = _repeated(sums, number // 2)
    return _added(_added(half, half), sums) if number % 2 else _added(half, half)


def _repeated_pair(one: tuple[int, int], other: tuple[int, int], number: int) -> Sums:
    sums: Sums = {}
    ways = one[1] ** number
    for count in range(number + 1):
        sums[one[0] * (number - count) + other[0] * count] = ways
        ways = ways * (number - count) * other[1] // ((count + 1) * one[1])
    return sums


def _sampled_share(parts: Iterable[Sums], observed: int) -> float:
    choose = random.Random(_SEED).choices  # noqa: S311 - draws for statistics, not for secrets
    totals = [0] * SAMPLES
    for sums in parts:
        ways = sum(sums.values())
        weights = list(accumulate(one / ways for one in sums.values()))
        drawn = choose(list(sums), cum_weights=weights, k=SAMPLES)
        totals = [total + one for total, one in zip(totals, drawn, strict=True)]
    # What was observed is one of the ways, so that no p-value is zero (B. Phipson and G. K. Smyth, Stat. Appl. Genet.
    # Mol. Biol. 9 (2010)).
    return (1 + sum(abs(total) >= observed for total in totals)) / (1 + SAMPLES)
