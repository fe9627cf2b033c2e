"""``proctor bench breakdown``."""

from typing import Any, Final

import click

from proctor.cli.bench.telling import check_forms, form_options, tell
from proctor.core.errors import UsageError

_PAIR: Final = 2


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN]")
@click.option(
    "--by",
    "fields",
    multiple=True,
    metavar="FIELD",
    help="A field of the tasks: a category of the benchmark, or tag, gold files, gold lines, tests to fix, tests to "
    "keep, instruction words. May be repeated; every category that makes groups, if not said.",
)
@form_options
def command(runs: tuple[str, ...], *, fields: tuple[str, ...], **given: Any) -> None:
    """Break the results of a RUN down by kind of task; of two runs, say where the second is better.

    The p-values are corrected for the number of groups (Holm): a group that stands out by chance should not.
    """
    from proctor.report.groups import (  # noqa: PLC0415 - the help page needs none of it
        break_down,
        breakdown_document,
        breakdown_report,
        breakdown_rows,
    )
    from proctor.results import find_run  # noqa: PLC0415

    check_forms(given)
    if len(runs) > _PAIR:
        raise UsageError(f"a breakdown is of one run or of two, not of {len(runs)}", fix="leave some out")
    stores = [find_run(name) for name in runs]
    found = break_down(stores, fields)
    tell(
        lambda: breakdown_document(" against ".join(reversed([store.run_id for store in stores])), found),
        given,
        as_json=lambda: breakdown_report(found),
        as_csv=lambda: breakdown_rows(found),
    )
