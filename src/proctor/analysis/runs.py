"""One run in numbers."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final

import msgspec

from proctor.analysis.best_of import mean_best_of_k
from proctor.analysis.failures import error_causes, failure_modes, finding_codes
from proctor.analysis.intervals import Estimate, clustered_rate, positive_mean, ratio_of_sums
from proctor.analysis.observation import Observation, observe
from proctor.analysis.passes import Passes, passes
from proctor.analysis.spread import Spread, spread
from proctor.analysis.team import RoleFigures, roles
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
    """Put a run into numbers. `healthy` are the tasks that are known to be sound, where anybody has tried."""
    seen = [result if isinstance(result, Observation) else observe(result) for result in results]
    counted = [one for one in seen if one.counted]
    tasks: dict[str, list[Observation]] = {}
    for one in counted:
        tasks.setdefault(one.task_id, []).append(one)
    rate = _rate(tasks.values())
    errors = sum(one.status is Status.ERROR for one in seen)
    resolved = sum(one.resolved for one in counted)
    costs = [[one.cost_usd for one in answers] for answers in tasks.values()]
    known = [[cost for cost in some if cost is not None] for some in costs]
    priced = all(len(some) == len(every) for some, every in zip(known, costs, strict=True))
    times = [[one.answer_seconds for one in answers] for answers in tasks.values()]
    tokens = [[float(one.tokens) for one in answers] for answers in tasks.values()]
    right = [sum(one.resolved for one in answers) for answers in tasks.values()]
    cost, seconds = positive_mean(known) if priced else None, positive_mean(times)
    utilised = [one.metrics.utilisation for one in counted if one.metrics.utilisation is not None]
    scores = [
        [one.verdict.score for one in some if one.verdict and one.verdict.score is not None] for some in tasks.values()
    ]
    spent = [one.cost_usd for one in seen]
    return RunRow(
        run_id=config.run_id,
        mode=config.mode.value,
        agent=config.agent,
        model=config.model,
        preset=config.preset,
        pod_template=config.pod_template,
        resolved=resolved,
        counted=len(counted),
        tasks=len(tasks),
        rate=rate.value if rate else None,
        low=rate.low if rate else None,
        high=rate.high if rate else None,
        rate_with_errors=resolved / (len(counted) + errors) if counted or errors else None,
        official=sum(_official(one) for one in counted),
        score=clustered_rate(scores),
        healthy=None if healthy is None else _healthy(tasks, healthy),
        errors=errors,
        skipped=sum(one.status is Status.SKIPPED for one in seen),
        missing=len(config.tasks) * config.samples - len(seen),
        findings=sum(bool(one.verdict and one.verdict.findings) for one in counted),
        flaky=len({one.task_id for one in seen if one.cause is Cause.FLAKY or (one.verdict and one.verdict.flaky)}),
        tries=sum(max(0, len(one.attempts) - 1) for one in seen),
        avg_cost_usd=cost.value if cost else None,
        avg_seconds=seconds.value if seconds else None,
        cost=cost,
        seconds=seconds,
        cost_per_resolved_usd=ratio_of_sums(_pairs(known, right)) if priced else None,
        seconds_per_resolved=ratio_of_sums(_pairs(times, right)),
        tokens_per_resolved=ratio_of_sums(_pairs(tokens, right)),
        total_usd=None if None in spent else sum(amount for amount in spent if amount is not None),
        costs=spread(amount for some in known for amount in some) if priced else None,
        times=spread(amount for some in times for amount in some),
        tokens=sum(one.tokens for one in seen),
        agents=max((one.metrics.agents for one in seen), default=0),
        turns=_mean([one.metrics.turns for one in counted]),
        steps=_mean([one.metrics.steps for one in counted]),
        utilisation=_mean(utilised),
        compactions=_mean([one.metrics.compactions for one in counted]),
        context_resets=_mean([one.metrics.context_resets for one in counted]),
        failure_modes=failure_modes(counted),
        error_causes=error_causes(seen),
        finding_codes=finding_codes(counted),
        passes=_passes(tasks.values()),
        roles=roles(counted),
        scores=_further(counted),
        best_of=_best_of(tasks),
    )


def _rate(tasks: Iterable[Sequence[Observation]]) -> Estimate | None:
    return clustered_rate([[float(one.resolved) for one in answers] for answers in tasks])


def _healthy(tasks: dict[str, list[Observation]], healthy: Collection[str]) -> Healthy:
    sound = [answers for task, answers in tasks.items() if task in healthy]
    return Healthy(
        tasks=len(sound),
        resolved=sum(one.resolved for answers in sound for one in answers),
        counted=sum(len(answers) for answers in sound),
        rate=_rate(sound),
    )


def _official(one: Observation) -> bool:
    """Without an opinion of their own, ours is theirs."""
    official = one.verdict.official if one.verdict else None
    return one.resolved if official is None else official is Status.RESOLVED


def _passes(tasks: Iterable[Sequence[Observation]]) -> tuple[Passes, ...]:
    """For every k that all tasks have answers for, if each has several."""
    marks = [[one.resolved for one in answers] for answers in tasks]
    most = min((len(answers) for answers in marks), default=0)
    if most < 2:  # noqa: PLR2004 - of one answer, k is 1 and says what the rate says
        return ()
    found = (passes(marks, k) for k in range(1, min(most, _MOST_PASSES) + 1))
    return tuple(one for one in found if one is not None)


def _further(counted: Iterable[Observation]) -> dict[str, float]:
    numbers: dict[str, list[float]] = {}
    for one in counted:
        for name, value in (one.verdict.scores if one.verdict else {}).items():
            numbers.setdefault(name, []).append(value)
    return {name: fmean(values) for name, values in sorted(numbers.items())}


def _best_of(tasks: Mapping[str, Sequence[Observation]]) -> dict[str, tuple[float, ...]]:
    """For every k that all tasks have answers for, if each has several.

    A budget of time that is shared by k independent answers gives each a k-th of it: the best of 4 within 2 hours is
    what 8 hours buy when they are spent on 4 answers.
    """
    names = {name for answers in tasks.values() for one in answers for name in _progress(one)}
    found = {}
    for name in sorted(names):
        reached = {task: [_progress(one).get(name) for one in answers] for task, answers in tasks.items()}
        known = {task: [score for score in scores if score is not None] for task, scores in reached.items()}
        most = min(len(scores) for scores in known.values())
        best = [mean_best_of_k(known, k) for k in range(1, min(most, _MOST_PASSES) + 1)]
        if most > 1:
            found[name] = tuple(one for one in best if one is not None)
    return found


def _progress(one: Observation) -> dict[str, float]:
    """How far an answer came, beyond 1 where the benchmark's scale goes on; and how far within each time."""
    if one.verdict is None or one.verdict.score is None:
        return {}
    within = {name: value for name, value in one.verdict.scores.items() if name.startswith("within_")}
    return {"score": one.verdict.scores.get("normalised", one.verdict.score), **within}


def _pairs(amounts: Sequence[Sequence[float]], counts: Sequence[int]) -> list[tuple[float, float]]:
    return [(sum(some), float(count)) for some, count in zip(amounts, counts, strict=True)]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
