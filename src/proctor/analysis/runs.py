"""One run in numbers."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final

import msgspec

from proctor.analysis.best_of import mean_best_of_k
from proctor.analysis.failures import failure_mode, finding_codes, most_first
from proctor.analysis.intervals import Estimate, clustered_mean, clustered_rate, positive_mean, ratio_of_sums
from proctor.analysis.observation import Observation, SeenVerdict, observe
from proctor.analysis.passes import Passes, passes
from proctor.analysis.spread import Spread, spread
from proctor.analysis.team import RoleFigures, add_roles
from proctor.core.causes import Cause, Status
from proctor.core.record import Record
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig

_MOST_PASSES: Final = 8


class Healthy(Record):
    """The rate over the tasks that proved sound on this machine; `tasks` of them have answers that count."""

    tasks: int
    resolved: int
    counted: int
    rate: Estimate | None


class RunRow(Record):
    """One run in numbers. Rates count graded answers; what was not the agent's fault is an error, counted apart.

    Attributes:
        counted: answers in the denominator of the rate; averages are over these too.
        tasks: tasks that have such answers.
        low: the lower end of the 95 % interval of the rate (Wilson, clustered by task); `high`: the upper.
        rate_with_errors: the rate if every error were the agent's failure: the truth lies between the two.
        official: answers that the benchmark's own grader calls resolved.
        score: the mean score, of benchmarks that grade by degree.
        scores: the means of the benchmark's further numbers, each over the answers that have it.
        best_of: the mean over tasks of the expected best score of 1, 2, … answers, where all tasks have several: of
            the score itself, and of each score within a time.
        healthy: over the tasks that are known to be sound; None when nobody has tried.
        findings: graded answers in which the audit found something; `finding_codes` says what.
        flaky: tasks of which a test flipped between reruns.
        missing: answers that the run was asked for and has not recorded.
        tries: attempts beyond the first, which infrastructure errors made necessary.
        avg_cost_usd: None when any price is unknown, and so is every other cost.
        avg_seconds: None when no answer says how long it took, and so is every other time.
        cost_per_resolved_usd: all that the counted answers cost, by those resolved.
        total_usd: what everything cost, errors included.
    """

    run_id: str
    mode: str
    agent: str
    model: str | None
    preset: str
    pod_template: str | None
    resolved: int
    counted: int
    tasks: int
    rate: float | None
    low: float | None
    high: float | None
    rate_with_errors: float | None
    official: int
    score: Estimate | None
    healthy: Healthy | None
    errors: int
    skipped: int
    missing: int
    findings: int
    flaky: int
    tries: int
    avg_cost_usd: float | None
    avg_seconds: float | None
    cost: Estimate | None
    seconds: Estimate | None
    cost_per_resolved_usd: Estimate | None
    seconds_per_resolved: Estimate | None
    tokens_per_resolved: Estimate | None
    total_usd: float | None
    costs: Spread | None
    times: Spread | None
    tokens: int
    agents: int
    turns: float | None
    steps: float | None
    utilisation: float | None
    compactions: float | None
    context_resets: float | None
    failure_modes: dict[str, int]
    error_causes: dict[str, int]
    finding_codes: dict[str, int]
    passes: tuple[Passes, ...]
    roles: tuple[RoleFigures, ...]
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    best_of: dict[str, tuple[float, ...]] = msgspec.field(default_factory=dict)


def run_row(
    config: RunConfig, results: Iterable[Observation | TaskResult], *, healthy: Collection[str] | None = None
) -> RunRow:
    """Put a run into numbers, reading its results once and keeping none of them.

    `healthy` are the tasks that are known to be sound, where anybody has tried.
    """
    tally = _Tally()
    for result in results:
        tally.add(result if isinstance(result, Observation) else observe(result))
    return tally.row(config, healthy)


class _Task:
    """The counted answers to one task."""

    __slots__ = ("costs", "progress", "resolved", "scores", "seconds", "tokens")

    def __init__(self) -> None:
        self.resolved: list[bool] = []
        self.costs: list[float] = []
        self.seconds: list[float] = []
        self.tokens: list[float] = []
        self.scores: list[float] = []
        self.progress: dict[str, list[float]] = {}


class _Tally:
    """Numbers that grow with every answer."""

    def __init__(self) -> None:
        self.tasks: dict[str, _Task] = {}
        self.seen = self.official = self.findings = self.tries = self.tokens = self.agents = 0
        self.statuses: Counter[Status] = Counter()
        self.flaky: set[str] = set()
        self.total_usd: float | None = 0.0
        self.priced = True  # of every answer that counts, the cost is known
        self.sums: Counter[str] = Counter()
        self.further: dict[str, list[float]] = {}
        self.utilised: list[float] = []
        self.modes: Counter[str] = Counter()
        self.causes: Counter[str] = Counter()
        self.codes: Counter[str] = Counter()
        self.roles: dict[str, RoleFigures] = {}

    def add(self, one: Observation) -> None:
        cost = one.cost_usd
        self.seen += 1
        self.statuses[one.status] += 1
        self.tries += max(0, len(one.attempts) - 1)
        self.tokens += one.tokens
        self.agents = max(self.agents, one.metrics.agents)
        self.total_usd = None if self.total_usd is None or cost is None else self.total_usd + cost
        if one.cause is Cause.FLAKY or (one.verdict and one.verdict.flaky):
            self.flaky.add(one.task_id)
        if one.status is Status.ERROR:
            self.causes[one.cause.value] += 1
        if one.counted:
            self._count(one, cost)

    def _count(self, one: Observation, cost: float | None) -> None:
        task = self.tasks.setdefault(one.task_id, _Task())
        task.resolved.append(one.resolved)
        task.seconds.append(one.answer_seconds)
        task.tokens.append(float(one.tokens))
        if cost is None:
            self.priced = False
        else:
            task.costs.append(cost)
        if one.verdict is not None and one.verdict.score is not None:
            task.scores.append(one.verdict.score)
            for name, value in _progress(one.verdict).items():
                task.progress.setdefault(name, []).append(value)
        for name, value in (one.verdict.scores if one.verdict else {}).items():
            self.further.setdefault(name, []).append(value)
        codes = finding_codes(one)
        self.official += _official(one)
        self.findings += bool(codes)
        self.codes.update(codes)
        mode = failure_mode(one)
        if mode is not None:
            self.modes[mode] += 1
        for name in ("turns", "steps", "compactions", "context_resets"):
            self.sums[name] += getattr(one.metrics, name)
        if one.metrics.utilisation is not None:
            self.utilised.append(one.metrics.utilisation)
        add_roles(self.roles, one)

    def row(self, config: RunConfig, healthy: Collection[str] | None) -> RunRow:
        tasks = list(self.tasks.values())
        right = [sum(task.resolved) for task in tasks]
        resolved, counted = sum(right), sum(len(task.resolved) for task in tasks)
        errors = self.statuses[Status.ERROR]
        rate = _rate(tasks)
        # Nobody answers in no time: results of other tools that do not say how long it took have 0 in all of them.
        times = [task.seconds for task in tasks] if any(any(task.seconds) for task in tasks) else []
        tokens = [task.tokens for task in tasks]
        costs = [task.costs for task in tasks] if self.priced else []
        cost, seconds = positive_mean(costs), positive_mean(times)
        return RunRow(
            run_id=config.run_id,
            mode=config.mode.value,
            agent=config.agent,
            model=config.model,
            preset=config.preset,
            pod_template=config.pod_template,
            resolved=resolved,
            counted=counted,
            tasks=len(tasks),
            rate=rate.value if rate else None,
            low=rate.low if rate else None,
            high=rate.high if rate else None,
            rate_with_errors=resolved / (counted + errors) if counted or errors else None,
            official=self.official,
            score=_score([task.scores for task in tasks]),
            healthy=None if healthy is None else _healthy(self.tasks, healthy),
            errors=errors,
            skipped=self.statuses[Status.SKIPPED],
            missing=len(config.tasks) * config.samples - self.seen,
            findings=self.findings,
            flaky=len(self.flaky),
            tries=self.tries,
            avg_cost_usd=cost.value if cost else None,
            avg_seconds=seconds.value if seconds else None,
            cost=cost,
            seconds=seconds,
            cost_per_resolved_usd=ratio_of_sums(_pairs(costs, right)) if costs else None,
            seconds_per_resolved=ratio_of_sums(_pairs(times, right)) if times else None,
            tokens_per_resolved=ratio_of_sums(_pairs(tokens, right)),
            total_usd=self.total_usd,
            costs=spread(amount for some in costs for amount in some),
            times=spread(amount for some in times for amount in some),
            tokens=self.tokens,
            agents=self.agents,
            turns=self._mean("turns", counted),
            steps=self._mean("steps", counted),
            utilisation=sum(self.utilised) / len(self.utilised) if self.utilised else None,
            compactions=self._mean("compactions", counted),
            context_resets=self._mean("context_resets", counted),
            failure_modes=most_first(self.modes),
            error_causes=most_first(self.causes),
            finding_codes=most_first(self.codes),
            passes=_passes([task.resolved for task in tasks]),
            roles=tuple(self.roles.values()),
            scores={name: fmean(values) for name, values in sorted(self.further.items())},
            best_of=_best_of(self.tasks),
        )

    def _mean(self, name: str, counted: int) -> float | None:
        return self.sums[name] / counted if counted else None


def _progress(verdict: SeenVerdict) -> dict[str, float]:
    """How far an answer came, beyond 1 where the benchmark's scale goes on; and how far within each time."""
    if verdict.score is None:
        return {}
    within = {name: value for name, value in verdict.scores.items() if name.startswith("within_")}
    return {"score": verdict.scores.get("normalised", verdict.score), **within}


