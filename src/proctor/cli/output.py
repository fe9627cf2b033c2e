"""How commands print: a table for people, JSON for programs."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

import click

from proctor.core.formatting import align_columns, column_blocks, column_widths, one_line, visible

if TYPE_CHECKING:
    from proctor.core.record import Versioned


_LEAST_COLUMN: Final = 14  # cells are not folded to less than this while columns can go below


def print_json(value: "Versioned | Sequence[Versioned]") -> None:
    """Print one JSON document on stdout; its version, or that of its items, is in it."""
    from proctor.core.record import to_json  # noqa: PLC0415 - a table needs no JSON library

    click.echo(to_json(value), nl=False)


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], *, err: bool = False) -> None:
    """Print aligned columns on stdout; on stderr, where they say something about progress.

    Where a terminal is too narrow, long cells are folded, and then columns follow below, beside the first again.
    """
    cells = [headings, *([one_line(cell) for cell in row] for row in rows)]
    width = terminal_width(sys.stderr if err else sys.stdout)
    least = [min(size, _LEAST_COLUMN) for size in column_widths(cells)]
    for number, columns in enumerate(column_blocks(least, width)):
        lines = align_columns([[row[column] for column in columns] for row in cells], width=width)
        for line in ("", *lines) if number else lines:
            click.echo(line, err=err)


def terminal_width(stream: TextIO | None = None) -> int | None:
    """The width of the terminal; None for a file or a pipe, which get every table in one piece."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    import shutil  # noqa: PLC0415 - for a terminal only

    return shutil.get_terminal_size().columns


def log(message: str) -> None:
    """Log something about progress on stderr; results go to stdout. Where stderr is closed, work continues."""
    try:
        click.echo(visible(message), err=True)
    except OSError:
        redirect_to_devnull(sys.stderr)


class TaskCounter:
    """Counts finished tasks, and logs each on stderr."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._count = 0
        self._total = total
        self._quiet = quiet

    def done(self, task_id: str, state: str) -> None:
        """One more."""
        self._count += 1
        if not self._quiet:
            log(f"[{self._count}/{self._total}] {state:11} {task_id}")

    def __str__(self) -> str:
        return f"{self._count} of {self._total} tasks"


def redirect_to_devnull(stream: TextIO) -> None:
    """Discard what is still written to this stream: its reader has gone, or its disk is full."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
