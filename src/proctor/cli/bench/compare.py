"""``proctor bench compare``."""

import click

from proctor.cli.output import note, print_json, print_table


@click.command()
@click.argument("first")
@click.argument("second")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(first: str, second: str, *, as_json: bool) -> None:
    """Compare two runs on the tasks that both have graded, and say whether the difference is more than chance.

    What else was different between them is said too: only what is under test should be.
    """
    from proctor.analysis import Observation, compare  # noqa: PLC0415 - the help page needs none of it
    from proctor.core.errors import UsageError  # noqa: PLC0415
    from proctor.report import differences, run_row, runs_text  # noqa: PLC0415
    from proctor.results import find_run  # noqa: PLC0415

    one, other = find_run(first), find_run(second)
    configs = one.config(), other.config()
    if configs[0].benchmark != configs[1].benchmark:
        raise UsageError(
            f"these are runs of two benchmarks, {configs[0].benchmark} and {configs[1].benchmark}",
            fix="compare runs of the same one",
        )
    seen = [list(run.results_as(Observation)) for run in (one, other)]
    paired, unlike = compare(*seen, names=(one.run_id, other.run_id)), differences(*configs)
    if as_json:
        print_json({"comparison": paired, "sentence": paired.sentence, "differences": unlike})
        return
    rows = [run_row(run.config(), run.results()) for run in (one, other)]
    click.echo(runs_text(f"{first} against {second}", rows), nl=False)
    if paired.gained or paired.lost:
        click.echo()
        flips = [[task, "gained"] for task in paired.gained] + [[task, "lost"] for task in paired.lost]
        print_table(["TASK", "FLIP"], flips)
    click.echo(f"\n{paired.sentence}")
    for difference in unlike:
        note(f"the runs differ: {difference}")
