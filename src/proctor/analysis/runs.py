"""One run in numbers."""

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from proctor.analysis.comparability import settings
from proctor.analysis.distribution import Distribution, distribution_of
from proctor.analysis.failures import failure_reason, finding_codes, sorted_by_count
from proctor.analysis.intervals import Estimate, clustered_mean, clustered_rate, log_scale_mean, ratio_of_sums
from proctor.analysis.observation import Observation, ObservedVerdict, to_observation
from proctor.analysis.pass_at_k import PassAtK, estimate_pass_at_k, mean_best_of_k
from proctor.core.causes import Cause, Status
from proctor.core.machine import Machine
from proctor.core.record import Record
from proctor.core.result import TaskResult, estimated_cost
from proctor.core.run import RunConfig
from proctor.results import usage_cost
from proctor.results.run_names import run_title

_MAX_K: Final = 8


class HealthyRate(Record):
    """The rate over the tasks that `validate` found healthy on this machine; `tasks` of them have counted trials."""

    tasks: int
    resolved: int
    counted: int
    rate: Estimate | None


class RoleStats(Record):
    """What the agents of one role did, over all trials of a run; the cost is None when a price is unknown."""

    role: str
    members: int = 0
    cost_usd: float | None = 0.0
    active_seconds: float = 0.0
    idle_seconds: float = 0.0
    turns: int = 0
    messages: int = 0
    compactions: int = 0

    @property
    def idle_share(self) -> float | None:
        """The share of its time in which it waited."""
        whole = self.active_seconds + self.idle_seconds
        return self.idle_seconds / whole if whole else None


class RunRow(Record):
    """One run in numbers. Rates count graded trials; what was not the agent's fault is an error, counted separately.

    Attributes:
        counted: trials in the denominator of the rate; averages are over these too.
        tasks: tasks that have such trials.
        low: the lower end of the 95 % interval of the rate (Wilson, clustered by task); `high`: the upper.
        rate_with_errors: the rate if every error were the agent's failure: the truth lies between the two.
        official: trials that the benchmark's own grader calls resolved.
        score: the mean score, of benchmarks that grade by degree.
        scores: the means of the benchmark's further scores, each over the trials that have it.
        best_of: the mean over tasks of the expected best score of 1, 2, … trials, where all tasks have several: of
            the score itself, and of each score within a time.
        healthy: over the tasks that are known to be healthy; None where none was validated.
        findings: graded trials in which the audit found something; `finding_codes` counts them by code.
        controls: control pairs with altered tests that resolved trials were given at least; 0: none.
        uncontrolled: resolved trials with tests that have no altered version.
        flaky: tasks of which a test flipped between reruns.
        missing: trials of the run that are not recorded.
        retries: attempts beyond the first, made after infrastructure failures.
        avg_cost_usd: None when any price is unknown, and so is every other cost.
        avg_seconds: None when no trial has a time, and so is every other time.
        cost_per_resolved_usd: the cost of all counted trials, by those resolved.
        total_usd: the cost of all trials, errors included.
        estimated_usd: the part of it that is an upper estimate, of `estimated_requests` without a whole response.
        web: whether the provider's own tools were allowed; None where that is not known.
        web_refused: requests that were refused because they wanted one.
        nodes: how many nodes of a cluster it was made on; 0: on one machine.
        node_differences: in what these nodes differ: processor, CPUs, memory, kernel.
        name: the name that the run was given, or else its label in a sweep.
        origin: what the run was imported from; None for one that was made here.
        settings: its options beside agent and model that differ from their defaults, as text.
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
    controls: int
    uncontrolled: int
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
    estimated_usd: float = 0.0
    estimated_requests: int = 0
    web: bool | None = None
    web_refused: int = 0
    nodes: int = 0
    node_differences: tuple[str, ...] = ()
    name: str = ""
    origin: str | None = None
    settings: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def title(self) -> str:
        """As tables and charts call it: its id, and in brackets its name."""
        return run_title(self.run_id, self.name)


def run_row(
    config: RunConfig, results: Iterable[Observation | TaskResult], *, healthy: Collection[str] | None = None
) -> RunRow:
    """Put a run into numbers, reading its results once and keeping none of them.

    `healthy` are the tasks that are known to be healthy, where they were validated.
    """
    builder = _RunRowBuilder()
    for result in results:
        builder.add(result if isinstance(result, Observation) else to_observation(result))
    return builder.row(config, healthy)


def machine_differences(machines: Iterable[Machine]) -> tuple[str, ...]:
    """In what machines differ that can change how long something takes, or whether it works."""
    known = list(machines)
    seen: dict[str, Collection[object]] = {
        "processor": {machine.processor for machine in known},
        "CPUs": {machine.cpus for machine in known},
        # What the kernel keeps for itself differs by a little between equal machines.
        "memory": {round(machine.memory_mb / 1024) for machine in known},
        "kernel": {machine.kernel for machine in known},
    }
    return tuple(name for name, values in seen.items() if len(values) > 1)


class _TaskColumn:
    """A number of each trial, with the index of its task: sixteen bytes, where objects would take ten times that."""

    __slots__ = ("_task_indices", "_values")

    def __init__(self) -> None:
        self._task_indices, self._values = array("L"), array("d")

    def add(self, task_index: int, value: float) -> None:
        self._task_indices.append(task_index)
        self._values.append(value)

    def by_task(self, tasks: int) -> list[list[float]]:
        """The numbers of each task's trials; empty for a task without any."""
        found: list[list[float]] = [[] for _ in range(tasks)]
        for index, value in zip(self._task_indices, self._values, strict=True):
            found[index].append(value)
        return found


