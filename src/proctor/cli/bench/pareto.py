"""``proctor bench pareto``."""

from typing import Any, Final

import click

from proctor.cli.bench.report_output import check_formats, format_options, print_report
from proctor.cli.output import log
from proctor.core.errors import UsageError

_NAMES: Final = {"rate": "rate", "cost": "cost", "time": "seconds"}


@click.command()
@click.argument("bench")
@click.option(
    "--by",
    "names",
    multiple=True,
    type=click.Choice(list(_NAMES)),
    help="An objective; may be repeated. [default: all three]",
)
@format_options
def command(bench: str, *, names: tuple[str, ...], **given: Any) -> None:
    """Show which runs of BENCH are on the Pareto frontier of rate, cost and time, with bootstrap frequencies."""
    from proctor.analysis import ParetoResult  # noqa: PLC0415 - the help page needs none of it
    from proctor.report.pareto import ParetoReport, pareto_document, pareto_of_runs  # noqa: PLC0415
    from proctor.report.stored_runs import condition_warnings  # noqa: PLC0415
    from proctor.report.tables import records_csv  # noqa: PLC0415
    from proctor.results import list_runs  # noqa: PLC0415
    from proctor.results.store import results_root  # noqa: PLC0415

    check_formats(given)
    runs = list_runs(bench)
    if not runs:
        raise UsageError(
            f"there are no runs of {bench!r}", where=results_root(), fix="make one with `proctor bench run`"
        )
    objectives: Any = tuple(_NAMES[name] for name in dict.fromkeys(names or _NAMES))
    results, warnings = pareto_of_runs(runs, objectives), condition_warnings(runs)
    title = f"{bench}: {', '.join(dict.fromkeys(names or _NAMES))}"
    print_report(
        lambda: pareto_document(title, results, objectives, warnings),
        given,
        as_json=lambda: ParetoReport(benchmark=bench, objectives=objectives, runs=results),
        as_csv=lambda: records_csv(ParetoResult, results),
    )
    if given["as_json"] or given["as_csv"]:
        for warning in warnings:
            log(warning)
