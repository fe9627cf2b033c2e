"""Groups of commands, which suggest what was mistyped, and the option --results, which several groups have."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from proctor.core.suggestions import closest

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.shell_completion import CompletionItem


_MISTYPED: Final = 0.8
RESULTS_KEY: Final = "proctor.results"  # of a context's `meta`


class OrderedGroup(click.Group):
    """A group whose help page lists the commands in the order in which they are declared."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is asked for; of one that is not there, what it may have been meant to be."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = closest(args[0], self.list_commands(ctx))
            if near is None or "mean" in error.message:
                raise
            raise click.UsageError(f"{error.message.rstrip('.')}, did you mean {near!r}?", ctx) from None


class DefaultGroup(OrderedGroup):
    """A group whose first command is meant where none is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments, with the first command's name before them where they begin otherwise."""
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)  # a shell completes the first word
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        word = args[0] if args and not named and not args[0].startswith("-") else ""
        near = closest(word, self.commands, cutoff=_MISTYPED) if word else None
        if near is not None and not ctx.resilient_parsing:
            raise click.UsageError(f"No such command {word!r}, did you mean {near!r}?", ctx)
        return super().parse_args(ctx, args if named else [next(iter(self.commands)), *args])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The commands, and what the first of them takes."""
        first = next(iter(self.commands.values()))
        inner = click.Context(first, parent=ctx, info_name=first.name, resilient_parsing=True)
        return [*super().shell_complete(ctx, incomplete), *first.shell_complete(inner, incomplete)]


def completes(what: str) -> "Callable[[click.Context, click.Parameter, str], list[CompletionItem]]":
    """The values that a shell offers, by the name of a completer in `proctor.cli.completers`."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from proctor.cli.completers import complete_values

        return complete_values(what, ctx, incomplete)

    return complete


def _use_results(ctx: click.Context, _: click.Parameter, folder: Path | None) -> None:
    if folder is not None and ctx.resilient_parsing:
        ctx.meta[RESULTS_KEY] = folder  # a shell completes the line, and asks for values when it is parsed
    elif folder is not None:
        from proctor.results.store import use_results

        ctx.with_resource(use_results(folder))


_RESULTS: Final[dict[str, Any]] = {
    "type": click.Path(path_type=Path, file_okay=False),
    "metavar": "DIR",
    "expose_value": False,
    "is_eager": True,
    "callback": _use_results,
    "help": "Where runs are stored. [default: PROCTOR_RESULTS, or results]",
}
results_option: Final = click.option("--results", **_RESULTS)
