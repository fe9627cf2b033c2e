"""One stream of numbers."""

import math

FORMAT = 1


class Tally:
    __slots__ = ("count", "minimum", "maximum", "_sum", "_squares")

    def __init__(self, values=()):
        self.count = 0
        self.minimum = None
        self.maximum = None
        self._sum = 0.0
        self._squares = 0.0
        for value in values:
            self.push(value)

    def push(self, value):
        if not math.isfinite(value):
            raise ValueError(f"not a finite number: {value!r}")
        self.count += 1
        self._sum += value
        self._squares += value * value
        self._widen(value, value)

    def merge(self, other):
        """Takes in the values of `other`, which stays as it is."""
        if not other.count:
            return
        self.count += other.count
        self._sum += other._sum
        self._squares += other._squares
        self._widen(other.minimum, other.maximum)

    def __add__(self, other):
        if not isinstance(other, Tally):
            return NotImplemented
        both = Tally()
        both.merge(self)
        both.merge(other)
        return both

    @property
    def mean(self):
        return self._sum / self.count if self.count else None

    def variance(self, population=False):
        divisor = self.count if population else self.count - 1
        if divisor < 1:
            return None
        return (self._squares - self._sum * self._sum / self.count) / divisor

    def deviation(self, population=False):
        variance = self.variance(population)
        return None if variance is None else math.sqrt(variance)

    def dump(self):
        return {
            "format": FORMAT,
            "count": self.count,
            "sum": self._sum,
            "squares": self._squares,
            "min": self.minimum,
            "max": self.maximum,
        }

    @classmethod
    def load(cls, data):
        tally = cls()
        version = data.get("format", 1)
        if version != FORMAT:
            raise ValueError(f"unknown format: {version!r}")
        tally.count = data["count"]
        tally._sum = data["sum"]
        tally._squares = data["squares"]
        tally.minimum = data["min"]
        tally.maximum = data["max"]
        return tally

    def _widen(self, low, high):
        if self.minimum is None or low < self.minimum:
            self.minimum = low
        if self.maximum is None or high > self.maximum:
            self.maximum = high
