"""``proctor bench list``."""

from typing import Any

import click

from proctor.cli.bench.options import all_option, benchmark_argument, format_option, json_option, list_options


@click.command()
@benchmark_argument
@list_options
@all_option
@click.option("--runnable", is_flag=True, help="Show which tasks this machine can run, and why not the others.")
@json_option
@format_option
def command(**given: Any) -> int:
    """List the benchmarks; with BENCH or --suite, the tasks of one."""
    from proctor.cli.bench import listing  # noqa: PLC0415 - the help page needs none of it

    return listing.print_list(given)
