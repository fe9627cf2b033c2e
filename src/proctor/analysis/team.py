"""Is a team worth it? A pod against the best of n single agents for the same money.

The best of n is an estimate, not a run: it takes somebody who can tell a right answer from a wrong one, which is more
than most users have, so it flatters the single agent. How it is estimated is said with it:

- With at least n answers to each task it is pass@n, unbiased.
- With k < n answers it lies between two bounds. More answers never hurt, so pass@n is at least pass@k. And since
  x^(n/k) is convex, the chance that all n fail, the mean of (q^k)^(n/k) over tasks, is at least (mean of q^k)^(n/k)
  by Jensen's inequality, so pass@n is at most 1 - (1 - pass@k)^(n/k). With one answer to each task nothing better
  can be said; `--attempts` narrows it.
"""

from collections.abc import Iterable, Sequence

from proctor.analysis.intervals import Estimate
from proctor.analysis.observation import Observation
from proctor.analysis.paired import counted_by_task
from proctor.analysis.pass_at_k import estimate_pass_at_k
from proctor.core.record import Record
from proctor.core.text import money


class BestOfN(Record):
    """The chance that the best of n answers is right, or the bounds of it.

    Attributes:
        n: how many answers the money buys; not always a whole number.
        samples: how many answers to each task there were to estimate it from.
        low: the estimate, or its lower bound; `high`: the same, or its upper bound. Each with its interval.
    """

    n: float
    trials: int
    low: Estimate
    high: Estimate
    exact: bool

    @property
    def sentence(self) -> str:
        """How it was estimated."""
        how = "estimated from" if self.exact else "bounds from"
        number = "one answer" if self.trials == 1 else f"{self.trials} answers"
        return f"{how} {number} to each task, a perfect judge choosing among {self.n:.1f}"


class TeamComparison(Record):
    """A team against single agents, on common tasks, for the same money."""

    team: str
    single: str
    tasks: int
    team_rate: Estimate
    team_cost: float
    single_cost: float
    best_of: BestOfN

    @property
    def costs_no_more(self) -> bool:
        """The team costs no more than one answer of the single agent: then the plain comparison is all there is."""
        return self.team_cost <= self.single_cost

    @property
    def conclusion(self) -> int:
        """1: the team is worth it; -1: it is not; 0: these data cannot say, or there is nothing to weigh."""
        if self.costs_no_more:
            return 0
        team, best = self.team_rate, self.best_of
        if team.low is not None and best.high.high is not None and team.low > best.high.high:
            return 1
        return -1 if team.high is not None and best.low.low is not None and team.high < best.low.low else 0

    @property
    def sentence(self) -> str:
        """What can be said, and no more."""
        best = self.best_of
        if self.costs_no_more:
            costs = f"{money(self.team_cost)} and {money(self.single_cost)} a task"
            return (
                f"{self.team} costs no more than one answer of {self.single} ({costs}): the money buys no second try."
            )
        rates = f"{best.low.value:.0%}" if best.exact else f"{best.low.value:.0%} to {best.high.value:.0%}"
        numbers = (
            f"{self.team} resolves {self.team_rate.value:.0%} at {money(self.team_cost)} a task; "
            f"the same money buys {best.n:.1f} answers of {self.single}, of which the best resolves {rates} "
            f"({best.sentence})"
        )
        says = {
            1: "The team is worth it",
            -1: "The team is not worth it",
            0: "These data cannot say if the team is worth it",
        }
        return f"{says[self.conclusion]}: {numbers}."


def best_of_n(tasks: Sequence[Sequence[bool]], n: float) -> BestOfN | None:
    """The best of n answers, from the answers that there are; None without any.

    Between whole numbers it is a mixture: the money buys the smaller number, and at times one more.
    """
    if n < 1:
        raise ValueError(f"the best of {n} answers")
    samples = min((len(answers) for answers in tasks), default=0)
    if samples == 0:
        return None
    if n <= samples:
        whole, part = int(n), n - int(n)
        here, more = estimate_pass_at_k(tasks, whole), estimate_pass_at_k(tasks, whole + 1) if part else None
        if here is None:
            return None
        mixed = here.pass_at_k if more is None else _mixture(here.pass_at_k, more.pass_at_k, part)
        return BestOfN(n=n, trials=samples, low=mixed, high=mixed, exact=True)
    known = estimate_pass_at_k(tasks, samples)
    if known is None:
        return None

    def jensen(rate: float | None) -> float | None:
        return None if rate is None else 1 - (1 - rate) ** (n / samples)

    at_most = 1 - (1 - known.pass_at_k.value) ** (n / samples)
    high = Estimate(value=at_most, low=jensen(known.pass_at_k.low), high=jensen(known.pass_at_k.high))
    return BestOfN(n=n, trials=samples, low=known.pass_at_k, high=high, exact=False)


def compare_team(
    team: tuple[str, Iterable[Observation]], single: tuple[str, Iterable[Observation]]
) -> TeamComparison | None:
    """Hold a team's run against a single agent's; None without common tasks, or where a cost is not known."""
    ours, theirs = counted_by_task(team[1]), counted_by_task(single[1])
    common = sorted(ours.keys() & theirs.keys())
    spent, price = _mean_cost(ours[task] for task in common), _mean_cost(theirs[task] for task in common)
    if spent is None or not price:
        return None
    one = estimate_pass_at_k([[answer.resolved for answer in ours[task]] for task in common], 1)
    best = best_of_n([[answer.resolved for answer in theirs[task]] for task in common], max(1.0, spent / price))
    if one is None or best is None:
        return None
    return TeamComparison(
        team=team[0],
        single=single[0],
        tasks=len(common),
        team_rate=one.pass_at_k,
        team_cost=spent,
        single_cost=price,
        best_of=best,
    )


def _mixture(less: Estimate, more: Estimate, part: float) -> Estimate:
    def mix(a: float | None, b: float | None) -> float | None:
        return None if a is None or b is None else a + (b - a) * part

    return Estimate(
        value=less.value + (more.value - less.value) * part, low=mix(less.low, more.low), high=mix(less.high, more.high)
    )


def _mean_cost(tasks: Iterable[Sequence[Observation]]) -> float | None:
    means = []
    for answers in tasks:
        costs = [answer.cost_usd for answer in answers]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        means.append(sum(known) / len(known))
    return sum(means) / len(means) if means else None
