"""``proctor bench score``."""

import click

from proctor.cli.output import print_json


@click.command()
@click.argument("report")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(report: str, *, as_json: bool) -> None:
    """Print the key figures of REPORT, an evaluation report of ours or of a registered format; - is standard input."""
    from proctor.analysis.score import score_file, score_table  # noqa: PLC0415 - the help page needs none of it

    summary = score_file(report)
    if as_json:
        print_json(summary)
    else:
        click.echo(score_table(summary), nl=False)
