"""Confidence intervals, in closed form: the libraries that have them take seconds to import.

A benchmark is a sample of tasks, so an interval counts tasks: several trials of one task say less than the same number
of trials of different tasks.
"""

import math
from collections.abc import Sequence
from typing import Final

from proctor.core.record import Record

CONFIDENCE: Final = 0.95
_Z_95: Final = 1.959963984540054  # of that confidence, without the memory that `statistics` needs


class Interval(Record):
    """The range that holds the true value, with the stated confidence."""

    low: float
    high: float


class Estimate(Record):
    """A value with its interval; without one where there are too few data."""

    value: float
    low: float | None = None
    high: float | None = None


def z_value(confidence: float = CONFIDENCE) -> float:
    """How many standard errors a two-sided interval reaches to either side."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence of {confidence} is not between 0 and 1")
    if confidence == CONFIDENCE:
        return _Z_95
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + confidence) / 2)


def t_value(degrees: int, confidence: float = CONFIDENCE) -> float:
    """The same where the standard error is itself an estimate, with so many degrees of freedom: Student's quantile.

    Exact for one and two degrees; for more, to within 0.2 % at 95 %, the expansion in powers of 1/degrees
    (M. Abramowitz and I. A. Stegun, "Handbook of Mathematical Functions", 1964, 26.7.5).
    """
    z = z_value(confidence)
    if degrees == 1:
        return math.tan(math.pi / 2 * confidence)
    if degrees == 2:  # noqa: PLR2004 - the exact form for two degrees
        return confidence * math.sqrt(2 / (1 - confidence**2))
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / float(degrees) ** power for power, term in enumerate(terms))


def wilson(successes: int, trials: int, *, confidence: float = CONFIDENCE) -> Interval | None:
    """Wilson's score interval for a proportion; None without trials.

        centre = (p + z²/2n) / (1 + z²/n)
        margin = z / (1 + z²/n) · √(p(1 - p)/n + z²/4n²)

    It stays within 0 and 1 and is right for few trials and for rates near either end, where p ± z·√(p(1 - p)/n) is not.
    E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", JASA 22 (1927).
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials")
    z = z_value(confidence)
    if trials == 0:
        return None
    return _wilson(successes / trials, trials, z)


def clustered_error(clusters: Sequence[Sequence[float]]) -> float | None:
    """The standard error of the mean of all values, those of one cluster being alike; None for fewer than two clusters.

        se² = G/(G - 1) · Σ_g (Σ_{i in g} (x_i - mean))² / N²

    the cluster-robust variance of a mean, with the usual small-sample factor. G clusters (tasks), N values (trials).
    """
    groups = [group for group in clusters if group]
    if len(groups) < 2:  # noqa: PLR2004 - one cluster shows no spread between clusters
        return None
    total = sum(len(group) for group in groups)
    mean = math.fsum(value for group in groups for value in group) / total
    spread = math.fsum((math.fsum(group) - mean * len(group)) ** 2 for group in groups)
    return math.sqrt(len(groups) / (len(groups) - 1) * spread) / total


def clustered_rate(clusters: Sequence[Sequence[float]], *, trials: int | None = None) -> Estimate | None:
    """The mean of values between 0 and 1, with an interval clustered by task.

    Wilson's interval at the effective number of trials p(1 - p)/se², where se is the clustered standard error: as many
    independent trials would be needed to know the mean as well. It is between the number of tasks and of trials, and
    with one trial of each task it is Wilson's own interval. None without values.

    Args:
        clusters: the values of each task.
        trials: the number of trials, where a value stands for several of them.
    """
    groups = [group for group in clusters if group]
    if not groups:
        return None
    number = sum(len(group) for group in groups)
    rate = math.fsum(value for group in groups for value in group) / number
    effective, most = float(len(groups)), max(number, trials or 0)
    error = clustered_error(groups) if most > len(groups) and 0 < rate < 1 else None
    if error is not None:
        independent = rate * (1 - rate) / error**2 if error else math.inf
        effective = min(float(most), max(effective, independent))
    interval = _wilson(rate, effective, z_value())
    return Estimate(value=rate, low=interval.low, high=interval.high)


def clustered_mean(clusters: Sequence[Sequence[float]]) -> Estimate | None:
    """The mean of any values, ± t clustered standard errors; without an interval for fewer than two clusters.

    t is Student's, with one degree of freedom less than there are clusters.
    """
    groups = [group for group in clusters if group]
    if not groups:
        return None
    mean = math.fsum(value for group in groups for value in group) / sum(len(group) for group in groups)
    error = clustered_error(groups)
    if error is None:
        return Estimate(value=mean)
    reach = t_value(len(groups) - 1) * error
    return Estimate(value=mean, low=mean - reach, high=mean + reach)


def log_scale_mean(clusters: Sequence[Sequence[float]]) -> Estimate | None:
    """The mean of amounts (dollars, seconds), with a clustered interval on the log scale: amounts are skewed.

    mean · exp(± t · se / mean), t as above; without an interval for fewer than two clusters. None without values.
    """
    groups = [group for group in clusters if group]
    if not groups:
        return None
    mean = math.fsum(value for group in groups for value in group) / sum(len(group) for group in groups)
    return _on_log_scale(mean, clustered_error(groups), len(groups))


def ratio_of_sums(pairs: Sequence[tuple[float, float]]) -> Estimate | None:
    """Σ amount / Σ count over tasks, such as dollars per resolved task, with an interval; None where the count is 0.

        se² = n/(n - 1) · Σ (a_i - R·c_i)² / (Σ c)²,   R = Σ a / Σ c

    the usual linearisation of a ratio estimator (W. G. Cochran, "Sampling Techniques", 1977, 6.3), on the log scale.
    """
    count = math.fsum(pair[1] for pair in pairs)
    if not count:
        return None
    ratio, number = math.fsum(pair[0] for pair in pairs) / count, len(pairs)
    error = None
    if number > 1:
        residuals = math.fsum((amount - ratio * part) ** 2 for amount, part in pairs)
        error = math.sqrt(number / (number - 1) * residuals) / count
    return _on_log_scale(ratio, error, number)


def _on_log_scale(value: float, error: float | None, tasks: int) -> Estimate:
    if error is None or value <= 0:
        return Estimate(value=value)
    reach = math.exp(t_value(tasks - 1) * error / value)
    return Estimate(value=value, low=value / reach, high=value * reach)


def _wilson(rate: float, trials: float, z: float) -> Interval:
    shrink = 1 + z * z / trials
    centre = (rate + z * z / (2 * trials)) / shrink
    margin = z / shrink * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    # At the ends one limit is exact; rounding must not move it.
    low = 0.0 if rate == 0 else max(0.0, centre - margin)
    high = 1.0 if rate == 1 else min(1.0, centre + margin)
    return Interval(low=low, high=high)
