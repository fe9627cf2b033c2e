import pytest

from proctor.report.document import Document, Section, document_text
from proctor.report.tables import Table, as_markdown, as_text

TABLE = Table(
    title="Runs",
    headings=("Run ID", "Resolved", "Cost", "Interval"),
    rows=(("run-001", "3/4", "$0.50", "30% to 95%"), ("run-002", "-", "unknown", "-")),
    notes=("one two three four five six seven",),
)


def test_a_table_that_fits_is_one_piece() -> None:
    whole = as_text(TABLE)
    assert max(map(len, whole.splitlines())) == 41
    assert as_text(TABLE, width=41) == whole


@pytest.mark.parametrize("width", [40, 30, 22, 5])
def test_columns_that_do_not_fit_go_below_beside_the_first(width: int) -> None:
    text = as_text(TABLE, width=width)
    lines = [line for line in text.splitlines()[2:] if line[:3] in {"Run", "run"}]
    assert len(lines) % 3 == 0  # every block has the heading and both runs
    cells = {cell for line in lines for cell in line.split("   ")}
    assert {cell for row in (TABLE.headings, *TABLE.rows) for cell in row} <= {cell.strip() for cell in cells}
    if width >= 22:  # no column by itself is wider
        assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 33, 20])
def test_cells_are_folded_where_two_columns_do_not_fit(width: int) -> None:
    text = as_text(
        Table(title="A title of " + "many words " * 5, headings=("Task", "Run"), rows=(("t" * 50, "r" * 30),)),
        width=width,
    )
    assert max(map(len, text.splitlines())) <= width
    assert (text.count("t" * 8), text.count("-") > 8) == (text.count("t" * 8) or 1, True)
    assert text.count("t") - text.count("title") * 2 == 50


def test_sentences_are_folded_between_words_and_only_for_a_terminal() -> None:
    sentence = "run-002 is better than run-001 by a good deal"
    document = Document(title="x", sections=(Section(sentences=(sentence,)),), summary=(sentence,))
    assert document_text(document) == f"{sentence}\n\n{sentence}\n"
    assert document_text(document, width=25) == "\n".join(["run-002 is better than\nrun-001 by a good deal\n"] * 2)


def test_amounts_are_amounts_in_markdown_and_no_formula() -> None:
    table = Table(title="~~Cost~~", headings=("Cost",), rows=(("$0.49 ($0.46 to $0.52)",),))
    assert as_markdown(table).splitlines() == [
        *(r"## \~\~Cost\~\~", "", "| Cost |", "| --- |", r"| \$0.49 (\$0.46 to \$0.52) |"),
    ]
