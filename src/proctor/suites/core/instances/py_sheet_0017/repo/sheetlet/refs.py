"""Names of cells: "B7" is column 2, row 7, as the pair (2, 7)."""

import re

_NAME = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})")


def parse(name):
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"not a cell: {name!r}")
    column = 0
    for letter in match.group(1):
        column = column * 26 + ord(letter) - ord("A") + 1
    return column, int(match.group(2))


def name(cell):
    column, row = cell
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return f"{letters}{row}"


def area(first, last):
    """All cells of a range, row by row, whichever corners are given."""
    left, right = sorted((first[0], last[0]))
    top, bottom = sorted((first[1], last[1]))
    return [(column, row) for row in range(top, bottom + 1) for column in range(left, right + 1)]
