"""What `report` does: the runs of a benchmark in numbers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from proctor.analysis.log_stats import LogStats
from proctor.cli.bench.report_output import check_formats, log_unreadable, print_report
from proctor.cli.output import log
from proctor.core.errors import InvalidData
from proctor.core.formatting import plural
from proctor.report.stored_runs import RunsReport, run_rows
from proctor.results import RunStore, list_runs
from proctor.results.run_names import no_runs_of
from proctor.runner.health_lookup import HealthLookup

if TYPE_CHECKING:
    from proctor.report.document import Document


def print_runs(bench: str, *, healthy: bool | None, logs: bool, **given: Any) -> None:
    """``proctor bench report``."""
    check_formats(given)
    runs = benchmark_runs(bench)
    rows = run_rows(runs, HealthLookup(enabled=healthy))
    from proctor.benchmarks import published_rows

    published, log_stats = published_rows(bench), _read_logs(runs) if logs else []

    def document() -> "Document":
        from proctor.report.runs import runs_document

        tasks = {task for run in runs for task in run.config().tasks} if published else set()
        return runs_document(f"{bench} Results", rows, published, tasks=tasks, log_stats=log_stats)

    def as_csv() -> str:
        from proctor.report.runs import runs_csv

        return runs_csv(rows)

    print_report(
        document,
        given,
        as_json=lambda: RunsReport(
            benchmark=bench, runs=tuple(rows), published=published, log_stats=tuple(log_stats) if logs else UNSET
        ),
        as_csv=as_csv,
    )
    log_unreadable(runs)


def benchmark_runs(bench: str) -> list[RunStore]:
    """The runs of a benchmark. One whose configuration cannot be read is named on stderr, and left out.

    Raises:
        UsageError: it has none.
    """
    runs, archived = [], 0
    for store in list_runs(bench):
        try:
            config = store.config()
        except InvalidData as error:
            log(f"{store.name} is left out: {error}")
        else:
            archived += config.archived
            runs += [] if config.archived else [store]
    if archived:
        log(f"{plural(archived, 'archived run')} {'is' if archived == 1 else 'are'} left out")
    if not runs:
        raise no_runs_of(bench)
    return runs


def _read_logs(runs: Sequence[RunStore]) -> list[LogStats]:
    from proctor.report.log_stats import read_log_stats

    return [read_log_stats(run) for run in runs]
