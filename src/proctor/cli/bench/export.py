"""``proctor bench export``."""

from pathlib import Path

import click

from proctor.cli.output import log, print_json, print_table


@click.command()
@click.argument("run", required=False)
@click.option("--format", "form", metavar="FORMAT", help="Which format; without it, the formats are listed.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The file or folder to write. [default: BENCH-RUN-FORMAT, here]"
)
@click.option("--name", help="The name of the agent, in formats that have one. [default: agent and model]")
@click.option("--force", is_flag=True, help="Overwrite the target.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    run: str | None, form: str | None, out: Path | None, name: str | None, *, force: bool, as_json: bool
) -> None:
    """Write RUN in the format of another tool or of a benchmark's own harness."""
    from proctor.core.errors import UsageError  # noqa: PLC0415 - the help page needs none of it
    from proctor.report.cli_records import ExportedRun, FormatList  # noqa: PLC0415
    from proctor.results import find_run  # noqa: PLC0415
    from proctor.results.formats import ExportOptions, export_run, find_format, formats  # noqa: PLC0415

    if form is None:
        known = formats()
        if run is not None:
            raise UsageError("the format is missing", fix=f"give --format {'|'.join(known)}")
        if as_json:
            print_json(FormatList(formats=known))
        else:
            print_table(["FORMAT", "DESCRIPTION"], [[key, about] for key, about in known.items()])
        return
    found = find_format(form)
    if run is None:
        raise UsageError("the run is missing", fix="give a folder, benchmark/run-id, or a run-id that is unique")
    store = find_run(run)
    target = out or Path(f"{store.folder.parent.name}-{store.run_id}-{form}{found.suffix}")
    exported = export_run(store, found, target.absolute(), ExportOptions(name=name), replace=force)
    for sentence in exported.left_out:
        log(sentence)
    if as_json:
        print_json(ExportedRun(target=str(target), files=exported.files, left_out=exported.left_out))
    else:
        click.echo(str(target))
