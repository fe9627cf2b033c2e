"""A command group whose commands are imported when they are used."""

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """Knows its commands by module and sentence; a module's command is called `command`."""

    def __init__(self, table: Mapping[str, tuple[str, str]], *, help: str) -> None:  # noqa: A002 - click's own name
        super().__init__(help=help, no_args_is_help=True)
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as click calls it
        """The names, as the help page lists them."""
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command itself, imported now."""
        if cmd_name not in self._table:
            return None
        found: click.Command = importlib.import_module(self._table[cmd_name][0]).command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The help page's list, from the table: no command is imported for it."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in self._table.items()])
