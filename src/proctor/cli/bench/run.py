"""``proctor bench run``."""

from typing import Any

import click

from proctor.cli.bench.options import (
    all_option,
    benchmark_argument,
    json_option,
    quiet_option,
    read_request,
    run_options,
)
from proctor.core.request import RunRequest


@click.command()
@benchmark_argument
@run_options
@all_option
@click.option("--dry-run", is_flag=True, help="Show what would be done, and what it can cost at most.")
@json_option
@quiet_option
def command(**given: Any) -> int:
    """Let an agent solve the tasks of BENCH, or of --suite; grade and record every submission.

    Exits 0 when every task has a verdict, 12 when one ended in an error or the run had to stop before its end.
    """
    from proctor.cli.bench import session  # noqa: PLC0415 - the help page needs none of it

    return session.run_job(read_request(RunRequest, given, benchmark=given["benchmark"]), given)
