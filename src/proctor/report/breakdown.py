"""The report on results by kind of task, and the fields that it can use."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from proctor.analysis.breakdowns import Breakdown, Group, bin_numbers, breakdown
from proctor.analysis.observation import Observation
from proctor.analysis.significance import format_p_value
from proctor.benchmarks import reopen
from proctor.core.errors import ProctorError, UsageError
from proctor.core.formatting import NO_VALUE, percent, percent_interval, percentage_points
from proctor.core.record import Record
from proctor.core.run import RunConfig
from proctor.core.submission import PatchKind
from proctor.core.task import Task
from proctor.report.charts import breakdown_chart
from proctor.report.document import Document, Section
from proctor.report.stored_runs import run_names
from proctor.report.tables import Table, records_csv
from proctor.results import RunStore
from proctor.workspaces.diff_parser import parse_diff

# Fields of a task besides the categories of its benchmark.
TASK_FIELDS: Final = (
    *("tag", "oracle files", "oracle lines"),
    *("fail-to-pass tests", "pass-to-pass tests", "instruction words"),
)
_FORMER_FIELDS: Final = {
    "gold files": "oracle files",
    "gold lines": "oracle lines",
    "tests to fix": "fail-to-pass tests",
    "tests to keep": "pass-to-pass tests",
}
_MAX_GROUPS: Final = 12


class FieldGroup(Record):
    """A group and its field."""

    field: str
    group: Group


class BreakdownSummary(Record):
    """A breakdown, in numbers and in a sentence."""

    breakdown: Breakdown
    sentence: str


class BreakdownReport(Record):
    """`bench breakdown` as JSON: one breakdown for each field."""

    breakdowns: tuple[BreakdownSummary, ...]
    schema_version: Literal["proctor.breakdown@1"] = "proctor.breakdown@1"


def break_down(stores: Sequence[RunStore], fields: Sequence[str]) -> tuple[Breakdown, ...]:
    """Break one run down, or the comparison of two, by these fields; by every category that makes groups, if none.

    Raises:
        UsageError: the runs are not of one benchmark, a field is unknown, or no category makes groups.
    """
    configs = [store.config() for store in stores]
    if len({config.benchmark for config in configs}) > 1:
        raise UsageError("these are runs of two benchmarks", fix="choose runs of the same one")
    runs = {name: list(store.results_as(Observation)) for name, store in zip(run_names(stores), stores, strict=True)}
    known = categories(runs.values())
    names = [field if field in known else _FORMER_FIELDS.get(field, field) for field in fields]
    chosen = tuple(dict.fromkeys(names)) or tuple(grouping_fields(known))
    if not chosen:
        raise UsageError(
            f"no category makes groups of the tasks of {configs[0].benchmark}",
            fix=f"give --by with one of {', '.join([*known, *TASK_FIELDS])}",
        )
    return tuple(breakdown(field, runs, field_values(field, configs[0], known).get) for field in chosen)


def categories(runs: Iterable[Iterable[Observation]]) -> dict[str, dict[str, str]]:
    """By field, the category of each task."""
    found: dict[str, dict[str, str]] = {}
    for observations in runs:
        for one in observations:
            for field, value in one.categories.items():
                found.setdefault(field, {})[one.task_id] = value
    return found


def field_values(
    field: str, config: RunConfig, known: Mapping[str, Mapping[str, str]]
) -> Mapping[str, str | tuple[str, ...]]:
    """The value of a field for each task, numbers in ranges; from the results, or else from the benchmark's data.

    A task may have several tags.

    Raises:
        UsageError: there is no such field, or the benchmark's data is not on this machine.
    """
    if field in known:
        return bin_numbers(known[field])
    if field not in TASK_FIELDS:
        names = ", ".join([*known, *TASK_FIELDS])
        raise UsageError(f"the tasks of {config.benchmark} have no field {field!r}", fix=f"choose one of {names}")
    try:
        tasks = reopen(config.benchmark, config.source, config.split).tasks()
    except ProctorError as error:
        raise UsageError(f"{field!r} needs the benchmark's data, which is not on this machine: {error}") from error
    if field == "tag":
        return {task.id: task.tags for task in tasks}
    return bin_numbers({task.id: value for task in tasks if (value := _task_field_value(field, task)) is not None})


def grouping_fields(known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The fields that make groups of the tasks: more than one value, and not nearly as many as tasks."""
    return [
        field
        for field, values in known.items()
        if 1 < len(set(bin_numbers(values).values())) <= max(_MAX_GROUPS, len(values) // 5)
    ]


def breakdown_document(title: str, found: Sequence[Breakdown], notes: Sequence[str] = ()) -> Document:
    """The report of `breakdown`; `notes` are on its runs."""
    if not any(one.groups for one in found):
        sentences = (*dict.fromkeys(one.sentence for one in found), *notes)
        return Document(title=title, sections=(Section(sentences=sentences),))
    return Document(
        title=title,
        summary=tuple(notes),
        sections=tuple(
            Section(
                table=_breakdown_table(one),
                charts=((f"Resolved by {one.field}, with 95 % intervals", breakdown_chart(one)),),
                sentences=(one.sentence,),
            )
            for one in found
        ),
    )


def breakdown_report(found: Iterable[Breakdown]) -> BreakdownReport:
    """The same as JSON."""
    return BreakdownReport(breakdowns=tuple(BreakdownSummary(breakdown=one, sentence=one.sentence) for one in found))


def breakdown_csv(found: Iterable[Breakdown]) -> str:
    """The groups of all fields as CSV."""
    return records_csv(FieldGroup, [FieldGroup(field=one.field, group=group) for one in found for group in one.groups])


def _breakdown_table(found: Breakdown) -> Table:
    one = len(found.runs) == 1
    headings = ("Resolved", "95 % interval") if one else (*found.runs, "Difference (95 % interval)", "Gained", "Lost")
    return Table(
        title=f"By {found.field}",
        headings=(found.field, "Tasks", *headings, "p", "Adjusted p"),
        rows=tuple(
            (
                group.value,
                str(group.tasks),
                *(_single_run_cells(group) if one else _comparison_cells(group)),
                _p_cell(group.p_value),
                _p_cell(group.adjusted_p),
            )
            for group in found.groups
        ),
    )


def _p_cell(p_value: float) -> str:
    return format_p_value(p_value).removeprefix("p ").removeprefix("= ")


def _single_run_cells(group: Group) -> tuple[str, ...]:
    rate = group.rate
    return (percent(rate.value), percent_interval(rate.low, rate.high)) if rate else (NO_VALUE, NO_VALUE)


def _comparison_cells(group: Group) -> tuple[str, ...]:
    rates = (percent(rate.value if rate else None) for rate in (group.rate, group.second))
    change = group.difference
    points = percentage_points(change.value, change.low, change.high) if change else NO_VALUE
    return (*rates, points, str(group.gained), str(group.lost))


def _task_field_value(field: str, task: Task) -> str | None:
    match field:
        case "oracle files" | "oracle lines":
            oracle = task.private.oracle
            counts = _diff_size(oracle.text) if oracle and oracle.patch_kind is PatchKind.UNIFIED_DIFF else None
            return str(counts[field == "oracle lines"]) if counts else None
        case "fail-to-pass tests":
            return str(len(task.private.fail_to_pass))
        case "pass-to-pass tests":
            return str(len(task.private.pass_to_pass))
        case _:
            return str(len(task.public.instruction.split()))


def _diff_size(patch: str) -> tuple[int, int]:
    """How many files a unified diff changes, and how many lines it adds or removes."""
    files = parse_diff(patch.encode("utf-8", "surrogateescape")).files
    return len(files), sum(len(file.lines_of("add", "del")) for file in files)
