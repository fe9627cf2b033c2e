"""Words of strangers, made fit for one line of a terminal or of a report."""

from typing import Final

DEFAULT_LINE_CHARS: Final = 100


def truncate_line(text: str, max_chars: int = DEFAULT_LINE_CHARS) -> str:
    """A text on one line, without what a terminal would act on, cut to a length."""
    # The beginning is enough to look at: the whole may be megabytes.
    words = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * max_chars]).split()
    line = " ".join(words)
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def sanitize_argument(text: str) -> str:
    """A text that can be an argument or a variable of a program: UTF-8, and no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
