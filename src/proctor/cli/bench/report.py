"""``proctor bench report``."""

from typing import TYPE_CHECKING, Any

import click

from proctor.cli.bench.report_output import check_formats, format_options, print_report
from proctor.core.errors import UsageError

if TYPE_CHECKING:
    from proctor.analysis.log_stats import LogStats
    from proctor.report.document import Document
    from proctor.report.stored_runs import RunsReport
    from proctor.results import RunStore


@click.command()
@click.argument("bench")
@click.option(
    "--healthy/--no-healthy",
    default=None,
    help="Also the score on the tasks that `validate` found healthy; by default where that needs no image.",
)
@click.option("--logs", is_flag=True, help="Also read the logs: wasted tool calls, agents that gave up. Takes longer.")
@format_options
def command(bench: str, *, healthy: bool | None, logs: bool, **given: Any) -> None:
    """Report on the runs of BENCH: resolve rates with intervals, errors, cost, time, failure reasons.

    Published results are listed below the table.
    """
    from proctor.report.stored_runs import run_rows  # noqa: PLC0415 - the help page needs none of it
    from proctor.results import list_runs  # noqa: PLC0415
    from proctor.results.store import results_root  # noqa: PLC0415
    from proctor.runner.health_lookup import HealthLookup  # noqa: PLC0415

    check_formats(given)
    runs = list_runs(bench)
    if not runs:
        raise UsageError(
            f"there are no runs of {bench!r}", where=results_root(), fix="make one with `proctor bench run`"
        )
    rows = run_rows(runs, HealthLookup(enabled=healthy))
    from proctor.benchmarks import published_rows  # noqa: PLC0415 - in the memory that the results have released

    published = published_rows(bench)
    log_stats = _read_logs(runs) if logs else []

    def document() -> "Document":
        from proctor.report.runs import runs_document  # noqa: PLC0415

        tasks = {task for run in runs for task in run.config().tasks} if published else set()
        return runs_document(f"{bench} Results", rows, published, tasks=tasks, log_stats=log_stats)

    def as_json() -> "RunsReport":
        from msgspec import UNSET  # noqa: PLC0415

        from proctor.report.stored_runs import RunsReport  # noqa: PLC0415

        return RunsReport(
            benchmark=bench, runs=tuple(rows), published=published, log_stats=tuple(log_stats) if logs else UNSET
        )

    def as_csv() -> str:
        from proctor.report.runs import runs_csv  # noqa: PLC0415

        return runs_csv(rows)

    print_report(document, given, as_json=as_json, as_csv=as_csv)


def _read_logs(runs: "list[RunStore]") -> "list[LogStats]":
    from proctor.report.log_stats import read_log_stats  # noqa: PLC0415 - for --logs only

    return [read_log_stats(run) for run in runs]
