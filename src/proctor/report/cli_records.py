"""Records that commands print with `--json` and do not store: each has a version and a schema."""

from typing import Literal

from proctor.core.benchmark import InvalidTask, TaskHealth
from proctor.core.record import Record
from proctor.core.result import TaskResult
from proctor.core.run import RunConfig
from proctor.core.sweep import Sweep


class TaskRow(Record):
    """One task in the list of tasks."""

    id: str
    tags: tuple[str, ...]
    categories: dict[str, str]


class TaskList(Record):
    """`bench list BENCH`: the tasks of a benchmark, and those that are invalid."""

    benchmark: str
    source: str
    tasks: tuple[TaskRow, ...]
    invalid_tasks: tuple[InvalidTask, ...]
    schema_version: Literal["proctor.task_list@2"] = "proctor.task_list@2"


class RunnableRow(Record):
    """Whether this machine can run a task; if not, the missing requirement."""

    id: str
    runnable: bool
    reason: str | None


class RunnableList(Record):
    """`bench list BENCH --runnable`."""

    benchmark: str
    runner: str
    tasks: tuple[RunnableRow, ...]
    schema_version: Literal["proctor.runnable_list@2"] = "proctor.runnable_list@2"


class ValidationReport(Record):
    """`bench validate`: `ok` when every validated task is healthy."""

    benchmark: str
    source: str
    ok: bool
    tasks: tuple[TaskHealth, ...]
    schema_version: Literal["proctor.validation@2"] = "proctor.validation@2"


class RunPlan(Record):
    """`bench run --dry-run`: the run that would be made; the cost is None when it is not bounded."""

    config: RunConfig
    trials: int
    max_cost_usd: float | None
    schema_version: Literal["proctor.run_plan@2"] = "proctor.run_plan@2"


class SweepPlan(Record):
    """`bench sweep --dry-run`: the same for all runs of a sweep."""

    sweep: Sweep
    trials: int
    max_cost_usd: float | None
    schema_version: Literal["proctor.sweep_plan@2"] = "proctor.sweep_plan@2"


class RunDetails(Record):
    """`bench show RUN`: its configuration, and every recorded result."""

    config: RunConfig
    tasks: tuple[TaskResult, ...]
    schema_version: Literal["proctor.run_details@1"] = "proctor.run_details@1"


class FormatList(Record):
    """`bench export` without a run: the formats, and what each is."""

    formats: dict[str, str]
    schema_version: Literal["proctor.format_list@1"] = "proctor.format_list@1"


class ExportedRun(Record):
    """`bench export`: where a run was written, in how many files, and what was left out."""

    target: str
    files: int
    left_out: tuple[str, ...]
    schema_version: Literal["proctor.exported_run@1"] = "proctor.exported_run@1"


class ImportedRun(Record):
    """`bench import`: the new run's name and folder, and how many tasks it has."""

    run: str
    folder: str
    tasks: int
    schema_version: Literal["proctor.imported_run@1"] = "proctor.imported_run@1"
