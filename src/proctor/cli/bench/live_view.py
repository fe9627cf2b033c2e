"""Runs in progress, drawn on a terminal: a bar, a headline for each run, and what is running."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from proctor.cli.bench.run_progress import RunProgress, time_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions, RenderableType

_BAR_COLUMNS: Final = 40


class LiveProgressView:
    """A bar over all runs, a headline each, then a line for each trial that is running, as many as fit.

    The headline of a single run takes as many lines as it needs: cost and estimate stand at its end.
    """

    def __init__(self, runs: Sequence[RunProgress]) -> None:
        self._runs = runs

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "Iterator[RenderableType]":
        from rich.text import Text

        def line(text: str, style: str = "") -> Text:
            clean = "".join(letter if letter.isprintable() else " " for letter in text)
            return Text(clean, style=style, no_wrap=True, overflow="ellipsis")

        heads = [f"{run.label or run.title}  {run.headline()}" for run in self._runs]
        if len(heads) == 1:
            heads = [part.plain for part in Text(heads[0]).wrap(console, options.max_width)]
        yield self._bar()
        for head in heads:
            yield line(head, "bold")
        stop = next((run.stop_message for run in self._runs if run.stop_message), "")
        if stop:
            yield line(stop, "red")
        lines = max(1, (options.max_height or console.height) - 3 - len(heads))
        # Another thread draws: what it iterates over must not change meanwhile.
        running = [(run, trial, what) for run in self._runs for trial, what in list(run.running.items())]
        for run, trial, what in running[:lines]:
            yield line(f"  {run.label}{': ' if run.label else ''}{trial}  {what}")
        if len(running) > lines:
            yield line(f"  and {len(running) - lines} more")

    def _bar(self) -> "RenderableType":
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        done, total = sum(run.done for run in self._runs), sum(run.total for run in self._runs)
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=_BAR_COLUMNS)
        grid.add_column(no_wrap=True)
        share = done / total if total else 0.0
        grid.add_row(ProgressBar(total=total, completed=done), f"{share:.0%}  {time_left(self._runs)}")
        return grid
