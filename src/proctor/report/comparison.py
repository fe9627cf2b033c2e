"""The report that compares runs with the first of them, the reference."""

from collections.abc import Iterator, Sequence
from typing import Literal

from proctor.analysis.comparability import Difference, differences
from proctor.analysis.gate import GateDecision, GateRule, decide
from proctor.analysis.observation import Observation
from proctor.analysis.paired import Comparison, MetricChange, adjust_p_values, compare
from proctor.analysis.pod_vs_best_of_n import TeamComparison, compare_team
from proctor.analysis.runs import RunRow, run_row
from proctor.core.errors import UsageError
from proctor.core.formatting import NO_VALUE, duration, money, percent, percentage_points, plural
from proctor.core.record import Record
from proctor.report.charts import flips_chart, rates_chart
from proctor.report.document import Document, Section
from proctor.report.runs import runs_table
from proctor.report.stored_runs import called, run_names
from proctor.report.tables import Table
from proctor.results import RunStore


class RunComparison(Record):
    """One run compared with the reference: flips, changes, differences of their configurations, and the gate.

    Attributes:
        team: whether a team is worth its cost, where one of the two runs is a team's.
    """

    comparison: Comparison
    differences: tuple[Difference, ...]
    team: TeamComparison | None = None
    decision: GateDecision | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The conditions in which the two runs differ."""
        pair = f"{self.comparison.first.run} and {self.comparison.second.run} differ"
        return tuple(f"{pair}: {one}" for one in self.differences if not one.subject)


class TeamReport(Record):
    """Whether a team is worth its cost, in numbers and in a sentence."""

    comparison: TeamComparison
    sentence: str


class RunComparisonReport(Record):
    """One run compared with the reference, as JSON.

    Attributes:
        conclusion: 1: it is better; -1: worse; 0: no difference that these data can show.
        gate: None without a rule.
    """

    comparison: Comparison
    conclusion: int
    sentence: str
    differences: tuple[Difference, ...]
    team: TeamReport | None
    gate: GateDecision | None


class ComparisonReport(Record):
    """`bench compare` as JSON: all runs in numbers, and all but the first compared with it."""

    runs: tuple[RunRow, ...]
    comparisons: tuple[RunComparisonReport, ...]
    schema_version: Literal["proctor.comparison@2"] = "proctor.comparison@2"


def compare_runs(stores: Sequence[RunStore], gate: GateRule | None = None) -> tuple[list[RunRow], list[RunComparison]]:
    """Compare runs with the first of them, and apply a rule to each if there is one.

    Raises:
        UsageError: they are runs of more than one benchmark.
    """
    configs = [store.config() for store in stores]
    other = next((config.benchmark for config in configs if config.benchmark != configs[0].benchmark), None)
    if other is not None:
        raise UsageError(
            f"these are runs of two benchmarks, {configs[0].benchmark} and {other}", fix="compare runs of the same one"
        )
    names = run_names(stores)
    first = list(stores[0].results_as(Observation))
    rows, found, teams = [called(run_row(configs[0], first), stores[0], names[0])], [], []
    for store, config, name in zip(stores[1:], configs[1:], names[1:], strict=True):
        second = list(store.results_as(Observation))
        rows.append(called(run_row(config, second), store, name))
        found.append(compare(first, second, names=(names[0], name)))
        teams.append(_team_comparison((rows[0], first), (rows[-1], second)))
    return rows, [
        RunComparison(
            comparison=comparison,
            differences=differences(configs[0], config),
            team=team,
            decision=None if gate is None else decide(gate, comparison),
        )
        for comparison, config, team in zip(adjust_p_values(found), configs[1:], teams, strict=True)
    ]


def comparison_document(rows: Sequence[RunRow], pairs: Sequence[RunComparison]) -> Document:
    """The report of `compare`."""
    names = [row.title for row in rows]
    title = f"{', '.join(names[1:])} against {names[0]}"
    comparisons = [one.comparison for one in pairs]
    sections = [
        Section(table=runs_table(title, rows), charts=(("Resolved, with 95 % intervals", rates_chart(rows)),)),
    ]
    if any(one.common for one in comparisons):
        sections.append(Section(table=_changes_table([one for one in comparisons if one.common])))
    flips = _flips_table(comparisons)
    if flips.rows:
        sections.append(Section(table=flips, charts=(("Tasks lost and gained", flips_chart(comparisons)),)))
    subjects = dict.fromkeys(str(difference) for one in pairs for difference in one.differences if difference.subject)
    if subjects:
        sections.append(Section(sentences=tuple(f"Under test, {difference}" for difference in subjects)))
    return Document(
        title=title,
        sections=tuple(sections),
        summary=(
            *(one.team.sentence for one in pairs if one.team),
            *(one.comparison.sentence for one in pairs),
            *(f"Gate: {one.decision.sentence}" for one in pairs if one.decision),
        ),
        warnings=tuple(warning for one in pairs for warning in one.warnings),
    )


def comparison_report(rows: Sequence[RunRow], pairs: Sequence[RunComparison]) -> ComparisonReport:
    """The same as JSON."""
    return ComparisonReport(
        runs=tuple(rows),
        comparisons=tuple(
            RunComparisonReport(
                comparison=one.comparison,
                conclusion=one.comparison.conclusion,
                sentence=one.comparison.sentence,
                differences=one.differences,
                team=None if one.team is None else TeamReport(comparison=one.team, sentence=one.team.sentence),
                gate=one.decision,
            )
            for one in pairs
        ),
    )


def _team_comparison(
    one: tuple[RunRow, Sequence[Observation]], other: tuple[RunRow, Sequence[Observation]]
) -> TeamComparison | None:
    """Whether the team is worth its cost, if one of the two runs is a team's and the other is not."""
    (single, single_trials), (team, team_trials) = sorted((one, other), key=lambda run: run[0].agents)
    if not single.agents <= 1 < team.agents:
        return None
    return compare_team((team.title, team_trials), (single.title, single_trials))


