"""How commands print: a table for people, JSON for programs."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

import click

from proctor.core.formatting import align_columns, column_blocks, column_widths, one_line, visible

if TYPE_CHECKING:
    from proctor.core.record import Versioned


_LEAST_COLUMN: Final = 14  # cells are not folded to less than this while columns can go below


def print_json(value: "Versioned | Sequence[Versioned]") -> None:
    """Print one JSON document on stdout; its version, or that of its items, is in it."""
    from proctor.core.record import to_json

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
    import shutil

    return shutil.get_terminal_size().columns


def _write_to_stderr(line: str) -> None:
    click.echo(line, err=True)


_write_line: Callable[[str], None] = _write_to_stderr


@contextmanager
def log_with(write: Callable[[str], None]) -> Iterator[None]:
    """Let every line that is logged in the block be written by this function: something else is drawn on the screen."""
    global _write_line  # noqa: PLW0603 - there is one stderr
    before, _write_line = _write_line, write
    try:
        yield
    finally:
        _write_line = before


def log(message: str) -> None:
    """Log something about progress on stderr; results go to stdout. Where stderr is closed, work continues."""
    try:
        _write_line(visible(message))
    except OSError:
        redirect_to_devnull(sys.stderr)


def redirect_to_devnull(stream: TextIO) -> None:
    """Discard what is still written to this stream: its reader has gone, or its disk is full."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
