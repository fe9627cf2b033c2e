"""A report before it is rendered: sections of sentences, tables and charts."""

from typing import Any, Final

from proctor.core.record import Record
from proctor.report.tables import Table, as_markdown, as_sentences, as_text, escape_markdown

Chart = dict[str, Any]  # a Vega-Lite specification
_UNDERLINES: Final = "=-"


class Section(Record):
    """One part of a report. Charts are in pages only; the table has the same numbers.

    Attributes:
        page_only: it is too long for a terminal.
    """

    sentences: tuple[str, ...] = ()
    table: Table | None = None
    charts: tuple[tuple[str, Chart], ...] = ()
    page_only: bool = False


class Document(Record):
    """A whole report.

    Attributes:
        summary: the conclusion; first on a page, last at a terminal.
        warnings: what to consider when reading it.
    """

    title: str
    sections: tuple[Section, ...]
    summary: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def document_text(document: Document, *, width: int | None = None) -> str:
    """For a terminal, at most `width` characters wide.

    Warnings are left out: a command prints them on stderr.
    """
    parts: list[str] = []
    for section in document.sections:
        if section.page_only:
            continue
        if section.table is not None:
            parts.append(as_text(section.table, underline=_UNDERLINES[bool(parts)], width=width))
        if section.sentences:
            parts.append(as_sentences(section.sentences, width=width))
    if document.summary:
        parts.append(as_sentences(document.summary, width=width))
    return "\n".join(parts)


def document_markdown(document: Document) -> str:
    """For a page or a pull request."""
    parts = [f"> {escape_markdown(warning)}\n" for warning in document.warnings]
    parts += [f"{escape_markdown(sentence)}\n" for sentence in document.summary]
    for section in document.sections:
        if section.table is not None:
            parts.append(as_markdown(section.table))
        parts += [f"{escape_markdown(sentence)}\n" for sentence in section.sentences]
    return "\n".join(parts)
