"""``proctor bench breakdown``."""

from typing import Any, Final

import click

from proctor.cli.bench.report_output import check_formats, format_options, print_report
from proctor.core.errors import UsageError

_MAX_RUNS: Final = 2


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN]")
@click.option(
    "--by",
    "fields",
    multiple=True,
    metavar="FIELD",
    help="A field of the tasks: a category of the benchmark, or tag, oracle files, oracle lines, fail-to-pass tests, "
    "pass-to-pass tests, instruction words. May be repeated. [default: every category that makes groups]",
)
@format_options
def command(runs: tuple[str, ...], *, fields: tuple[str, ...], **given: Any) -> None:
    """Break the results of a RUN down by kind of task; of two runs, show where the second is better.

    The p-values are corrected for the number of groups (Holm).
    """
    from proctor.report.breakdown import (  # noqa: PLC0415 - the help page needs none of it
        break_down,
        breakdown_csv,
        breakdown_document,
        breakdown_report,
    )
    from proctor.results import find_run  # noqa: PLC0415

    check_formats(given)
    if len(runs) > _MAX_RUNS:
        raise UsageError(f"a breakdown is of one run or of two, not of {len(runs)}", fix="leave some out")
    stores = [find_run(name) for name in runs]
    found = break_down(stores, fields)
    print_report(
        lambda: breakdown_document(" against ".join(reversed([store.run_id for store in stores])), found),
        given,
        as_json=lambda: breakdown_report(found),
        as_csv=lambda: breakdown_csv(found),
    )
