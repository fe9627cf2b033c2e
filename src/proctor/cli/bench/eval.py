"""``proctor bench eval``."""

from pathlib import Path
from typing import Any

import click

from proctor.cli.bench.options import (
    all_option,
    benchmark_argument,
    evaluate_options,
    format_option,
    json_option,
    quiet_option,
)


@click.command()
@benchmark_argument
@click.option(
    "--predictions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The predictions to grade: JSON lines, or a file of the benchmark's own harness.",
)
@click.option("--oracle", is_flag=True, help="Grade the oracle instead: the reference solutions.")
@evaluate_options
@all_option
@json_option
@format_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write the report to this file: in the form of --format, else JSON.",
)
@quiet_option
def command(**given: Any) -> int:
    """Grade predictions for the tasks of BENCH, or of --suite, and report.

    Exits 0 when every task has a verdict, 12 when a task ended in an error that is not the submission's.
    """
    from proctor.cli.bench import grading  # noqa: PLC0415 - the help page needs none of it

    return grading.evaluate(given)
