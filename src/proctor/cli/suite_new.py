"""``proctor suite new`` and ``proctor suite add-task``."""

from pathlib import Path
from typing import Any

import click

_FOLDER = click.Path(path_type=Path, file_okay=False)
_EXISTING = click.Path(path_type=Path, exists=True)
_EXISTING_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_EXISTING_FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


@click.command(short_help="Make a suite.")
@click.argument("folder", type=_FOLDER)
@click.option("--id", "suite_id", metavar="ID", help="The id of the suite. [default: the folder's name]")
def new(folder: Path, suite_id: str | None) -> None:
    """Make a suite in FOLDER, with one task as an example."""
    from proctor.cli.scaffold import folder_name, write_templates
    from proctor.cli.suite_tasks import check_id

    name = folder_name(folder) if suite_id is None else check_id(suite_id)
    files = write_templates({"suite": folder}, {"name": name})
    click.echo(f"made {len(files)} files in {folder}; prove it with: proctor bench validate --suite {folder}")


@click.command("add-task", short_help="Add a task to a suite, from a diff.")
@click.argument("suite", type=_EXISTING)
@click.option("--id", "task_id", metavar="ID", required=True, help="The id of the task.")
@click.option(
    "--repo", type=_EXISTING_FOLDER, required=True, metavar="DIR", help="The program as it is before the change."
)
@click.option(
    "--diff", type=_EXISTING_FILE, required=True, metavar="FILE", help="The change that solves it, tests included."
)
@click.option(
    "--issue", type=_EXISTING_FILE, required=True, metavar="FILE", help="The task as the agent reads it (Markdown)."
)
@click.option(
    "--rev", metavar="REV", help="With a git repository: the commit to take, instead of the files as they are."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["pytest", "unittest"]),
    default="pytest",
    show_default=True,
    help="Test runner.",
)
@click.option(
    "--target",
    "targets",
    multiple=True,
    metavar="PATH",
    help="Test path; may be repeated. [default: the diff's test files]",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag of the task; may be repeated.")
@click.option("--difficulty", type=click.Choice(["easy", "medium", "hard"]), help="How hard it is.")
@click.option("--runner", default="local", show_default=True, metavar="NAME", help="The provider of environments.")
def add_task(**given: Any) -> int:
    """Add a task to SUITE: the change in --diff is split into hidden tests and oracle, and both are run.

    Which tests must fail before and pass after it is found by running them. A task whose tests do not tell the two
    apart is not added; exits 20 then.
    """
    from proctor.cli.suite_tasks import NewTask, add_task_to_suite

    made = add_task_to_suite(NewTask(**given))
    click.echo(
        f"added {made.task_id} to {made.suite}: {made.fail_to_pass} fail-to-pass, "
        f"{made.pass_to_pass} pass-to-pass; validate with: proctor bench validate --suite {made.suite} "
        f"--task {made.task_id}"
    )
    return 0
