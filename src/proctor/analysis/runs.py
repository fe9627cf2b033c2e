"""One run in numbers."""

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from proctor.analysis.best_of import mean_best_of_k
from proctor.analysis.distribution import Distribution, distribution_of
from proctor.analysis.failures import failure_reason, finding_codes, sorted_by_count
from proctor.analysis.intervals import Estimate, clustered_mean, clustered_rate, log_scale_mean, ratio_of_sums
from proctor.analysis.observation import Observation, ObservedVerdict, to_observation
from proctor.analysis.pass_at_k import PassAtK, estimate_pass_at_k
from proctor.analysis.roles import RoleStats, add_roles
from proctor.core.causes import Cause, Status
from proctor.core.record import Record
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig

_MAX_K: Final = 8


class HealthyRate(Record):
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
    healthy: HealthyRate | None
    errors: int
    skipped: int
    missing: int
    findings: int
    flaky: int
    retries: int
    avg_cost_usd: float | None
    avg_seconds: float | None
    cost: Estimate | None
    seconds: Estimate | None
    cost_per_resolved_usd: Estimate | None
    seconds_per_resolved: Estimate | None
    tokens_per_resolved: Estimate | None
    total_usd: float | None
    cost_distribution: Distribution | None
    time_distribution: Distribution | None
    tokens: int
    agents: int
    turns: float | None
    steps: float | None
    active_share: float | None
    compactions: float | None
    context_resets: float | None
    failure_reasons: dict[str, int]
    error_causes: dict[str, int]
    finding_codes: dict[str, int]
    pass_at_k: tuple[PassAtK, ...]
    roles: tuple[RoleStats, ...]
    scores: dict[str, float] = msgspec.field(default_factory=dict)
    best_of: dict[str, tuple[float, ...]] = msgspec.field(default_factory=dict)


def run_row(
    config: RunConfig, results: Iterable[Observation | TaskResult], *, healthy: Collection[str] | None = None
) -> RunRow:
    """Put a run into numbers, reading its results once and keeping none of them.

    `healthy` are the tasks that are known to be sound, where anybody has tried.
    """
    tally = _RunRowBuilder()
    for result in results:
        tally.add(result if isinstance(result, Observation) else to_observation(result))
    return tally.row(config, healthy)


class _TaskColumn:
    """A number of each answer, beside the place of its task: sixteen bytes, where objects would take ten times that."""

    __slots__ = ("_task_indices", "_values")

    def __init__(self) -> None:
        self._task_indices, self._values = array("L"), array("d")

    def add(self, task_index: int, value: float) -> None:
        self._task_indices.append(task_index)
        self._values.append(value)

    def by_task(self, tasks: int) -> list[list[float]]:
        """The numbers of each task's answers; none, of those that have none."""
        found: list[list[float]] = [[] for _ in range(tasks)]
        for place, value in zip(self._task_indices, self._values, strict=True):
            found[place].append(value)
        return found


