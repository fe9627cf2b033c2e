"""Two runs on the same tasks: which tasks flipped, how cost and time changed, and whether it is more than chance."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeVar

import msgspec

from proctor.analysis.bootstrap import RESAMPLES, mean_interval, rate_interval, ratio_interval
from proctor.analysis.intervals import Estimate, clustered_rate
from proctor.analysis.observation import Observation
from proctor.analysis.permutation import paired_permutation
from proctor.analysis.significance import (
    SIGNIFICANCE_LEVEL,
    PairedSpread,
    exact_mcnemar,
    format_p_value,
    holm,
    minimum_detectable_difference,
    tasks_needed,
)
from proctor.core.causes import Status
from proctor.core.formatting import percent, plural
from proctor.core.record import Record

Flip = Literal["gained", "lost", "both", "neither"]
TestMethod = Literal["mcnemar", "permutation"]

_METHOD_NAMES: Final[dict[TestMethod, str]] = {
    "mcnemar": "McNemar's exact test",
    "permutation": "paired permutation test on per-task rates",
}


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


class PairedTest(Record):
    """The test of the difference of two runs on their common tasks.

    Attributes:
        gained: how many tasks only the second run resolved in most of its trials; `lost`: only the first.
        rates: the mean over common tasks of each run's rate.
        method: McNemar's exact test where every common task has one trial in each run, else the paired permutation
            test on per-task rates.
    """

    common: int
    gained: int
    lost: int
    rates: tuple[float, float]
    spread: PairedSpread
    method: TestMethod
    p_value: float

    def sentence(self, names: Sequence[str], *, adjusted_p: float | None = None, needed: int | None = None) -> str:
        """What the test shows of two runs with these names."""
        first, second = names
        if not self.common:
            return f"{first} and {second} have no graded task in common."
        adjusted = self.p_value if adjusted_p is None else adjusted_p
        p_text = format_p_value(self.p_value)
        if format_p_value(adjusted) != p_text:
            p_text += f", {format_p_value(adjusted).removeprefix('p = ')} after correction"
        why = f"({self._counts}; {p_text}, {_METHOD_NAMES[self.method]})"
        direction = "better" if self.spread.mean > 0 else "worse"
        if adjusted < SIGNIFICANCE_LEVEL:
            return f"{second} is {direction} than {first} {why}."
        more = "" if needed is None else f" One this large takes about {needed:,} tasks."
        if self.p_value < SIGNIFICANCE_LEVEL:
            return f"{second} would be {direction} than {first}, but among so many runs that may be chance {why}.{more}"
        return f"No difference between {first} and {second} that these data can show {why}.{more}"

    @property
    def _counts(self) -> str:
        tasks = plural(self.common, "common task")
        if self.method == "mcnemar":
            return f"{self.gained} gained, {self.lost} lost of {tasks}"
        return f"a mean rate of {percent(self.rates[1])} against {percent(self.rates[0])} on {tasks}"


class Comparison(Record):
    """A comparison on common tasks. A task with several trials counts as resolved when most of them are.

    Attributes:
        gained: tasks that only the second run resolved; `lost`: only the first.
        method: the test; `p_value`: two-sided, how likely so large a difference is by chance alone.
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
    method: TestMethod
    p_value: float
    adjusted_p: float
    rate: MetricChange | None
    cost: MetricChange | None
    seconds: MetricChange | None
    spread: PairedSpread
    tasks_needed: int | None
    minimum_detectable_difference: float | None

    @property
    def conclusion(self) -> int:
        """1: the second run is better; -1: worse; 0: no difference that these data can show."""
        if self.adjusted_p >= SIGNIFICANCE_LEVEL:
            return 0
        return 1 if self.spread.mean > 0 else -1

    @property
    def sentence(self) -> str:
        """What the data show."""
        test = PairedTest(
            common=self.common,
            gained=len(self.gained),
            lost=len(self.lost),
            rates=(self.rate.first, self.rate.second) if self.rate else (0.0, 0.0),
            spread=self.spread,
            method=self.method,
            p_value=self.p_value,
        )
        return test.sentence((self.first.run, self.second.run), adjusted_p=self.adjusted_p, needed=self.tasks_needed)


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
    test = paired_test(one, other)
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
        method=test.method,
        p_value=test.p_value,
        adjusted_p=test.p_value,
        rate=_change([_mean(task) for task in rates[0]], [_mean(task) for task in rates[1]], resamples, bounded=True),
        cost=_change(costs[0], costs[1], resamples),
        # No trial takes no time: a run whose times are all 0 does not know them.
        seconds=_change(times[0], times[1], resamples) if any(times[0]) and any(times[1]) else None,
        spread=test.spread,
        tasks_needed=tasks_needed(test.spread),
        minimum_detectable_difference=minimum_detectable_difference(test.spread, len(common)),
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
            tasks_needed=tasks_needed(one.spread, significance=severity),
            minimum_detectable_difference=minimum_detectable_difference(one.spread, one.common, significance=severity),
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


def paired_test(
    first: Mapping[str, Sequence[CountedTrial]], second: Mapping[str, Sequence[CountedTrial]]
) -> PairedTest:
    """Test the difference of two runs, from the counted trials of each task; other than common tasks are left out."""
    common = sorted(first.keys() & second.keys())
    counts = [(*_resolved_of(first[task]), *_resolved_of(second[task])) for task in common]
    flips = list(flips_by_task(first, second).values())
    gained, lost = flips.count("gained"), flips.count("lost")
    single = all(before == after == 1 for _, before, _, after in counts)
    rates = [(was / before, now / after) for was, before, now, after in counts]
    return PairedTest(
        common=len(common),
        gained=gained,
        lost=lost,
        rates=(_mean([one for one, _ in rates]) or 0.0, _mean([other for _, other in rates]) or 0.0),
        spread=PairedSpread.of([other - one for one, other in rates]),
        method="mcnemar" if single else "permutation",
        p_value=exact_mcnemar(gained, lost) if single else paired_permutation(counts),
    )


def _resolved_of(trials: Sequence[CountedTrial]) -> tuple[int, int]:
    return sum(trial.resolved for trial in trials), len(trials)


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
