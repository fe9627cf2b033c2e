"""``proctor bench resume``."""

from typing import Any

import click

from proctor.cli.bench.options import json_option, quiet_option, read_given, resume_options
from proctor.core.request import RunRequest


@click.command()
@click.argument("run")
@resume_options
@json_option
@quiet_option
def command(run: str, **given: Any) -> int:
    """Resume RUN where it stopped. No finished stage is repeated, and no submission is paid for twice.

    RUN is a folder, benchmark/run-id, or a run-id that only one benchmark has. A sweep is named alike, and resumed as
    one. With --max-cost it gets a new limit, which counts what it has spent before. Exits as `run` and `sweep` do.
    """
    from proctor.cli.bench import session  # noqa: PLC0415 - the help page needs none of it

    return session.run_job(session.stored_job(run), given, read_given(RunRequest, given))
