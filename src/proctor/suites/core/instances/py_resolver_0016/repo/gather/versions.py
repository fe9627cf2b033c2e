import re
from functools import total_ordering

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?", re.ASCII)


@total_ordering
class Version:
    __slots__ = ("release", "pre", "_key")

    def __init__(self, text):
        match = _VERSION.fullmatch(text)
        if match is None:
            raise ValueError(f"not a version: {text!r}")
        self.release = tuple(map(int, match.groups()[:3]))
        self.pre = match.group(4)
        # Without a pre-release it comes after all of them.
        self._key = (self.release, self.pre is None, self.pre or "")

    def __str__(self):
        text = ".".join(map(str, self.release))
        return text if self.pre is None else f"{text}-{self.pre}"

    def __repr__(self):
        return f"Version({str(self)!r})"

    def __eq__(self, other):
        return isinstance(other, Version) and self._key == other._key

    def __lt__(self, other):
        return self._key < other._key

    def __hash__(self):
        return hash(self._key)
