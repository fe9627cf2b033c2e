"""A report as one HTML file without scripts, fonts or requests."""

from importlib.resources import files
from pathlib import Path

from proctor.core import VERSION
from proctor.core.errors import UsageError
from proctor.core.files import write_atomic
from proctor.core.formatting import visible
from proctor.report.charts import render_svg
from proctor.report.document import Document


def document_html(document: Document) -> str:
    """The page. Names of tasks and runs are escaped."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, keep_trailing_newline=True)
    environment.filters["visible"] = visible
    template = environment.from_string(files("proctor.report").joinpath("page.html").read_text(encoding="utf-8"))
    sections = [
        {
            "table": section.table,
            "sentences": section.sentences,
            "pictures": [(caption, render_svg(chart)) for caption, chart in section.charts],
        }
        for section in document.sections
    ]
    return template.render(document=document, sections=sections, version=VERSION)


def write_page(document: Document, file: Path) -> None:
    """Write the page atomically.

    Raises:
        UsageError: it cannot be written there.
    """
    if not file.name:
        raise UsageError("the page needs a file name", where=file, fix="such as report.html")
    page = document_html(document)
    try:
        write_atomic(file, page)
    except OSError as error:
        raise UsageError(f"the page cannot be written: {error.strerror}", where=file) from error
