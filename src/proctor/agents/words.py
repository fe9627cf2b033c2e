"""Words of strangers, made fit for one line of a terminal or of a report."""

from typing import Final

SHOWN: Final = 100


def brief(text: str, longest: int = SHOWN) -> str:
    """A text on one line, without what a terminal would act on, cut to a length."""
    # The beginning is enough to look at: the whole may be megabytes.
    words = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * longest]).split()
    line = " ".join(words)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def plain(text: str) -> str:
    """A text that can be an argument or a variable of a program: UTF-8, and no NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")
