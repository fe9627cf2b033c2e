"""Paired bootstrap intervals: tasks are resampled, with both runs' trials of them.

The seed is fixed: the same data give the same interval.
"""

import math
import random
from collections.abc import Sequence
from operator import mul
from typing import Final

from proctor.analysis.intervals import CONFIDENCE, Estimate

RESAMPLES: Final = 1999
_SEED: Final = 20260215
# Resamples of fewer values are often nearly constant, and t is then of any size.
_MIN_VALUES: Final = 10
_ROUNDING_ERROR: Final = 1e-12  # a standard error below this is rounding
_MAX_LOG_DISTANCE: Final = 50.0  # in powers of e: an interval this wide says nothing


def mean_interval(values: Sequence[float], *, resamples: int = RESAMPLES, seed: int = _SEED) -> Estimate | None:
    """The mean of one value per task, with its studentised bootstrap interval; None without values.

    Fewer than ten values have no interval, unless they are all the same.

        mean - h·se  to  mean + g·se,   t* = (mean* - mean) / se*
        h: the larger of H and (H + s)/2, H the 97.5 % quantile of t*
        g: the larger of G and (G + s)/2, -G the 2.5 % quantile of t*, s the 95 % quantile of |t*|

    Differences of costs have heavy tails, and are skewed where one run costs more. The symmetric interval, ± s·se
    (P. Hall, "On Symmetric Bootstrap Confidence Intervals", J. R. Statist. Soc. B 50 (1988)), misses the truth on the
    side of the long tail. The equal-tailed one, -H and +G, follows the skew of the sample, which is not that of the
    truth, and is too short where there is none. So the arm that the skew makes longer is used in full, and the other is
    shortened by half as much. docs/reports.md has the measurements.
    """
    number = len(values)
    if number == 0:
        return None
    mean = math.fsum(values) / number
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values)) / number
    if error == 0 and number > 1:
        return Estimate(value=mean, low=mean, high=mean)
    if number < _MIN_VALUES:
        return Estimate(value=mean)
    choose = random.Random(seed).choices  # noqa: S311 - draws for statistics, not for secrets
    centred = [value - mean for value in values]  # squares of large values that differ little would lose digits
    drawn: list[float] = []
    for _ in range(resamples):
        resample = choose(centred, k=number)
        total = sum(resample)
        spread = sum(map(mul, resample, resample)) - total * total / number
        # A resample of one repeated value has no spread: t is infinite.
        drawn.append(total / math.sqrt(spread) if spread > 0 else math.copysign(math.inf, total))
    down, up = _half_widths(drawn)
    if math.isinf(down) or math.isinf(up):
        return Estimate(value=mean)
    return Estimate(value=mean, low=mean - down * error, high=mean + up * error)


def ratio_interval(pairs: Sequence[tuple[float, float]], *, resamples: int = RESAMPLES) -> Estimate | None:
    """The second mean by the first, from both amounts of each task, with its studentised bootstrap interval.

    None where either mean is not above 0; without an interval where that of a mean has none, or nothing differs.

        R = Σb / Σa,   se² = Σ(b - R·a)² / (Σb)²,   t* = (ln R* - ln R) / se*,   R·exp(-h·se) to R·exp(g·se)

    with h and g as above. The first run's mean is an estimate too: dividing the difference and its interval by it
    gives an interval that is too short where the costs of one task are not much alike in both runs.
    """
    number = len(pairs)
    before, after = math.fsum(pair[0] for pair in pairs), math.fsum(pair[1] for pair in pairs)
    if before <= 0 or after <= 0:
        return None
    ratio = after / before
    left = [second - ratio * first for first, second in pairs]
    error = math.sqrt(math.fsum(one * one for one in left)) / after
    if error <= _ROUNDING_ERROR and number > 1:
        return Estimate(value=ratio, low=ratio, high=ratio)
    if number < _MIN_VALUES:
        return Estimate(value=ratio)
    choose = random.Random(_SEED).choices  # noqa: S311 - as above
    # The sum of (b - R*·a)² follows from these sums for any R*.
    urn = [(first, one, first * first, first * one, one * one) for (first, _), one in zip(pairs, left, strict=True)]
    drawn: list[float] = []
    for _ in range(resamples):
        total, rest, squares, products, rests = map(sum, zip(*choose(urn, k=number), strict=True))
        change = rest / total if total > 0 else math.inf
        spread = rests - 2 * change * products + change * change * squares
        if total > 0 and ratio + change > 0 and spread > 0:
            drawn.append(math.log1p(change / ratio) * (ratio * total + rest) / math.sqrt(spread))
        else:
            drawn.append(math.copysign(math.inf, rest))
    down, up = _half_widths(drawn)
    if max(down, up) * error > _MAX_LOG_DISTANCE:
        return Estimate(value=ratio)
    return Estimate(value=ratio, low=ratio * math.exp(-down * error), high=ratio * math.exp(up * error))


def rate_interval(differences: Sequence[float], *, resamples: int = RESAMPLES) -> Estimate | None:
    """The mean difference of two rates, from one difference (-1 to 1) per task, with its percentile bootstrap interval.

    Two artificial tasks are added to the sample, one gained and one lost. Without them, two runs that agree on every
    task would have an interval of width zero, however few the tasks; with them, the interval is the bootstrap's
    counterpart of the adjusted interval of D. G. Bonett and R. M. Price, J. Educ. Behav. Stat. 37 (2012). The value is
    that of the real tasks alone.
    """
    number = len(differences)
    if number == 0:
        return None
    choose = random.Random(_SEED).choices  # noqa: S311 - as above
    urn = [*differences, 1.0, -1.0]
    drawn = sorted(sum(choose(urn, k=len(urn))) / len(urn) for _ in range(resamples))
    value = math.fsum(differences) / number
    low, high = _draw_quantile(drawn, (1 - CONFIDENCE) / 2), _draw_quantile(drawn, (1 + CONFIDENCE) / 2)
    return Estimate(value=value, low=min(low, value), high=max(high, value))


def _half_widths(drawn: Sequence[float]) -> tuple[float, float]:
    """How many standard errors the interval reaches down and up, from the resampled t."""
    ordered = sorted(drawn)
    symmetric = _draw_quantile(sorted(map(abs, drawn)), CONFIDENCE)
    down, up = _draw_quantile(ordered, (1 + CONFIDENCE) / 2), -_draw_quantile(ordered, (1 - CONFIDENCE) / 2)
    return max(down, (down + symmetric) / 2), max(up, (up + symmetric) / 2)


def _draw_quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of the draws lies: the (B + 1)·share-th of B, as Efron and Tibshirani count."""
    index = round((len(ordered) + 1) * share) - 1
    return ordered[min(max(index, 0), len(ordered) - 1)]