def _best_of(tasks: Mapping[str, _Task]) -> dict[str, tuple[float, ...]]:
    """For every k that all tasks have answers for, if each has several.

    A budget of time that is shared by k independent answers gives each a k-th of it: the best of 4 within 2 hours is
    what 8 hours buy when they are spent on 4 answers.
    """
    found = {}
    for name in sorted({name for task in tasks.values() for name in task.progress}):
        known = {task_id: task.progress.get(name, []) for task_id, task in tasks.items()}
        most = min(len(scores) for scores in known.values())
        best = [mean_best_of_k(known, k) for k in range(1, min(most, _MOST_PASSES) + 1)]
        if most > 1:
            found[name] = tuple(one for one in best if one is not None)
    return found


def _rate(tasks: Iterable[_Task]) -> Estimate | None:
    return clustered_rate([[float(mark) for mark in task.resolved] for task in tasks])


def _score(scores: Sequence[Sequence[float]]) -> Estimate | None:
    """Scores are shares of what could be had; but where there is no most that can be had, some are beyond 1."""
    shares = all(0 <= score <= 1 for some in scores for score in some)
    return clustered_rate(scores) if shares else clustered_mean(scores)


def _healthy(tasks: Mapping[str, _Task], healthy: Collection[str]) -> Healthy:
    sound = [task for name, task in tasks.items() if name in healthy]
    return Healthy(
        tasks=len(sound),
        resolved=sum(sum(task.resolved) for task in sound),
        counted=sum(len(task.resolved) for task in sound),
        rate=_rate(sound),
    )


def _official(one: Observation) -> bool:
    """Without an opinion of their own, ours is theirs."""
    official = one.verdict.official if one.verdict else None
    return one.resolved if official is None else official is Status.RESOLVED


def _passes(marks: Sequence[Sequence[bool]]) -> tuple[Passes, ...]:
    """For every k that some task has graded answers for, if any has several: one error hides no more than its task."""
    most = max((len(answers) for answers in marks), default=0)
    if most < 2:  # noqa: PLR2004 - of one answer, k is 1 and says what the rate says
        return ()
    found = (passes(marks, k) for k in range(1, min(most, _MOST_PASSES) + 1))
    return tuple(one for one in found if one is not None)


def _pairs(amounts: Sequence[Sequence[float]], counts: Sequence[int]) -> list[tuple[float, float]]:
    return [(sum(some), float(count)) for some, count in zip(amounts, counts, strict=True)]
