"""Several trials of each task: pass@k, pass^k, and the expected best score of k trials."""

import math
from collections.abc import Iterable, Sequence

from proctor.analysis.intervals import Estimate, clustered_rate
from proctor.core.record import Record


class PassAtK(Record):
    """Over the tasks that have at least k trials.

    Attributes:
        pass_at_k: the probability that at least one of k trials is resolved.
        pass_hat_k: pass^k, the probability that all of k trials are resolved.
    """

    k: int
    tasks: int
    pass_at_k: Estimate
    pass_hat_k: Estimate


def pass_at_k(trials: int, resolved: int, k: int) -> float:
    """The probability that of k trials, drawn from these, at least one is resolved: 1 - C(n - c, k) / C(n, k).

    Unbiased for 1 - (1 - p)^k, which 1 - (1 - c/n)^k is not
    (M. Chen et al., "Evaluating Large Language Models Trained on Code", 2021).
    """
    _check(trials, resolved, k)
    return 1 - math.comb(trials - resolved, k) / math.comb(trials, k)


def pass_hat_k(trials: int, resolved: int, k: int) -> float:
    """The probability that k trials, drawn from these, are all resolved: C(c, k) / C(n, k), unbiased for p^k."""
    _check(trials, resolved, k)
    return math.comb(resolved, k) / math.comb(trials, k)


def estimate_pass_at_k(tasks: Iterable[Sequence[bool]], k: int) -> PassAtK | None:
    """Both, as means over tasks; None when no task has k trials."""
    counts = [(len(trials), sum(trials)) for trials in tasks if len(trials) >= k]
    number = sum(trials for trials, _ in counts)
    at_least_one = clustered_rate([[pass_at_k(trials, resolved, k)] for trials, resolved in counts], trials=number)
    all_of_k = clustered_rate([[pass_hat_k(trials, resolved, k)] for trials, resolved in counts], trials=number)
    if at_least_one is None or all_of_k is None:
        return None
    return PassAtK(k=k, tasks=len(counts), pass_at_k=at_least_one, pass_hat_k=all_of_k)


def best_of_k(scores: Sequence[float], k: int) -> float | None:
    """The expected best score of k trials, from n trials of one task; None when n < k. Higher is better.

    n trials hold C(n, k) sets of k, each equally likely. The mean of their best scores is unbiased: in increasing
    order, the i-th score is the best of C(i - 1, k - 1) of the sets. (A bootstrap, which draws with replacement, is
    biased towards fewer trials.)
    """
    count = len(scores)
    if k < 1 or k > count:
        return None
    return math.fsum(score * math.comb(rank, k - 1) for rank, score in enumerate(sorted(scores))) / math.comb(count, k)


def mean_best_of_k(tasks: Iterable[Sequence[float]], k: int) -> float | None:
    """The mean over tasks; None when a task has fewer than k trials, since it would be another set of tasks."""
    best = [best_of_k(scores, k) for scores in tasks]
    known = [score for score in best if score is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(best) else None


def _check(trials: int, resolved: int, k: int) -> None:
    if not (0 <= resolved <= trials and 1 <= k <= trials):
        raise ValueError(f"{k} of {trials} trials, {resolved} of them resolved")
