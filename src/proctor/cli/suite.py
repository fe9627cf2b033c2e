"""``proctor suite``: suites of your own.

The sub-commands are a table: name, module, name of the click command there, and a sentence for the help page. A module
is imported when its command is used.
"""

import importlib
from typing import Final

import click

from proctor.cli.groups import OrderedGroup

SUBCOMMANDS: Final = {
    "new": ("proctor.cli.suite_new", "new", "Make a suite, with one task as an example."),
    "add-task": ("proctor.cli.suite_new", "add_task", "Add a task to a suite, from a change and its tests."),
    "mine": ("proctor.cli.suite_mine", "command", "Make a suite from a repository's history."),
    "show": ("proctor.cli.suite_show", "command", "What is in a suite, and what mining left out."),
    "export": ("proctor.cli.suite_export", "command", "Write a suite's tasks in another project's format."),
}


class SubcommandTable(OrderedGroup):
    """A group whose commands are listed in a table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module, name, _ = SUBCOMMANDS[cmd_name]
        found: click.Command = getattr(importlib.import_module(module), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help page's list; no module is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, _, sentence) in SUBCOMMANDS.items()])


@click.group(cls=SubcommandTable, no_args_is_help=True)
def command() -> None:
    """Suites of your own: written by hand, made from a repository's history, shown, exported."""
