import operator
import re

from .versions import Version

_COMPARISON = re.compile(r"(\^|~|<=|>=|<|>|=)?(\d+(?:\.\d+){0,2}(?:-[0-9A-Za-z.-]+)?)", re.ASCII)
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


class Range:
    """A set of versions, as written in a requirement."""

    def __init__(self, text):
        self.text = text.strip()
        self._sides = [self._side(side) for side in self.text.split("||")]

    def __contains__(self, version):
        return any(_holds(side, version) for side in self._sides)

    def __str__(self):
        return self.text

    def _side(self, text):
        """A list of (operator, version)."""
        words = text.split()
        if not words:
            raise ValueError(f"not a range: {self.text!r}")
        side = []
        for word in words:
            if word == "*":
                continue
            match = _COMPARISON.fullmatch(word)
            if match is None:
                raise ValueError(f"not a range: {self.text!r}")
            sign, number = match.groups()
            digits, dash, pre = number.partition("-")
            version = Version(digits + ".0" * (2 - digits.count(".")) + dash + pre)
            if sign in ("^", "~"):
                side.append((operator.ge, version))
                side.append((operator.lt, _upper_end(sign, version.release)))
            else:
                side.append((_OPERATORS[sign or "="], version))
        return side


def _upper_end(sign, release):
    major, minor, _ = release
    return Version(f"{major}.{minor + 1}.0" if sign == "~" else f"{major + 1}.0.0")


def _holds(side, version):
    return all(compare(version, bound) for compare, bound in side)
