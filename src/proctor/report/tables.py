"""A table, and the ways to write one down: for a terminal, in Markdown, as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from proctor.core.record import Record
from proctor.core.text import one_line


class Table(Record):
    """Headings, rows of cells, and what is to be said below them."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def as_text(table: Table, *, underline: str = "=") -> str:
    """The table for people at a terminal."""
    cells = [[one_line(cell) for cell in line] for line in (table.headings, *table.rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(table.headings))]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    rule = "   ".join("-" * width for width in widths)
    title, notes = one_line(table.title), [one_line(note) for note in table.notes]
    below = ["", *notes] if notes else []
    return "\n".join([title, underline * len(title), lines[0], rule, *lines[1:], *below]) + "\n"


def as_markdown(table: Table, *, level: int = 2) -> str:
    """The same for a page or a pull request."""
    lines = [f"{'#' * level} {plain(table.title)}", ""]
    lines.append("| " + " | ".join(map(plain, table.headings)) + " |")
    lines.append("|" + " --- |" * len(table.headings))
    lines += ["| " + " | ".join(map(plain, row)) + " |" for row in table.rows]
    for note in table.notes:
        lines += ["", plain(note)]
    return "\n".join(lines) + "\n"


def records_csv(kind: type[Record], records: Iterable[Record]) -> str:
    """Records for a spreadsheet, unrounded: a record within a record has a column for each of its fields.

    Lists and mappings, which are as long as they like, are left to JSON.
    """
    columns = _columns(kind)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow("_".join(path) for path in columns)
    writer.writerows([_reached(record, path) for path in columns] for record in records)
    return out.getvalue()


def _columns(kind: type[msgspec.Struct]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for field in msgspec.structs.fields(kind):
        inner = msgspec.inspect.type_info(field.type)
        options = inner.types if isinstance(inner, msgspec.inspect.UnionType) else (inner,)
        for option in options:
            if isinstance(option, msgspec.inspect.StructType):
                found += [(field.name, *path) for path in _columns(option.cls)]
                break
        else:
            if not any(isinstance(option, _LONG) for option in options):
                found.append((field.name,))
    return found


_LONG = (
    msgspec.inspect.DictType,
    msgspec.inspect.ListType,
    msgspec.inspect.TupleType,
    msgspec.inspect.VarTupleType,
)


def _reached(record: Any, path: Sequence[str]) -> Any:
    for name in path:
        record = None if record is None else getattr(record, name)
    return record


def plain(text: str) -> str:
    """Text in which no character means something to Markdown."""
    for character in "\\`*_[]<>|#":
        text = text.replace(character, f"\\{character}")
    return " ".join(one_line(text).split())
