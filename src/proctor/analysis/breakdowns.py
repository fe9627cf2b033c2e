"""Results by kind of task, with intervals, and p-values corrected for the number of groups."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from proctor.analysis.bootstrap import rate_interval
from proctor.analysis.intervals import Estimate, clustered_rate
from proctor.analysis.observation import Observation
from proctor.analysis.paired import counted_by_task, majority_resolved, paired_test
from proctor.analysis.significance import SIGNIFICANCE_LEVEL, fisher_exact, format_p_value, holm
from proctor.core.record import Record

ValueOf = Callable[[str], str | tuple[str, ...] | None]  # the value of a field for a task

UNKNOWN: Final = "(unknown)"
_MAX_DISTINCT_NUMBERS: Final = 6
_BINS: Final = 4


class Group(Record):
    """The tasks that share a value of the field.

    Attributes:
        rate: of the first run, or of the only one; `second`: of the second.
        difference: the second rate less the first, with its bootstrap interval.
        p_value: of one run: that this group's rate is that of all other tasks (Fisher, exact); of two: that they do
            not differ on these tasks (as in a comparison). `adjusted_p`: after Holm's correction over the groups.
    """

    value: str
    tasks: int
    rate: Estimate | None
    p_value: float
    adjusted_p: float
    second: Estimate | None = None
    difference: Estimate | None = None
    gained: int = 0
    lost: int = 0

    @property
    def significant(self) -> bool:
        """More than chance, corrected for the number of groups."""
        return self.adjusted_p < SIGNIFICANCE_LEVEL

    @property
    def direction(self) -> str:
        """Of two runs: what the second is."""
        return "better" if self.difference and self.difference.value > 0 else "worse"


class Breakdown(Record):
    """A field and the groups of tasks by its value. `runs` is one run, or two that are compared."""

    field: str
    runs: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def sentence(self) -> str:
        """The groups that differ by more than chance."""
        if not self.groups:
            single = len(self.runs) == 1
            return (
                f"{self.runs[0]} has no graded task."
                if single
                else f"{' and '.join(self.runs)} have no graded task in common."
            )
        shown = [group for group in self.groups if group.significant]
        if len(self.runs) == 1:
            if not shown:
                return f"By {self.field}, no group stands out by more than chance."
            groups = ", ".join(
                f"{group.value} {self._side(group)} ({format_p_value(group.adjusted_p)})" for group in shown
            )
            return f"By {self.field}, more than chance: {groups}."
        if not shown:
            return f"By {self.field}, {self.runs[1]} differs from {self.runs[0]} in no group by more than chance."
        changes = [f"{one.direction} on {one.value} ({format_p_value(one.adjusted_p)})" for one in shown]
        return f"By {self.field}, {self.runs[1]} is {', '.join(changes)}."

    def _side(self, group: Group) -> str:
        known = [(one.rate.value, one.tasks) for one in self.groups if one.rate]
        mean = sum(rate * tasks for rate, tasks in known) / sum(tasks for _, tasks in known)
        return "above the rest" if group.rate and group.rate.value > mean else "below the rest"


def breakdown(field: str, runs: Mapping[str, Iterable[Observation]], value_of: ValueOf) -> Breakdown:
    """Break one run's results down by a field of its tasks, or the comparison of two.

    A task with several values of the field, such as tags, is in the group of each.
    """
    names = tuple(runs)
    first, *rest = [counted_by_task(observations) for observations in runs.values()]
    groups = _single_run_groups(first, value_of) if not rest else _compared_groups(first, rest[0], value_of)
    return Breakdown(field=field, runs=names[:2], groups=groups)


def bin_numbers(values: Mapping[str, str]) -> dict[str, str]:
    """Many distinct numbers become a few ranges of about as many tasks each; other values stay as they are."""
    numbers: dict[str, float] = {}
    for task, value in values.items():
        try:
            numbers[task] = float(value)
        except ValueError:
            return dict(values)
    distinct = sorted(set(numbers.values()))
    if len(distinct) <= _MAX_DISTINCT_NUMBERS or not all(map(math.isfinite, distinct)):
        return dict(values)
    ordered = sorted(numbers.values())
    ends = sorted({ordered[math.ceil(len(ordered) * part / _BINS) - 1] for part in range(1, _BINS + 1)})
    names, low = {}, -math.inf
    for end in ends:
        inside = [number for number in distinct if low < number <= end]
        names[end] = f"{inside[0]:g}" if inside[0] == inside[-1] else f"{inside[0]:g} to {inside[-1]:g}"
        low = end
    return {task: names[min(end for end in ends if number <= end)] for task, number in numbers.items()}


def _single_run_groups(tasks: Mapping[str, Sequence[Observation]], value_of: ValueOf) -> tuple[Group, ...]:
    resolved = {task: majority_resolved(trials) for task, trials in tasks.items()}
    groups = _grouped(tasks, value_of)
    p_values = []
    for members in groups.values():
        here = sum(resolved[task] for task in members)
        others = len(tasks) - len(members)
        p_values.append(fisher_exact(here, len(members), sum(resolved.values()) - here, others) if others else 1.0)
    return tuple(
        Group(value=value, tasks=len(members), rate=_rate(tasks, members), p_value=p_value, adjusted_p=adjusted)
        for (value, members), p_value, adjusted in zip(groups.items(), p_values, holm(p_values), strict=True)
    )


def _compared_groups(
    first: Mapping[str, Sequence[Observation]],
    second: Mapping[str, Sequence[Observation]],
    value_of: ValueOf,
) -> tuple[Group, ...]:
    groups = _grouped(first.keys() & second.keys(), value_of)
    tests = [
        paired_test({task: first[task] for task in members}, {task: second[task] for task in members})
        for members in groups.values()
    ]
    adjusted = holm([test.p_value for test in tests])
    return tuple(
        Group(
            value=value,
            tasks=len(members),
            rate=_rate(first, members),
            second=_rate(second, members),
            difference=rate_interval(
                [_resolved_fraction(second[task]) - _resolved_fraction(first[task]) for task in members]
            ),
            gained=test.gained,
            lost=test.lost,
            p_value=test.p_value,
            adjusted_p=adjusted_p,
        )
        for (value, members), test, adjusted_p in zip(groups.items(), tests, adjusted, strict=True)
    )


def _grouped(tasks: Iterable[str], value_of: ValueOf) -> dict[str, list[str]]:
    """Tasks by value: numbers and ranges in their order, anything else with the largest group first."""
    groups: dict[str, list[str]] = {}
    for task in sorted(tasks):
        values = value_of(task) or UNKNOWN
        for value in (values,) if isinstance(values, str) else values:
            groups.setdefault(value, []).append(task)
    numbers = {value: _number(value) for value in groups if value != UNKNOWN}
    if None in numbers.values():
        return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))
    return dict(sorted(groups.items(), key=lambda item: (numbers.get(item[0]) is None, numbers.get(item[0]) or 0.0)))


def _number(value: str) -> float | None:
    """The value as a number, or the start of a range of numbers."""
    try:
        return float(value.partition(" to ")[0])
    except ValueError:
        return None


def _rate(trials: Mapping[str, Sequence[Observation]], tasks: Iterable[str]) -> Estimate | None:
    return clustered_rate([[float(one.resolved) for one in trials[task]] for task in tasks])


def _resolved_fraction(trials: Sequence[Observation]) -> float:
    return sum(one.resolved for one in trials) / len(trials)