class _RunRowBuilder:
    """The numbers of a run while its trials are added."""

    def __init__(self) -> None:
        self.task_indices: dict[str, int] = {}  # of the tasks that have counted trials, in order of appearance
        self.resolved, self.costs, self.seconds, self.tokens = (
            _TaskColumn(),
            _TaskColumn(),
            _TaskColumn(),
            _TaskColumn(),
        )
        self.scores, self.best_of_scores = _TaskColumn(), dict[str, _TaskColumn]()
        self.recorded = self.official = self.findings = self.uncontrolled = self.retries = self.all_tokens = (
            self.agents
        ) = 0
        self.statuses: Counter[Status] = Counter()
        self.flaky: set[str] = set()
        self.total_usd: float | None = 0.0
        self.estimated_usd, self.estimated_requests = 0.0, 0
        self.web: bool | None = None
        self.web_refused = 0
        self.nodes: dict[str, Machine] = {}
        self.cost_known = True  # for every counted trial
        # No trial takes no time: results of other tools that have no times have 0 in all of them.
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
        self.estimated_usd += estimated_cost(one.usage)
        self.estimated_requests += sum(usage.estimated_requests for usage in one.usage)
        if one.web is not None:
            self.web = one.web.allowed
            self.web_refused += one.web.refused
        for attempt in one.attempts:
            if attempt.node and attempt.machine is not None:
                self.nodes[attempt.node] = attempt.machine
        if one.cause is Cause.FLAKY or (one.verdict and one.verdict.flaky):
            self.flaky.add(one.task_id)
        if one.status is Status.ERROR:
            self.error_causes[one.cause.value] += 1
        if one.counted:
            self._add_counted(one, cost)

    def _add_counted(self, one: Observation, cost: float | None) -> None:
        task = self.task_indices.setdefault(one.task_id, len(self.task_indices))
        self.resolved.add(task, one.resolved)
        self.seconds.add(task, one.agent_seconds)
        self.time_known |= one.agent_seconds > 0
        self.tokens.add(task, one.tokens)
        if cost is None:
            self.cost_known = False
        else:
            self.costs.add(task, cost)
        if one.verdict is not None and one.verdict.score is not None:
            self.scores.add(task, one.verdict.score)
            for name, value in _best_of_scores(one.verdict).items():
                self.best_of_scores.setdefault(name, _TaskColumn()).add(task, value)
        for name, value in (one.verdict.scores if one.verdict else {}).items():
            self.extra_scores.setdefault(name, array("d")).append(value)
        codes = finding_codes(one)
        self.official += _officially_resolved(one)
        self.findings += bool(codes)
        self.uncontrolled += one.resolved and _is_uncontrolled(one.verdict)
        self.finding_codes.update(codes)
        reason = failure_reason(one)
        if reason is not None:
            self.failure_reasons[reason] += 1
        for name in ("turns", "steps", "compactions", "context_resets"):
            self.sums[name] += getattr(one.metrics, name)
        if one.metrics.active_share is not None:
            self.active_shares.append(one.metrics.active_share)
        self._add_roles(one)

    def _add_roles(self, one: Observation) -> None:
        """Roles in order of appearance. An agent without a role is listed by its name."""
        for member in one.metrics.members:
            role = member.role or member.name
            known = self.roles.get(role) or RoleStats(role=role)
            cost = usage_cost(member.usage)
            self.roles[role] = RoleStats(
                role=role,
                members=known.members + 1,
                cost_usd=None if known.cost_usd is None or cost is None else known.cost_usd + cost,
                active_seconds=known.active_seconds + member.active_seconds,
                idle_seconds=known.idle_seconds + member.idle_seconds,
                turns=known.turns + member.turns,
                messages=known.messages + member.messages,
                compactions=known.compactions + member.compactions,
            )

    def row(self, config: RunConfig, healthy: Collection[str] | None) -> RunRow:
        number = len(self.task_indices)
        trials = self.resolved.by_task(number)
        resolved_by_task = list(map(sum, trials))
        resolved, counted = int(sum(resolved_by_task)), sum(map(len, trials))
        errors = self.statuses[Status.ERROR]
        rate = clustered_rate(trials)
        cost, per_resolved, costs = (
            _amount_stats(self.costs, resolved_by_task) if self.cost_known else (None, None, None)
        )
        seconds, seconds_per_resolved, times = (
            _amount_stats(self.seconds, resolved_by_task) if self.time_known else (None, None, None)
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
            healthy=None if healthy is None else _healthy_rate(zip(self.task_indices, trials, strict=True), healthy),
            errors=errors,
            skipped=self.statuses[Status.SKIPPED],
            missing=len(config.tasks) * config.trials - self.recorded,
            findings=self.findings,
            controls=config.controls,
            uncontrolled=self.uncontrolled,
            flaky=len(self.flaky),
            retries=self.retries,
            avg_cost_usd=cost.value if cost else None,
            avg_seconds=seconds.value if seconds else None,
            cost=cost,
            seconds=seconds,
            cost_per_resolved_usd=per_resolved,
            seconds_per_resolved=seconds_per_resolved,
            tokens_per_resolved=_per_resolved(self.tokens.by_task(number), resolved_by_task),
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
            pass_at_k=_pass_at_k(trials),
            roles=tuple(self.roles.values()),
            scores={name: math.fsum(values) / len(values) for name, values in sorted(self.extra_scores.items())},
            best_of={
                name: best
                for name in sorted(self.best_of_scores)
                if (best := _best_of(self.best_of_scores[name].by_task(number)))
            },
            estimated_usd=round(self.estimated_usd, 12),
            estimated_requests=self.estimated_requests,
            web=self.web,
            web_refused=self.web_refused,
            nodes=len(self.nodes),
            node_differences=machine_differences(self.nodes.values()),
            name=config.name or config.label or "",
            origin=config.origin,
            settings=settings(config),
        )

    def _mean(self, name: str, counted: int) -> float | None:
        return self.sums[name] / counted if counted else None


