import re
from fractions import Fraction

from .units import SIZES

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(w|d|h|m|s|ms)")


def parse(text):
    """The number of milliseconds that `text` stands for."""
    rest = text.strip()
    if rest == "0":
        return 0
    sign = 1
    if rest[:1] in ("-", "+"):
        sign = -1 if rest[0] == "-" else 1
        rest = rest[1:]
    total = Fraction(0)
    parts = _PART.findall(rest)
    if not parts:
        raise ValueError(f"not a duration: {text!r}")
    for number, unit in parts:
        total += Fraction(number) * SIZES[unit]
    return sign * int(total)