def _changes_table(comparisons: Sequence[Comparison]) -> Table:
    return Table(
        title="Change per task",
        headings=("Run ID", "", comparisons[0].first.run, "This run", "Change (95 % interval)"),
        rows=tuple((one.second.run, *cells) for one in comparisons for cells in _change_rows(one)),
        notes=tuple(_power_note(one) for one in comparisons if one.minimum_detectable_difference is not None),
    )


def _change_rows(one: Comparison) -> Iterator[tuple[str, ...]]:
    if one.rate is not None:
        found = one.rate.difference
        points = percentage_points(found.value, found.low, found.high)
        yield "rate", percent(one.rate.first), percent(one.rate.second), points
    for name, change, format_value in (("cost", one.cost, money), ("time", one.seconds, duration)):
        if change is None:
            yield name, "unknown", "unknown", NO_VALUE
        else:
            yield name, format_value(change.first), format_value(change.second), _relative(change)


def _relative(change: MetricChange) -> str:
    if change.ratio is None:
        return NO_VALUE
    ends = ""
    if change.ratio_low is not None and change.ratio_high is not None:
        ends = f" ({change.ratio_low - 1:+.1%} to {change.ratio_high - 1:+.1%})"
    return f"{change.ratio - 1:+.1%}{ends}"


def _power_note(one: Comparison) -> str:
    differing = round(one.spread.differing * one.common)
    how = "flipped" if one.method == "mcnemar" else "differ in rate"
    smallest = f"{100 * (one.minimum_detectable_difference or 0):.1f} points"
    return (
        f"{one.second.run}: with {plural(one.common, 'common task')}, of which {differing} {how}, a true difference of "
        f"{smallest} would be shown four times out of five."
    )


def _flips_table(comparisons: Sequence[Comparison]) -> Table:
    rows = [
        (task, flip, one.second.run)
        for one in comparisons
        for flip, tasks in (("gained", one.gained), ("lost", one.lost))
        for task in tasks
    ]
    return Table(title="Flipped tasks", headings=("Task", "Flip", "Run ID"), rows=tuple(rows))
