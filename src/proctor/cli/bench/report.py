"""``proctor bench report``."""

import click

from proctor.cli.output import print_json
from proctor.core.errors import UsageError


@click.command()
@click.argument("bench")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV instead of a table.")
def command(bench: str, *, as_json: bool, as_csv: bool) -> None:
    """Compare the runs of BENCH: resolve rate with its interval, errors apart, cost and time per answer."""
    from proctor.report import run_row, runs_csv, runs_text  # noqa: PLC0415 - the help page needs none of it
    from proctor.results import list_runs  # noqa: PLC0415
    from proctor.results.store import results_root  # noqa: PLC0415

    runs = list_runs(bench)
    if not runs:
        raise UsageError(
            f"there are no runs of {bench!r}", where=results_root(), fix="make one with `proctor bench run`"
        )
    rows = [run_row(run.config(), run.results()) for run in runs]
    if as_json:
        print_json(rows)
    elif as_csv:
        click.echo(runs_csv(rows), nl=False)
    else:
        click.echo(runs_text(f"{bench} Results", rows), nl=False)
