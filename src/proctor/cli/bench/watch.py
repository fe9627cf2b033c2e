"""What `watch` does: a run that another process works on, read from its journal and its recordings."""

import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

from proctor.cli.output import print_json, terminal_width
from proctor.core.errors import InfrastructureError
from proctor.core.formatting import money, percent, percent_interval, plural, truncate_line, visible
from proctor.report.run_index import RunEntry
from proctor.report.run_list import RunList, run_list_row
from proctor.report.run_table import RunTable
from proctor.results import RunStore, find_run, find_sweep

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_POLL_SECONDS: Final = 1.0
_MAX_RUNNING: Final = 20
_MAX_EARLIER: Final = 20  # of what ended before


class _WatchedRun:
    """A run, and which of its trials have been reported."""

    def __init__(self, store: RunStore) -> None:
        self.table = RunTable(store)
        self._reported: set[tuple[str, int]] = set()

    def refresh(self) -> Iterator[str]:
        """Read what is new; a line for each trial that has ended since."""
        first = not self._reported
        if not self.table.refresh() and not first:
            return
        total = self.table.counts().total
        ended = [row for row in self.table.all() if not row.live and (row.task_id, row.trial) not in self._reported]
        left_out = len(ended) - _MAX_EARLIER if first else 0
        for number, row in enumerate(ended):
            self._reported.add((row.task_id, row.trial))
            if number == left_out > 0:
                yield f"{self._title}: {plural(left_out, 'earlier trial')}: `proctor bench show` lists them"
            if number >= left_out:
                reason = "" if row.resolved or not row.reason else f": {truncate_line(row.reason)}"
                yield visible(f"{self._title}: [{len(self._reported)}/{total}] {row.name} {row.status}{reason}")

    @property
    def _title(self) -> str:
        return self.entry().title

    def entry(self) -> RunEntry:
        """The run as lists have it."""
        table = self.table
        return RunEntry(name=table.store.name, config=table.config, counts=table.counts(), running=table.running)

    def headline(self) -> str:
        """One line on how far the run is."""
        entry, counts = self.entry(), self.table.counts()
        rate = (
            f"{percent(counts.rate)} ({percent_interval(counts.low, counts.high)})" if counts.counted else "no rate yet"
        )
        running = f", {counts.running} running" if counts.running else ""
        return (
            f"{entry.title}: {entry.state}, {counts.done}/{counts.total} done{running}, "
            f"{counts.resolved} resolved, {rate}, {plural(counts.errors, 'error')}, {money(counts.cost_usd)}"
        )

    def running_lines(self) -> list[str]:
        """What each trial that is being worked on does."""
        return [visible(f"  {row.name}  {row.status}, {money(row.cost_usd)}") for row in self.table.all() if row.active]


def watch(run: str, *, once: bool, as_json: bool) -> int:
    """``proctor bench watch``."""
    sweep = find_sweep(run)
    stores = [store for _, store in sweep.runs()] if sweep is not None else [find_run(run)]
    watched = [_WatchedRun(store) for store in stores]
    if once:
        for one in watched:
            one.table.refresh()
    else:
        _follow(watched, quiet=as_json)
    if as_json:
        rows = tuple(run_list_row(one.entry()) for one in watched)
        print_json(RunList(results=str(stores[0].folder.parent.parent), runs=rows))
    else:
        for one in watched:
            click.echo(one.headline())
    stopped = any(one.entry().state == "stopped" for one in watched)
    return InfrastructureError.exit_code if stopped else 0


def _follow(watched: list[_WatchedRun], *, quiet: bool) -> None:
    """Print what ends until nobody works on any of the runs; on a terminal, with what is running below."""
    live = None if quiet or terminal_width() is None else _live_view()
    shown: AbstractContextManager[Any] = nullcontext() if live is None else live
    with shown:
        while True:
            for line in [line for one in watched for line in one.refresh()]:
                if live is not None:
                    live.console.print(line, markup=False, highlight=False)
                elif not quiet:
                    click.echo(line)
            sys.stdout.flush()
            if not any(one.table.running for one in watched):
                return
            if live is not None:
                running = [line for one in watched for line in one.running_lines()]
                more = [f"  and {len(running) - _MAX_RUNNING} more"] if len(running) > _MAX_RUNNING else []
                live.update(
                    _text("\n".join([*(one.headline() for one in watched), *running[:_MAX_RUNNING], *more])),
                    refresh=True,
                )
            time.sleep(_POLL_SECONDS)


def _text(lines: str) -> "Text":
    from rich.text import Text

    return Text(lines, no_wrap=True, overflow="ellipsis")


def _live_view() -> "Live":
    from rich.console import Console
    from rich.live import Live

    return Live(console=Console(markup=False, highlight=False), transient=True, auto_refresh=False)
