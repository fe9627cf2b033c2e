"""Two runs on the same tasks: which flipped, what it cost, and whether that is more than chance."""

from collections.abc import Iterable, Sequence

import msgspec

from proctor.analysis.bootstrap import RESAMPLES, mean_interval, rate_interval, ratio_interval
from proctor.analysis.intervals import Estimate, clustered_rate
from proctor.analysis.observation import Observation
from proctor.analysis.significance import (
    SIGNIFICANCE_LEVEL,
    exact_mcnemar,
    format_p_value,
    holm,
    minimum_detectable_difference,
    tasks_needed,
)
from proctor.core.causes import Status
from proctor.core.record import Record


class ComparisonSide(Record):
    """One of the two runs: its rate on the common tasks, and what else became of its answers, on all of its tasks."""

    run: str
    rate: Estimate | None
    trials: int
    errors: int
    findings: int


class MetricChange(Record):
    """A mean per task in both runs, the second less the first with its bootstrap interval, and their ratio.

    Attributes:
        ratio: the second by the first; for cost and time with its own interval, `ratio_low` to `ratio_high`.
    """

    first: float
    second: float
    difference: Estimate
    ratio: float | None
    ratio_low: float | None = None
    ratio_high: float | None = None


class Comparison(Record):
    """A comparison on common tasks. A task with several answers counts as resolved when most of them are.

    Attributes:
        gained: tasks that only the second run resolved; `lost`: only the first.
        p_value: of the exact two-sided McNemar test: how likely so uneven a split of the flips is by chance.
        adjusted_p: the same after Holm's correction, where several comparisons were made at once.
        rate: all answers count here, not the majority of a task's.
        cost: None where a price is unknown; `seconds`: where a run does not say how long its answers took.
        tasks_needed: how many common tasks would show a difference as large as this one (80 % power).
        visible: the smallest difference in rate that this many tasks, of which this many flip, can show.
    """

    first: ComparisonSide
    second: ComparisonSide
    common: int
    both: int
    neither: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p_value: float
    adjusted_p: float
    rate: MetricChange | None
    cost: MetricChange | None
    seconds: MetricChange | None
    tasks_needed: int | None
    minimum_detectable_difference: float | None

    @property
    def conclusion(self) -> int:
        """1: the second run is better; -1: worse; 0: no difference that these data can show."""
        if self.adjusted_p >= SIGNIFICANCE_LEVEL:
            return 0
        return 1 if len(self.gained) > len(self.lost) else -1

    @property
    def sentence(self) -> str:
        """What can be said, and no more."""
        if self.common == 0:
            return f"{self.first.run} and {self.second.run} have no graded task in common."
        tasks = "task" if self.common == 1 else "tasks"
        p_value = format_p_value(self.p_value)
        if format_p_value(self.adjusted_p) != p_value:
            p_value += f", {format_p_value(self.adjusted_p).removeprefix('p = ')} after correction"
        flips = f"{len(self.gained)} gained, {len(self.lost)} lost of {self.common} common {tasks}; {p_value}"
        names = f"between {self.first.run} and {self.second.run}"
        if self.conclusion == 0:
            needed = "" if self.tasks_needed is None else f" One this large takes about {self.tasks_needed:,} tasks."
            return f"No difference {names} that these data can show ({flips}).{needed}"
        word = "better" if self.conclusion > 0 else "worse"
        return f"{self.second.run} is {word} than {self.first.run} ({flips})."


