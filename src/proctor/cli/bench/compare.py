"""``proctor bench compare``."""

import click

from proctor.cli.output import print_json, print_table


@click.command()
@click.argument("first")
@click.argument("second")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(first: str, second: str, *, as_json: bool) -> None:
    """Compare two runs on the tasks that both have graded, and say whether the difference is more than chance."""
    from proctor.analysis.paired import compare  # noqa: PLC0415 - the help page needs none of it
    from proctor.report import run_row, runs_text  # noqa: PLC0415
    from proctor.results import find_run  # noqa: PLC0415

    one, other = find_run(first), find_run(second)
    paired = compare(one.results(), other.results())
    if as_json:
        print_json({"comparison": paired, "sentence": paired.sentence})
        return
    rows = [run_row(run.config(), run.results()) for run in (one, other)]
    click.echo(runs_text(f"{first} against {second}", rows), nl=False)
    if paired.gained or paired.lost:
        click.echo()
        flips = [[task, "gained"] for task in paired.gained] + [[task, "lost"] for task in paired.lost]
        print_table(["TASK", "FLIP"], flips)
    click.echo(f"\n{paired.sentence}")
