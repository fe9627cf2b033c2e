"""``proctor doctor``: what this machine can and cannot do."""

import asyncio

import click

from proctor.cli.output import log, print_json, print_table
from proctor.core.errors import InfrastructureError
from proctor.doctor import CheckState, diagnose


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--clean", is_flag=True, help="Remove what killed runs have left: environments, containers, networks.")
def command(*, as_json: bool, clean: bool) -> int:
    """Show what this machine can do for Proctor, what each thing is needed for, and how to get what is missing.

    Exits 12 when something is missing without which nothing works: git, or any way to make environments.
    """
    diagnosis = diagnose()
    if clean:
        has_engine = any(check.name == "docker" and check.state is CheckState.OK for check in diagnosis.checks)
        removed = _clean(docker=has_engine)
        log(f"removed {removed}")
    if as_json:
        print_json(diagnosis)
    else:
        print_table(
            ["CHECK", "STATE", "FOUND", "NEEDED FOR"],
            [[check.name, check.state, check.detail, check.needed_for] for check in diagnosis.checks],
        )
        for check in diagnosis.checks:
            if check.state is not CheckState.OK:
                log(f"{check.name}: {check.remedy}")
        if not diagnosis.environments_work:
            log("no environment can be made on this machine: nothing can be run before bubblewrap or docker works")
    return 0 if diagnosis.usable else InfrastructureError.exit_code


def _clean(*, docker: bool) -> str:
    from proctor.environments import reap

    gone = asyncio.run(reap(docker=docker))
    counts = (len(gone.local_environments), len(gone.containers), len(gone.networks))
    return "{} environments, {} containers, {} networks".format(*counts)
