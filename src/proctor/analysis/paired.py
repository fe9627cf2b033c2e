"""Two runs on the same tasks: which tasks flipped, how cost and time changed, and whether it is more than chance."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeVar

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
from proctor.core.formatting import plural
from proctor.core.record import Record

Flip = Literal["gained", "lost", "both", "neither"]


class CountedTrial(Protocol):
    """What a comparison of tasks needs to know of a trial: an `Observation` has it, and a row of the viewer."""

    @property
    def task_id(self) -> str: ...
    @property
    def counted(self) -> bool: ...
    @property
    def resolved(self) -> bool: ...


T = TypeVar("T", bound=CountedTrial)


class ComparisonSide(Record):
    """One of the two runs: its rate on the common tasks; trials, errors and findings on all of its tasks."""

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
    """A comparison on common tasks. A task with several trials counts as resolved when most of them are.

    Attributes:
        gained: tasks that only the second run resolved; `lost`: only the first.
        p_value: of the exact two-sided McNemar test: how likely so uneven a split of the flips is by chance alone.
        adjusted_p: the same after Holm's correction, where several comparisons were made at once.
        rate: over all trials, not the majority of each task's.
        cost: None where a price is unknown; `seconds`: None where a run has no times.
        tasks_needed: how many common tasks would show a difference as large as this one (80 % power).
        minimum_detectable_difference: the smallest difference in rate that this many tasks and flips can show.
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
        """What the data show."""
        return comparison_sentence(
            (self.first.run, self.second.run),
            (len(self.gained), len(self.lost), self.common),
            p_value=self.p_value,
            adjusted_p=self.adjusted_p,
            needed=self.tasks_needed,
        )


def comparison_sentence(
    names: Sequence[str],
    counts: tuple[int, int, int],
    *,
    p_value: float,
    adjusted_p: float | None = None,
    needed: int | None = None,
) -> str:
    """What a comparison shows, from its counts of gained, lost and common tasks."""
    first, second = names
    gained, lost, common = counts
    if common == 0:
        return f"{first} and {second} have no graded task in common."
    adjusted = p_value if adjusted_p is None else adjusted_p
    p_text = format_p_value(p_value)
    if format_p_value(adjusted) != p_text:
        p_text += f", {format_p_value(adjusted).removeprefix('p = ')} after correction"
    flips = f"{gained} gained, {lost} lost of {plural(common, 'common task')}; {p_text}"
    if adjusted >= SIGNIFICANCE_LEVEL:
        more = "" if needed is None else f" One this large takes about {needed:,} tasks."
        return f"No difference between {first} and {second} that these data can show ({flips}).{more}"
    return f"{second} is {'better' if gained > lost else 'worse'} than {first} ({flips})."


def compare(
    first: Iterable[Observation],
    second: Iterable[Observation],
    *,
    names: tuple[str, str] = ("the first run", "the second run"),
    resamples: int = RESAMPLES,
) -> Comparison:
    """Compare two runs, task by task. Errors and skipped trials say nothing about the agent and are excluded."""
    before, after = list(first), list(second)
    one, other = counted_by_task(before), counted_by_task(after)
    flips = flips_by_task(one, other)
    common = list(flips)
    gained = tuple(task for task, flip in flips.items() if flip == "gained")
    lost = tuple(task for task, flip in flips.items() if flip == "lost")
    both = sum(flip == "both" for flip in flips.values())
    p_value = exact_mcnemar(len(gained), len(lost))
    rates = [[[float(trial.resolved) for trial in run[task]] for task in common] for run in (one, other)]
    costs = [[_mean([trial.cost_usd for trial in run[task]]) for task in common] for run in (one, other)]
    times = [[_mean([trial.agent_seconds for trial in run[task]]) for task in common] for run in (one, other)]
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
        # No trial takes no time: a run whose times are all 0 does not know them.
        seconds=_change(times[0], times[1], resamples) if any(times[0]) and any(times[1]) else None,
        tasks_needed=tasks_needed(*_flip_fractions(gained, lost, len(common))),
        minimum_detectable_difference=minimum_detectable_difference(
            sum(_flip_fractions(gained, lost, len(common))), len(common)
        ),
    )


def adjust_p_values(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Several comparisons, their p-values adjusted for their number.

    `tasks_needed` and `minimum_detectable_difference` are for the level at which Holm's correction judges the smallest
    p-value.
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


def counted_by_task(trials: Iterable[T]) -> dict[str, list[T]]:
    """The counted trials, by task."""
    found: dict[str, list[T]] = {}
    for trial in trials:
        if trial.counted:
            found.setdefault(trial.task_id, []).append(trial)
    return found


def flips_by_task(
    first: Mapping[str, Sequence[CountedTrial]], second: Mapping[str, Sequence[CountedTrial]]
) -> dict[str, Flip]:
    """For each common task, which of the two runs resolved it."""
    names: dict[tuple[bool, bool], Flip] = {
        (False, True): "gained",
        (True, False): "lost",
        (True, True): "both",
        (False, False): "neither",
    }
    return {
        task: names[majority_resolved(first[task]), majority_resolved(second[task])]
        for task in sorted(first.keys() & second.keys())
    }


def _flip_fractions(gained: Sequence[str], lost: Sequence[str], common: int) -> tuple[float, float]:
    return len(gained) / max(common, 1), len(lost) / max(common, 1)


def majority_resolved(trials: Sequence[CountedTrial]) -> bool:
    """Whether most of a task's trials are resolved; a tie is not most."""
    return sum(trial.resolved for trial in trials) * 2 > len(trials)


def _side(run: str, observations: Sequence[Observation], rates: Sequence[Sequence[float]]) -> ComparisonSide:
    return ComparisonSide(
        run=run,
        rate=clustered_rate(rates),
        trials=len(observations),
        errors=sum(observation.status is Status.ERROR for observation in observations),
        findings=sum(bool(one.verdict and one.verdict.findings) for one in observations if one.counted),
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
