"""Is a team worth its cost? A pod compared with the best of n trials of a single agent at the same cost.

The best of n is an estimate, not a run. It assumes oracle selection, which picks a resolved trial if there is one, so
it favours the single agent. It is estimated in one of two ways:

- With at least n trials of each task it is pass@n, unbiased.
- With k < n trials it lies between two bounds. More trials never hurt, so pass@n is at least pass@k. And since
  x^(n/k) is convex, the chance that all n fail, the mean of (q^k)^(n/k) over tasks, is at least (mean of q^k)^(n/k)
  by Jensen's inequality, so pass@n is at most 1 - (1 - pass@k)^(n/k). More trials (`--trials`) narrow the bounds.
"""

from collections.abc import Iterable, Sequence

from proctor.analysis.intervals import Estimate
from proctor.analysis.observation import Observation
from proctor.analysis.paired import counted_by_task
from proctor.analysis.pass_at_k import estimate_pass_at_k
from proctor.core.formatting import money, percent, percent_interval
from proctor.core.record import Record


class BestOfN(Record):
    """The probability that the best of n trials is resolved, or the bounds of it.

    Attributes:
        n: how many trials the team's cost buys; not always a whole number.
        trials: how many trials of each task it is estimated from.
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
        number = "one trial" if self.trials == 1 else f"{self.trials} trials"
        return f"{how} {number} of each task, selected by an oracle"


class TeamComparison(Record):
    """A team compared with single agents, on common tasks, at the same cost."""

    team: str
    single: str
    tasks: int
    team_rate: Estimate
    team_cost: float
    single_cost: float
    best_of: BestOfN

    @property
    def costs_no_more(self) -> bool:
        """The team costs no more than one trial of the single agent: then the plain comparison says it all."""
        return self.team_cost <= self.single_cost

    @property
    def conclusion(self) -> int:
        """1: the team is worth it; -1: it is not; 0: these data cannot say, or it costs no more."""
        if self.costs_no_more:
            return 0
        team, best = self.team_rate, self.best_of
        if team.low is not None and best.high.high is not None and team.low > best.high.high:
            return 1
        return -1 if team.high is not None and best.low.low is not None and team.high < best.low.low else 0

    @property
    def sentence(self) -> str:
        """What the data show."""
        best = self.best_of
        if self.costs_no_more:
            costs = f"{money(self.team_cost)} and {money(self.single_cost)} a task"
            return (
                f"{self.team} costs no more than one trial of {self.single} ({costs}): the money buys no second trial."
            )
        rates = percent(best.low.value) if best.exact else percent_interval(best.low.value, best.high.value)
        numbers = (
            f"{self.team} resolves {percent(self.team_rate.value)} at {money(self.team_cost)} a task; "
            f"the same money buys {best.n:.1f} trials of {self.single}, of which the best resolves {rates} "
            f"({best.sentence})"
        )
        conclusions = {
            1: "The team is worth it",
            -1: "The team is not worth it",
            0: "These data cannot say if the team is worth it",
        }
        return f"{conclusions[self.conclusion]}: {numbers}."


def best_of_n(tasks: Sequence[Sequence[bool]], n: float) -> BestOfN | None:
    """The best of n trials, estimated from the trials of each task; None without any.

    Between whole numbers it is a mixture: the money buys the smaller number, and at times one more.
    """
    if n < 1:
        raise ValueError(f"the best of {n} trials")
    known = min(map(len, tasks), default=0)
    if known == 0:
        return None
    if n <= known:
        whole, part = int(n), n - int(n)
        here, more = estimate_pass_at_k(tasks, whole), estimate_pass_at_k(tasks, whole + 1) if part else None
        if here is None:
            return None
        mixed = here.pass_at_k if more is None else _mixture(here.pass_at_k, more.pass_at_k, part)
        return BestOfN(n=n, trials=known, low=mixed, high=mixed, exact=True)
    estimate = estimate_pass_at_k(tasks, known)
    if estimate is None:
        return None

    def jensen(rate: float | None) -> float | None:
        return None if rate is None else 1 - (1 - rate) ** (n / known)

    low = estimate.pass_at_k
    high = Estimate(value=1 - (1 - low.value) ** (n / known), low=jensen(low.low), high=jensen(low.high))
    return BestOfN(n=n, trials=known, low=low, high=high, exact=False)


def compare_team(
    team: tuple[str, Iterable[Observation]], single: tuple[str, Iterable[Observation]]
) -> TeamComparison | None:
    """Compare a team's run with a single agent's; None without common tasks, or where a cost is unknown."""
    team_trials, single_trials = counted_by_task(team[1]), counted_by_task(single[1])
    common = sorted(team_trials.keys() & single_trials.keys())
    team_cost = _mean_cost(team_trials[task] for task in common)
    single_cost = _mean_cost(single_trials[task] for task in common)
    if team_cost is None or not single_cost:
        return None
    one = estimate_pass_at_k([[trial.resolved for trial in team_trials[task]] for task in common], 1)
    best = best_of_n(
        [[trial.resolved for trial in single_trials[task]] for task in common], max(1.0, team_cost / single_cost)
    )
    if one is None or best is None:
        return None
    return TeamComparison(
        team=team[0],
        single=single[0],
        tasks=len(common),
        team_rate=one.pass_at_k,
        team_cost=team_cost,
        single_cost=single_cost,
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
    for trials in tasks:
        costs = [trial.cost_usd for trial in trials]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            return None
        means.append(sum(known) / len(known))
    return sum(means) / len(means) if means else None
