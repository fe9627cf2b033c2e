"""Paired bootstrap intervals: tasks are drawn again, with both runs' answers to them. The draws repeat: same data, same
interval.
"""

import math
import random
from collections.abc import Sequence
from operator import mul
from typing import Final

from proctor.analysis.intervals import CONFIDENCE, Estimate

RESAMPLES: Final = 1999
_SEED: Final = 20260215
# Drawn again, fewer values than this are often all but equal, and t is then of any size.
_FEWEST: Final = 10


def mean_interval(
    values: Sequence[float], *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = _SEED
) -> Estimate | None:
    """The mean of one value per task, with its studentised bootstrap interval; None without values.

    Fewer than ten values have no interval, unless they are all the same.

        mean - h·se  to  mean + g·se,   t* = (mean* - mean) / se*
        h: the larger of H and (H + s)/2, H the 97.5 % quantile of t*
        g: the larger of G and (G + s)/2, -G the 2.5 % quantile of t*, s the 95 % quantile of |t*|

    Differences of costs have heavy tails, and are skewed where one run is dearer. The symmetric interval, ± s·se
    (P. Hall, "On Symmetric Bootstrap Confidence Intervals", J. R. Statist. Soc. B 50 (1988)), misses the truth on the
    side of the long tail. The equal-tailed one, -H and +G, follows the skew of the sample, which is not that of the
    truth, and is too short where there is none. So the arm that the skew makes longer is taken as long as it says, and
    the other is made shorter by half of what it says. docs/reports.md has the measurements.
    """
    number = len(values)
    if number == 0:
        return None
    mean = math.fsum(values) / number
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values)) / number
    if error == 0 and number > 1:
        return Estimate(value=mean, low=mean, high=mean)
    if number < _FEWEST:
        return Estimate(value=mean)
    choose = random.Random(seed).choices  # noqa: S311 - draws for statistics, not for secrets
    centred = [value - mean for value in values]  # the squares of large values that differ little lose their digits
    drawn: list[float] = []
    for _ in range(resamples):
        sample = choose(centred, k=number)
        total = sum(sample)
        spread = sum(map(mul, sample, sample)) - total * total / number
        # A draw of one value over and over shows no spread: it is as far out as can be.
        drawn.append(total / math.sqrt(spread) if spread > 0 else math.copysign(math.inf, total))
    down, up = _arms(drawn, confidence)
    if math.isinf(down) or math.isinf(up):
        return Estimate(value=mean)
    return Estimate(value=mean, low=mean - down * error, high=mean + up * error)


def rate_interval(
    differences: Sequence[float], *, confidence: float = CONFIDENCE, resamples: int = RESAMPLES, seed: int = _SEED
) -> Estimate | None:
    """The mean difference of two rates, from one difference (-1 to 1) per task, with its percentile bootstrap interval.

    Two made-up tasks are drawn from as well, one gained and one lost. Without them, two runs that agree on every task
    would be said to differ by exactly nothing, however few the tasks; with them, the interval is the bootstrap's
    counterpart of the adjusted interval of D. G. Bonett and R. M. Price, J. Educ. Behav. Stat. 37 (2012). The value is
    that of the real tasks alone.
    """
    number = len(differences)
    if number == 0:
        return None
    choose = random.Random(seed).choices  # noqa: S311 - as above
    urn = [*differences, 1.0, -1.0]
    drawn = sorted(sum(choose(urn, k=len(urn))) / len(urn) for _ in range(resamples))
    value = math.fsum(differences) / number
    low, high = _at(drawn, (1 - confidence) / 2), _at(drawn, (1 + confidence) / 2)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _arms(drawn: Sequence[float], confidence: float) -> tuple[float, float]:
    """How many standard errors the interval reaches down and up, from the draws of t."""
    ordered = sorted(drawn)
    symmetric = _at(sorted(map(abs, drawn)), confidence)
    down, up = _at(ordered, (1 + confidence) / 2), -_at(ordered, (1 - confidence) / 2)
    return max(down, (down + symmetric) / 2), max(up, (up + symmetric) / 2)


def _at(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of the draws lies: the (B + 1)·share-th of B, as Efron and Tibshirani count."""
    place = round((len(ordered) + 1) * share) - 1
    return ordered[min(max(place, 0), len(ordered) - 1)]
