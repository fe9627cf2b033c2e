"""``proctor doctor``: what this machine can and cannot do."""

import click

from proctor.cli.output import note, print_json, print_table
from proctor.core.errors import InfrastructureError
from proctor.doctor import State, diagnose


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def command(*, as_json: bool) -> int:
    """Show what this machine can do for Proctor, what each thing is needed for, and how to get what is missing.

    Exits 12 when something is missing without which nothing works.
    """
    diagnosis = diagnose()
    if as_json:
        print_json(diagnosis)
    else:
        print_table(
            ["CHECK", "STATE", "FOUND", "NEEDED FOR"],
            [[check.name, check.state, check.detail, check.needed_for] for check in diagnosis.checks],
        )
        for check in diagnosis.checks:
            if check.state is not State.OK:
                note(f"{check.name}: {check.remedy}")
    return 0 if diagnosis.usable else InfrastructureError.exit_code