class _RunRowBuilder:
    """Numbers that grow with every answer."""

    def __init__(self) -> None:
        self.task_indices: dict[str, int] = {}  # of the tasks that have counted answers, in the order of their coming
        self.resolved, self.costs, self.seconds, self.tokens = (
            _TaskColumn(),
            _TaskColumn(),
            _TaskColumn(),
            _TaskColumn(),
        )
        self.scores, self.best_of_scores = _TaskColumn(), dict[str, _TaskColumn]()
        self.recorded = self.official = self.findings = self.retries = self.all_tokens = self.agents = 0
        self.statuses: Counter[Status] = Counter()
        self.flaky: set[str] = set()
        self.total_usd: float | None = 0.0
        self.cost_known = True  # of every answer that counts, the cost is known
        # Nobody answers in no time: results of other tools that do not say how long it took have 0 in all of them.
        self.time_known = False
        self.sums: Counter[str] = Counter()
        self.extra_scores: dict[str, array[float]] = {}
        self.active_shares = array("d")
        self.failure_reasons: Counter[str] = Counter()
        self.error_causes: Counter[str] = Counter()
        self.finding_codes: Counter[str] = Counter()
        self.roles: dict[str, RoleStats] = {}

    def add(self, one: Observation) -> None:
        cost = one.cost_usd
        self.recorded += 1
        self.statuses[one.status] += 1
        self.retries += max(0, len(one.attempts) - 1)
        self.all_tokens += one.tokens
        self.agents = max(self.agents, one.metrics.agents)
        self.total_usd = None if self.total_usd is None or cost is None else self.total_usd + cost
        if one.cause is Cause.FLAKY or (one.verdict and one.verdict.flaky):
            self.flaky.add(one.task_id)
        if one.status is Status.ERROR:
            self.error_causes[one.cause.value] += 1
        if one.counted:
            self._add_counted(one, cost)

    def _add_counted(self, one: Observation, cost: float | None) -> None:
        place = self.task_indices.setdefault(one.task_id, len(self.task_indices))
        self.resolved.add(place, one.resolved)
        self.seconds.add(place, one.agent_seconds)
        self.time_known |= one.agent_seconds > 0
        self.tokens.add(place, one.tokens)
        if cost is None:
            self.cost_known = False
        else:
            self.costs.add(place, cost)
        if one.verdict is not None and one.verdict.score is not None:
            self.scores.add(place, one.verdict.score)
            for name, value in _best_of_scores(one.verdict).items():
                self.best_of_scores.setdefault(name, _TaskColumn()).add(place, value)
        for name, value in (one.verdict.scores if one.verdict else {}).items():
            self.extra_scores.setdefault(name, array("d")).append(value)
        codes = finding_codes(one)
        self.official += _officially_resolved(one)
        self.findings += bool(codes)
        self.finding_codes.update(codes)
        mode = failure_reason(one)
        if mode is not None:
            self.failure_reasons[mode] += 1
        for name in ("turns", "steps", "compactions", "context_resets"):
            self.sums[name] += getattr(one.metrics, name)
        if one.metrics.active_share is not None:
            self.active_shares.append(one.metrics.active_share)
        add_roles(self.roles, one)

    def row(self, config: RunConfig, healthy: Collection[str] | None) -> RunRow:
        number = len(self.task_indices)
        marks = self.resolved.by_task(number)
        right = [sum(answers) for answers in marks]
        resolved, counted = int(sum(right)), sum(map(len, marks))
        errors = self.statuses[Status.ERROR]
        rate = clustered_rate(marks)
        cost, per_resolved, costs = _amount_stats(self.costs, right) if self.cost_known else (None, None, None)
        seconds, seconds_per_resolved, times = (
            _amount_stats(self.seconds, right) if self.time_known else (None, None, None)
        )
        return RunRow(
            run_id=config.run_id,
            mode=config.mode.value,
            agent=config.agent,
            model=config.model,
            preset=config.preset,
            pod_template=config.pod_template,
            resolved=resolved,
            counted=counted,
            tasks=number,
            rate=rate.value if rate else None,
            low=rate.low if rate else None,
            high=rate.high if rate else None,
            rate_with_errors=resolved / (counted + errors) if counted or errors else None,
            official=self.official,
            score=_score(self.scores.by_task(number)),
            healthy=None if healthy is None else _healthy_rate(zip(self.task_indices, marks, strict=True), healthy),
            errors=errors,
            skipped=self.statuses[Status.SKIPPED],
            missing=len(config.tasks) * config.trials - self.recorded,
            findings=self.findings,
            flaky=len(self.flaky),
            retries=self.retries,
            avg_cost_usd=cost.value if cost else None,
            avg_seconds=seconds.value if seconds else None,
            cost=cost,
            seconds=seconds,
            cost_per_resolved_usd=per_resolved,
            seconds_per_resolved=seconds_per_resolved,
            tokens_per_resolved=_per_resolved(self.tokens.by_task(number), right),
            total_usd=self.total_usd,
            cost_distribution=costs,
            time_distribution=times,
            tokens=self.all_tokens,
            agents=self.agents,
            turns=self._mean("turns", counted),
            steps=self._mean("steps", counted),
            active_share=sum(self.active_shares) / len(self.active_shares) if self.active_shares else None,
            compactions=self._mean("compactions", counted),
            context_resets=self._mean("context_resets", counted),
            failure_reasons=sorted_by_count(self.failure_reasons),
            error_causes=sorted_by_count(self.error_causes),
            finding_codes=sorted_by_count(self.finding_codes),
            pass_at_k=_pass_at_k(marks),
            roles=tuple(self.roles.values()),
            scores={name: math.fsum(values) / len(values) for name, values in sorted(self.extra_scores.items())},
            best_of={
                name: best
                for name in sorted(self.best_of_scores)
                if (best := _best_of(self.best_of_scores[name].by_task(number)))
            },
        )

    def _mean(self, name: str, counted: int) -> float | None:
        return self.sums[name] / counted if counted else None


