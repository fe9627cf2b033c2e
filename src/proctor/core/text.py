"""How things are written for people: amounts, and text that others wrote, so that it is what it seems.

Agents choose file names, test ids and last words.
"""

import re
from typing import Final

_CENTS: Final = 0.1
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# What cannot be seen, or turns the direction of what can: a line must read as it is.
_HIDDEN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
    r"|[\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Text without terminal escapes, in which every character that cannot be seen is named."""
    return _HIDDEN.sub(
        lambda found: (
            f"\N{MATHEMATICAL LEFT WHITE SQUARE BRACKET}{ord(found[0]):X}\N{MATHEMATICAL RIGHT WHITE SQUARE BRACKET}"
        ),
        _ESCAPES.sub("", text.replace("\r\n", "\n")),
    )


def one_line(text: str) -> str:
    """The same for a cell of a table."""
    return visible(text.replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def money(usd: float | None) -> str:
    """An amount: cents, or where that would be nothing, hundredths of them."""
    if usd is None:
        return "unknown"
    return f"${usd:,.2f}" if usd >= _CENTS or usd == 0 else f"${usd:.4f}"
