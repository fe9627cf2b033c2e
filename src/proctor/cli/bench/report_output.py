"""Prints a report in the chosen format."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from proctor.cli.output import log, print_json, terminal_width
from proctor.core.errors import UsageError
from proctor.results import RunStore

if TYPE_CHECKING:
    from proctor.core.record import Versioned
    from proctor.report.document import Document


def check_formats(given: dict[str, Any]) -> None:
    """Refuse two output formats at once, before anything is read.

    Raises:
        UsageError: two are given.
    """
    chosen = [form for form in ("json", "csv", "markdown") if given[f"as_{form}"]]
    if len(chosen) > 1:
        raise UsageError(f"--{chosen[0]} and --{chosen[1]} cannot both be printed", fix="choose one")


def print_report(
    make_document: "Callable[[], Document]",
    given: dict[str, Any],
    *,
    as_json: "Callable[[], Versioned]",
    as_csv: Callable[[], str],
) -> None:
    """Print a report in the chosen format, and write the page with --html. Nothing else is computed."""
    if given["html"] is not None:
        from proctor.report.page import write_page

        write_page(make_document(), given["html"])
        log(f"wrote {given['html']}")
    if given["as_json"]:
        print_json(as_json())
    elif given["as_csv"]:
        click.echo(as_csv(), nl=False)
    else:
        _print_document(make_document(), as_markdown=given["as_markdown"])


def log_unreadable(stores: Iterable[RunStore]) -> None:
    """Say which results were left out of what was printed, because they cannot be read."""
    for note in filter(None, (store.unreadable_note() for store in stores)):
        log(note)


def _print_document(document: "Document", *, as_markdown: bool) -> None:
    from proctor.report.document import document_markdown, document_text

    if as_markdown:
        click.echo(document_markdown(document), nl=False)
        return
    click.echo(document_text(document, width=terminal_width()), nl=False)
    for warning in document.warnings:
        log(warning)
