"""Several answers to each task: how often at least one of k is right, and how often all of k are."""

import math
from collections.abc import Iterable, Sequence

from proctor.analysis.intervals import Estimate, clustered_rate
from proctor.core.record import Record


class PassAtK(Record):
    """Over the tasks that have at least k answers.

    Attributes:
        any_of: pass@k: at least one of k answers is right, as with somebody who can tell which.
        all_of: pass^k: all of k answers are right, as for a user who asks once each time.
    """

    k: int
    tasks: int
    pass_at_k: Estimate
    pass_hat_k: Estimate


def pass_at_k(trials: int, resolved: int, k: int) -> float:
    """The chance that of k answers, drawn from these, at least one is right: 1 - C(n - c, k) / C(n, k).

    Unbiased for 1 - (1 - p)^k, which 1 - (1 - c/n)^k is not
    (M. Chen et al., "Evaluating Large Language Models Trained on Code", 2021).
    """
    _check(trials, resolved, k)
    return 1 - math.comb(trials - resolved, k) / math.comb(trials, k)


def pass_hat_k(trials: int, resolved: int, k: int) -> float:
    """The chance that k answers, drawn from these, are all right: C(c, k) / C(n, k), unbiased for p^k."""
    _check(trials, resolved, k)
    return math.comb(resolved, k) / math.comb(trials, k)


def estimate_pass_at_k(tasks: Iterable[Sequence[bool]], k: int) -> PassAtK | None:
    """Both, as means over tasks; None when no task has k answers."""
    counts = [(len(answers), sum(answers)) for answers in tasks if len(answers) >= k]
    trials = sum(number for number, _ in counts)
    any_of = clustered_rate([[pass_at_k(number, right, k)] for number, right in counts], trials=trials)
    all_of = clustered_rate([[pass_hat_k(number, right, k)] for number, right in counts], trials=trials)
    if any_of is None or all_of is None:
        return None
    return PassAtK(k=k, tasks=len(counts), pass_at_k=any_of, pass_hat_k=all_of)


def _check(trials: int, resolved: int, k: int) -> None:
    if not (0 <= resolved <= trials and 1 <= k <= trials):
        raise ValueError(f"{k} of {trials} answers, {resolved} of them right")
