"""``proctor completion``: the scripts that let a shell complete commands, options and values.

They are click's. They call `proctor` again with the words before the cursor in the environment, and print what may
follow; `print_words` answers. Values are completed by the parameters themselves (`proctor.cli.completers`).
"""

import importlib
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from proctor.cli import COMMANDS, COMPLETE_VARIABLE
from proctor.core.errors import UsageError

_SHELLS: Final = ("bash", "zsh", "fish")
_NAME: Final = "proctor"


class _AllCommands(click.Group):
    """Every command by name; its module is imported when its words are completed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Their names and sentences, from the table: none is imported for this."""
        names = [
            click.shell_completion.CompletionItem(name, help=sentence)
            for name, (_, sentence) in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return names or super(click.Group, self).shell_complete(ctx, incomplete)


@click.command()
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    r"""Print the script with which SHELL completes commands, options, benchmarks, agents, runs and tasks.

    \b
    bash  proctor completion bash > ~/.local/share/bash-completion/completions/proctor
    zsh   proctor completion zsh > DIR/_proctor, where DIR is one of your $fpath
    fish  proctor completion fish > ~/.config/fish/completions/proctor.fish
    """
    click.echo(_completion(shell).source())


def print_words(instruction: str) -> int:
    """Print what may follow the words in the environment, as the shell's script asks; the exit code."""
    shell, _, what = instruction.partition("_")
    if shell not in _SHELLS or what != "complete":
        raise UsageError(f"{COMPLETE_VARIABLE}={instruction} is not what a completion script sets")
    click.echo(_completion(shell).complete())
    return 0


def _completion(shell: str) -> click.shell_completion.ShellComplete:
    kind = get_completion_class(shell)
    if kind is None:
        raise UsageError(f"{shell} cannot be completed with this version of click", fix="upgrade click")
    return kind(_AllCommands(_NAME), {}, _NAME, COMPLETE_VARIABLE)
