"""``proctor bench validate``."""

from pathlib import Path
from typing import Any

import click

from proctor.cli.bench.options import (
    all_option,
    benchmark_argument,
    format_option,
    json_option,
    quiet_option,
    validate_options,
)


@click.command()
@benchmark_argument
@validate_options
@all_option
@click.option(
    "--write-exclusions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the ids of unhealthy tasks to a file, which --exclude reads.",
)
@json_option
@format_option
@quiet_option
def command(**given: Any) -> int:
    """Prove on this machine that each task of BENCH, or of --suite, fails as labelled, is solved by its oracle,
    gives the same results again, and does not leak its solution.

    Exits 20 when a task is not healthy.
    """
    from proctor.cli.bench import grading  # noqa: PLC0415 - the help page needs none of it

    return grading.validate(given)
