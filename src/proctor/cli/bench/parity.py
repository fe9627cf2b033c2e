"""``proctor bench parity``."""

from pathlib import Path
from typing import Any

import click

from proctor.cli.bench.options import all_option, json_option, parity_options, quiet_option


@click.command()
@click.argument("benchmark", metavar="BENCH")
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option(
    "--predictions", type=click.Path(path_type=Path), required=True, help="The predictions that were graded there."
)
@parity_options
@all_option
@json_option
@quiet_option
def command(file: Path, **given: Any) -> int:
    """Grade the predictions of another harness here, and list where its report FILE and the official rule here differ.

    FILE is a report of the benchmark's own harness, or a folder of its instances' reports. Exits 0 when all that could
    be graded agrees, 20 when something does not, 12 when a prediction could not be graded here.
    """
    from proctor.cli.bench import grading  # noqa: PLC0415 - the help page needs none of it

    return grading.compare(file, given)
