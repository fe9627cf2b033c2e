"""``proctor bench import``."""

from pathlib import Path

import click

from proctor.cli.output import log, print_json


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--format", "form", metavar="FORMAT", required=True, help="Which format; `proctor bench export` lists them."
)
@click.option("--benchmark", metavar="BENCH", help="The benchmark of the tasks, where the files do not name it.")
@click.option("--agent", help="The agent: where the files do not name it, or to choose one of several.")
@click.option("--model", help="The model, likewise.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    source: Path, form: str, benchmark: str | None, agent: str | None, model: str | None, *, as_json: bool
) -> None:
    """Store SOURCE, the output of another tool, as a run: report, compare and view then work on it.

    The run records its origin. Values that the files do not have stay unknown.
    """
    from proctor.report.cli_records import ImportedRun  # noqa: PLC0415 - the help page needs none of it
    from proctor.results.formats import ImportOptions, find_format, import_run  # noqa: PLC0415

    imported = find_format(form).read(source, ImportOptions(benchmark=benchmark, agent=agent, model=model))
    store = import_run(imported)
    name = f"{store.folder.parent.name}/{store.run_id}"
    if as_json:
        print_json(ImportedRun(run=name, folder=str(store.folder), tasks=len(store.config().tasks)))
    else:
        click.echo(name)
        log(f"stored in {store.folder}")