def _best_of_scores(verdict: ObservedVerdict) -> dict[str, float]:
    """The score of a trial, beyond 1 where the benchmark's scale allows it; and the score within each time."""
    if verdict.score is None:
        return {}
    within = {name: value for name, value in verdict.scores.items() if name.startswith("within_")}
    return {"score": verdict.scores.get("normalised", verdict.score), **within}


def _best_of(scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """For every k for which all tasks have k trials, if each has several.

    A time budget that is shared by k independent trials gives each a k-th of it: the best of 4 within 2 hours is what
    8 hours buy when they are spent on 4 trials.
    """
    most = min(map(len, scores))
    best = [mean_best_of_k(scores, k) for k in range(1, min(most, _MAX_K) + 1)]
    return tuple(one for one in best if one is not None) if most > 1 else ()


def _amount_stats(
    column: _TaskColumn, resolved: Sequence[float]
) -> tuple[Estimate | None, Estimate | None, Distribution | None]:
    """The mean of an amount per trial, the amount per resolved task, and its distribution."""
    amounts = column.by_task(len(resolved))
    return (
        log_scale_mean(amounts),
        _per_resolved(amounts, resolved),
        distribution_of(one for some in amounts for one in some),
    )


def _per_resolved(amounts: Sequence[Sequence[float]], resolved: Sequence[float]) -> Estimate | None:
    return ratio_of_sums([(sum(some), count) for some, count in zip(amounts, resolved, strict=True)])


def _score(scores: Sequence[Sequence[float]]) -> Estimate | None:
    """The mean score. Scores are between 0 and 1, except of benchmarks whose scale has no upper end."""
    shares = all(0 <= score <= 1 for some in scores for score in some)
    return clustered_rate(scores) if shares else clustered_mean(scores)


def _healthy_rate(tasks: Iterable[tuple[str, Sequence[float]]], healthy: Collection[str]) -> HealthyRate:
    trials = [trials for name, trials in tasks if name in healthy]
    return HealthyRate(
        tasks=len(trials),
        resolved=int(sum(map(sum, trials))),
        counted=sum(map(len, trials)),
        rate=clustered_rate(trials),
    )


def _officially_resolved(one: Observation) -> bool:
    """The official verdict; without one, ours."""
    official = one.verdict.official if one.verdict else None
    return one.resolved if official is None else official is Status.RESOLVED


def _pass_at_k(trials: Sequence[Sequence[float]]) -> tuple[PassAtK, ...]:
    """For every k for which some task has k graded trials, if any has several: an error excludes only its own task."""
    most = max(map(len, trials), default=0)
    if most < 2:  # noqa: PLR2004 - with one trial of each task, pass@1 is the rate
        return ()
    resolved = [[value > 0 for value in values] for values in trials]
    found = (estimate_pass_at_k(resolved, k) for k in range(1, min(most, _MAX_K) + 1))
    return tuple(one for one in found if one is not None)


def _is_uncontrolled(verdict: ObservedVerdict | None) -> bool:
    """Whether a verdict rests on tests that were never seen to fail; where controls do not apply, it does not."""
    controls = verdict.controls if verdict else None
    return controls is not None and (not controls.pairs or bool(controls.uncontrolled))
