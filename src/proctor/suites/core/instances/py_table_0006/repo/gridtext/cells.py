"""What fits into how many columns of a terminal."""

ELLIPSIS = "…"


def cut(text, limit):
    """The text, shortened to `limit` columns if it is wider."""
    if len(text) <= limit:
        return text
    return text[: limit - 1] + ELLIPSIS


def pad(text, columns, align):
    """The text, filled up with blanks to so many columns."""
    if align == "r":
        return text.rjust(columns)
    if align == "c":
        return text.center(columns)
    return text.ljust(columns)