def compare(
    first: Iterable[Observation],
    second: Iterable[Observation],
    *,
    names: tuple[str, str] = ("the first run", "the second run"),
    resamples: int = RESAMPLES,
) -> Comparison:
    """Compare two runs, task by task. Errors and skipped answers say nothing about the agent and are left out."""
    before, after = list(first), list(second)
    one, other = counted_by_task(before), counted_by_task(after)
    common = sorted(one.keys() & other.keys())
    was, now = ({task: majority_resolved(answers[task]) for task in common} for answers in (one, other))
    gained = tuple(task for task in common if now[task] and not was[task])
    lost = tuple(task for task in common if was[task] and not now[task])
    both = sum(was[task] and now[task] for task in common)
    p_value = exact_mcnemar(len(gained), len(lost))
    rates = [[[float(answer.resolved) for answer in answers[task]] for task in common] for answers in (one, other)]
    costs = [[_mean([answer.cost_usd for answer in answers[task]]) for task in common] for answers in (one, other)]
    times = [[_mean([answer.agent_seconds for answer in answers[task]]) for task in common] for answers in (one, other)]
    return Comparison(
        first=_side(names[0], before, rates[0]),
        second=_side(names[1], after, rates[1]),
        common=len(common),
        both=both,
        neither=len(common) - both - len(gained) - len(lost),
        gained=gained,
        lost=lost,
        p_value=p_value,
        adjusted_p=p_value,
        rate=_change([_mean(task) for task in rates[0]], [_mean(task) for task in rates[1]], resamples, bounded=True),
        cost=_change(costs[0], costs[1], resamples),
        # Nobody answers in no time: a run that says so does not know.
        seconds=_change(times[0], times[1], resamples) if any(times[0]) and any(times[1]) else None,
        tasks_needed=tasks_needed(*_flip_fractions(gained, lost, len(common))),
        minimum_detectable_difference=minimum_detectable_difference(
            sum(_flip_fractions(gained, lost, len(common))), len(common)
        ),
    )


def adjust_p_values(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Comparisons that are looked at together, their p-values adjusted for being several.

    What the tasks could show is told for the smallest of the p-values, which Holm's correction judges most severely.
    """
    adjusted = holm([comparison.p_value for comparison in comparisons])
    severity = SIGNIFICANCE_LEVEL / max(1, len(comparisons))
    return tuple(
        msgspec.structs.replace(
            one,
            adjusted_p=p_value,
            tasks_needed=tasks_needed(*_flip_fractions(one.gained, one.lost, one.common), significance=severity),
            minimum_detectable_difference=minimum_detectable_difference(
                sum(_flip_fractions(one.gained, one.lost, one.common)), one.common, significance=severity
            ),
        )
        for one, p_value in zip(comparisons, adjusted, strict=True)
    )


def counted_by_task(observations: Iterable[Observation]) -> dict[str, list[Observation]]:
    """The answers that count, by task."""
    found: dict[str, list[Observation]] = {}
    for observation in observations:
        if observation.counted:
            found.setdefault(observation.task_id, []).append(observation)
    return found


def _flip_fractions(gained: Sequence[str], lost: Sequence[str], common: int) -> tuple[float, float]:
    return len(gained) / max(common, 1), len(lost) / max(common, 1)


def majority_resolved(trials: Sequence[Observation]) -> bool:
    """Whether most of a task's answers are right; a tie is not most."""
    return sum(answer.resolved for answer in trials) * 2 > len(trials)


def _side(run: str, observations: Sequence[Observation], rates: Sequence[Sequence[float]]) -> ComparisonSide:
    return ComparisonSide(
        run=run,
        rate=clustered_rate(rates),
        trials=len(observations),
        errors=sum(observation.status is Status.ERROR for observation in observations),
        findings=sum(bool(seen.verdict and seen.verdict.findings) for seen in observations if seen.counted),
    )


def _change(
    first: Sequence[float | None], second: Sequence[float | None], resamples: int, *, bounded: bool = False
) -> MetricChange | None:
    known = [(before, after) for before, after in zip(first, second, strict=True) if before is not None is not after]
    if not known or len(known) < len(first):
        return None
    before = sum(pair[0] for pair in known) / len(known)
    after = sum(pair[1] for pair in known) / len(known)
    between = rate_interval if bounded else mean_interval
    difference = between([pair[1] - pair[0] for pair in known], resamples=resamples)
    if difference is None:
        return None
    ratio = None if bounded else ratio_interval(known, resamples=resamples)
    return MetricChange(
        first=before,
        second=after,
        difference=difference,
        ratio=after / before if before else None,
        ratio_low=ratio.low if ratio else None,
        ratio_high=ratio.high if ratio else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
