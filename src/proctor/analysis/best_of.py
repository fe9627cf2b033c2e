"""What the best of k tries can be expected to have, from more tries than that.

n independent runs of one task hold C(n, k) sets of k runs, each as likely as the others to be the k that were made.
The mean of their best scores is an unbiased estimate of the expected best of k, and needs no drawing of lots: with the
scores in order, the i-th smallest is the best of C(i - 1, k - 1) of those sets. (A bootstrap, which draws with
replacement, sees some run twice and is biased towards fewer tries.)
"""

from collections.abc import Iterable, Sequence
from math import comb, fsum


def best_of_k(scores: Sequence[float], k: int) -> float | None:
    """The expected best score of k tries, more being better; None when fewer than k tries are known."""
    count = len(scores)
    if k < 1 or k > count:
        return None
    return fsum(score * comb(place, k - 1) for place, score in enumerate(sorted(scores))) / comb(count, k)


def mean_best_of_k(tasks: Iterable[Sequence[float]], k: int) -> float | None:
    """The mean over tasks; None when one of them has fewer than k tries, as it would be another set of tasks."""
    best = [best_of_k(scores, k) for scores in tasks]
    known = [score for score in best if score is not None]
    return fsum(known) / len(known) if known and len(known) == len(best) else None
