"""A table, and its rendering for a terminal, in Markdown and as CSV."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from proctor.core.formatting import align_columns, column_blocks, column_widths, one_line
from proctor.core.record import Record


class Table(Record):
    """Headings, rows of cells, and notes below them."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def as_text(table: Table, *, underline: str = "=", width: int | None = None) -> str:
    """The table for a terminal; columns that do not fit into its `width` follow below, beside the first again.

    Where two columns do not fit, their cells are folded.
    """
    cells = [[one_line(cell) for cell in line] for line in (table.headings, *table.rows)]
    title, notes = _wrap(one_line(table.title), width), [_wrap(one_line(note), width) for note in table.notes]
    lines = [title, underline * max(map(len, title.split("\n")))]
    for number, columns in enumerate(column_blocks(column_widths(cells), width)):
        lines += [""] * (number > 0)
        lines += align_columns([[line[column] for column in columns] for line in cells], width=width, rule=True)
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def as_sentences(sentences: Iterable[str], *, width: int | None = None) -> str:
    """Sentences for a terminal, one per line."""
    return "\n".join(_wrap(one_line(sentence), width) for sentence in sentences) + "\n"


def _wrap(sentence: str, width: int | None) -> str:
    if width is None:
        return sentence
    from textwrap import fill

    # Paths and commands stay whole, to be copied.
    return fill(sentence, width, break_long_words=False, break_on_hyphens=False)


def as_markdown(table: Table) -> str:
    """The table in Markdown."""
    lines = [f"## {escape_markdown(table.title)}", ""]
    lines.append("| " + " | ".join(map(escape_markdown, table.headings)) + " |")
    lines.append("|" + " --- |" * len(table.headings))
    lines += ["| " + " | ".join(map(escape_markdown, row)) + " |" for row in table.rows]
    for note in table.notes:
        lines += ["", escape_markdown(note)]
    return "\n".join(lines) + "\n"


def records_csv(kind: type[Record], records: Iterable[Record]) -> str:
    """Records for a spreadsheet, unrounded: a record within a record has a column for each of its fields.

    Lists and mappings have no columns; they are in the JSON output.
    """
    columns = _columns(kind)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow("_".join(path) for path in columns)
    writer.writerows([_value_at(record, path) for path in columns] for record in records)
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
            if not any(isinstance(option, _NESTED_TYPES) for option in options):
                found.append((field.name,))
    return found


_NESTED_TYPES = (
    msgspec.inspect.DictType,
    msgspec.inspect.ListType,
    msgspec.inspect.TupleType,
    msgspec.inspect.VarTupleType,
)


def _value_at(record: Any, path: Sequence[str]) -> Any:
    for name in path:
        record = None if record is None else getattr(record, name)
    return record


def escape_markdown(text: str) -> str:
    """Text in which no character has a meaning in Markdown."""
    for character in "\\`*_[]<>|#$~":
        text = text.replace(character, f"\\{character}")
    return " ".join(one_line(text).split())
