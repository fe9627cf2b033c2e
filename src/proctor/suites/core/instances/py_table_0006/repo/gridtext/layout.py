"""Rows into lines."""

from .cells import cut, pad

GAP = "  "


def table(rows, header=True, align="", limit=None):
    """The rows as a table, one line each; short rows are filled up with empty cells."""
    if limit is not None and limit < 1:
        raise ValueError("a cell needs at least one column")
    unknown = set(align) - set("lrc")
    if unknown:
        raise ValueError(f"unknown alignment: {sorted(unknown)[0]!r}")
    rows = [[_clean(cell) for cell in row] for row in rows]
    if not rows:
        return ""
    if limit is not None:
        rows = [[cut(cell, limit) for cell in row] for row in rows]
    columns = max(len(row) for row in rows)
    rows = [row + [""] * (columns - len(row)) for row in rows]
    widths = [max(len(row[index]) for row in rows) for index in range(columns)]
    align = align.ljust(columns, "l")
    lines = [_line(row, widths, align) for row in rows]
    if header:
        lines.insert(1, GAP.join("-" * width for width in widths).rstrip())
    return "".join(line + "\n" for line in lines)


def _line(row, widths, align):
    cells = (pad(cell, columns, letter) for cell, columns, letter in zip(row, widths, align))
    return GAP.join(cells).rstrip(" ")


def _clean(cell):
    """Cells are single lines: line breaks and tabs become blanks."""
    return "".join(" " if char in "\t\r\n" else char for char in str(cell))
