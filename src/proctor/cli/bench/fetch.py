"""``proctor bench fetch``."""

import asyncio
from pathlib import Path

import click

from proctor.cli.output import log, print_json


@click.command()
@click.argument("bench")
@click.option("--from", "origin", type=click.Path(path_type=Path, exists=True), help="A copy on this machine.")
@click.option("--split", metavar="NAME", help="A part of the benchmark, where it has several.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a sentence.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def command(bench: str, *, origin: Path | None, split: str | None, as_json: bool, quiet: bool) -> None:
    """Bring the data of BENCH to this machine, from its official place or from a copy; its digest is kept with it."""
    from proctor.benchmarks import benchmark_source, checked_split  # noqa: PLC0415 - the help page needs none of it

    source = benchmark_source(bench)
    chosen = checked_split(bench, source, split)
    got = asyncio.run(source.fetch(chosen, origin.absolute() if origin else None, (lambda _: None) if quiet else log))
    if as_json:
        print_json(got)
        return
    revision = f" at {got.revision}" if got.revision else ""
    click.echo(
        f"{got.benchmark} ({got.split}): {got.tasks} tasks from {got.origin}{revision}, digest {got.digest[:16]}"
    )
