"""``proctor bench sweep``."""

from pathlib import Path
from typing import Any

import click

from proctor.cli.bench.options import json_option, quiet_option, read_given, sweep_options
from proctor.core.request import RunRequest


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@sweep_options
@click.option("--dry-run", is_flag=True, help="Show what would be done, and what it can cost at most.")
@click.option("--yes", is_flag=True, help="Start without asking.")
@json_option
@quiet_option
def command(file: Path, **given: Any) -> int:
    """Make the runs that FILE (TOML) asks for, task by task in turns, and compare them.

    The plan and the most that it can cost are shown first. On a terminal you are asked whether to start; elsewhere a
    sweep whose cost nothing bounds is started with --yes only. A sweep that stops is resumed as one:
    `proctor bench resume BENCH/SWEEP`, which at its end, or after it, prints the comparison.

    Exits 0 when every trial has a verdict, 12 when one ended in an error or the sweep had to stop before its end.
    """
    from proctor.cli.bench import session  # noqa: PLC0415 - the help page needs none of it

    return session.run_job(session.read_sweep_file(file), given, read_given(RunRequest, given))
