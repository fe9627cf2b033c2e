"""The help pages of all commands, written to the files that are shipped: `--help` then needs neither click nor records.

``python -m proctor.cli.help_pages`` writes them; a test fails when the shipped ones are stale.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

import click

from proctor.cli import COMMANDS, HELP_WIDTH, help_file


def help_pages() -> Iterator[tuple[list[str], str]]:
    """The words of every command and group, and what click prints for them."""
    for name, (module, _) in sorted(COMMANDS.items()):
        yield from _pages(importlib.import_module(module).command, [name], None)


def _pages(command: click.Command, words: list[str], parent: click.Context | None) -> Iterator[tuple[list[str], str]]:
    name = words[-1] if parent else f"proctor {words[-1]}"
    context = command.context_class(command, parent=parent, info_name=name, terminal_width=HELP_WIDTH - 2)
    yield words, f"{command.get_help(context)}\n"
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            if (found := command.get_command(context, inner)) is not None and not found.hidden:
                yield from _pages(found, [*words, inner], context)


def main() -> None:
    """Write them all anew."""
    folder = Path(help_file([])).parent
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    for words, page in help_pages():
        Path(help_file(words)).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
