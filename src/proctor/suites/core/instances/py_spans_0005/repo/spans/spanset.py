from bisect import bisect_right


class SpanSet:
    def __init__(self, spans=()):
        self._starts = []
        self._ends = []
        for start, end in spans:
            self.add(start, end)

    def add(self, start, end):
        self._check(start, end)
        if start == end:
            return
        index = bisect_right(self._ends, start)
        if index < len(self._starts) and self._starts[index] < end:
            self._starts[index] = min(start, self._starts[index])
            self._ends[index] = max(end, self._ends[index])
        else:
            self._starts.insert(index, start)
            self._ends.insert(index, end)

    def discard(self, start, end):
        self._check(start, end)
        if start == end:
            return
        index = bisect_right(self._ends, start)
        while index < len(self._starts) and self._starts[index] < end:
            if self._starts[index] < start:
                self._ends[index] = start
                index += 1
            elif self._ends[index] > end:
                self._starts[index] = end
                index += 1
            else:
                del self._starts[index], self._ends[index]

    def spans(self):
        return list(zip(self._starts, self._ends))

    def total(self):
        """How many numbers are in the set."""
        return sum(end - start for start, end in zip(self._starts, self._ends))

    def gaps(self, start, end):
        """What is missing between `start` and `end`, as a list of spans."""
        self._check(start, end)
        missing = SpanSet([(start, end)])
        for span in self.spans():
            missing.discard(*span)
        return missing.spans()

    def covers(self, start, end):
        """Whether every number from `start` up to `end` is in the set."""
        return not self.gaps(start, end)

    def __contains__(self, number):
        index = bisect_right(self._starts, number) - 1
        return index >= 0 and number < self._ends[index]

    def __or__(self, other):
        return SpanSet(self.spans() + other.spans())

    def __sub__(self, other):
        result = SpanSet(self.spans())
        for span in other.spans():
            result.discard(*span)
        return result

    def __and__(self, other):
        return self - (self - other)

    def __eq__(self, other):
        return isinstance(other, SpanSet) and self.spans() == other.spans()

    __hash__ = None

    def __bool__(self):
        return bool(self._starts)

    def __repr__(self):
        return f"SpanSet({self.spans()})"

    @staticmethod
    def _check(start, end):
        if end < start:
            raise ValueError(f"a span cannot end ({end}) before it starts ({start})")