def _best_of_scores(verdict: ObservedVerdict) -> dict[str, float]:
    """How far an answer came, beyond 1 where the benchmark's scale goes on; and how far within each time."""
    if verdict.score is None:
        return {}
    within = {name: value for name, value in verdict.scores.items() if name.startswith("within_")}
    return {"score": verdict.scores.get("normalised", verdict.score), **within}


def _best_of(scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """For every k that all tasks have answers for, if each has several.

    A budget of time that is shared by k independent answers gives each a k-th of it: the best of 4 within 2 hours is
    what 8 hours buy when they are spent on 4 answers.
    """
    most = min(map(len, scores))
    best = [mean_best_of_k(scores, k) for k in range(1, min(most, _MAX_K) + 1)]
    return tuple(one for one in best if one is not None) if most > 1 else ()


def _amount_stats(
    column: _TaskColumn, resolved: Sequence[float]
) -> tuple[Estimate | None, Estimate | None, Distribution | None]:
    """Of what answers took: the mean, how much it is by resolved task, and how it is distributed."""
    amounts = column.by_task(len(resolved))
    return (
        log_scale_mean(amounts),
        _per_resolved(amounts, resolved),
        distribution_of(one for some in amounts for one in some),
    )


def _per_resolved(amounts: Sequence[Sequence[float]], resolved: Sequence[float]) -> Estimate | None:
    return ratio_of_sums([(sum(some), count) for some, count in zip(amounts, resolved, strict=True)])


def _score(scores: Sequence[Sequence[float]]) -> Estimate | None:
    """Scores are shares of what could be had; but where there is no most that can be had, some are beyond 1."""
    shares = all(0 <= score <= 1 for some in scores for score in some)
    return clustered_rate(scores) if shares else clustered_mean(scores)


def _healthy_rate(tasks: Iterable[tuple[str, Sequence[float]]], healthy: Collection[str]) -> HealthyRate:
    sound = [marks for name, marks in tasks if name in healthy]
    return HealthyRate(
        tasks=len(sound),
        resolved=int(sum(map(sum, sound))),
        counted=sum(map(len, sound)),
        rate=clustered_rate(sound),
    )


def _officially_resolved(one: Observation) -> bool:
    """Without an opinion of their own, ours is theirs."""
    official = one.verdict.official if one.verdict else None
    return one.resolved if official is None else official is Status.RESOLVED


def _pass_at_k(marks: Sequence[Sequence[float]]) -> tuple[PassAtK, ...]:
    """For every k that some task has graded answers for, if any has several: one error hides no more than its task."""
    most = max((len(answers) for answers in marks), default=0)
    if most < 2:  # noqa: PLR2004 - of one answer, k is 1 and says what the rate says
        return ()
    told = [[mark > 0 for mark in answers] for answers in marks]
    found = (estimate_pass_at_k(told, k) for k in range(1, min(most, _MAX_K) + 1))
    return tuple(one for one in found if one is not None)
