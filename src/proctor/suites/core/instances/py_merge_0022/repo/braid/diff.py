"""The differences between two lists of lines."""


class Change:
    """Replace the lines from `start` up to `end` of the base by `lines`."""

    __slots__ = ("start", "end", "lines")

    def __init__(self, start, end, lines):
        self.start = start
        self.end = end
        self.lines = lines

    def __repr__(self):
        return f"Change({self.start}, {self.end}, {self.lines})"


def changes(base, other):
    """The changes that make `other` from `base`, in order. There is at least one line that stays between any two."""
    found = []
    position = 0
    other_position = 0
    for start, other_start in _common(base, other) + [(len(base), len(other))]:
        if start > position or other_start > other_position:
            found.append(Change(position, start, other[other_position:other_start]))
        position, other_position = start + 1, other_start + 1
    return found


def _common(one, other):
    """Pairs of indexes of a longest common subsequence."""
    head = 0
    while head < min(len(one), len(other)) and one[head] == other[head]:
        head += 1
    tail = 0
    while tail < min(len(one), len(other)) - head and one[-1 - tail] == other[-1 - tail]:
        tail += 1
    pairs = [(index, index) for index in range(head)]
    pairs += _middle(one[head : len(one) - tail], other[head : len(other) - tail], head)
    pairs += [(len(one) - index, len(other) - index) for index in range(tail, 0, -1)]
    return pairs


def _middle(one, other, offset):
    lengths = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for row in range(len(one) - 1, -1, -1):
        for column in range(len(other) - 1, -1, -1):
            if one[row] == other[column]:
                lengths[row][column] = lengths[row + 1][column + 1] + 1
            else:
                lengths[row][column] = max(lengths[row + 1][column], lengths[row][column + 1])
    pairs = []
    row = column = 0
    while row < len(one) and column < len(other):
        if one[row] == other[column]:
            pairs.append((offset + row, offset + column))
            row += 1
            column += 1
        elif lengths[row + 1][column] >= lengths[row][column + 1]:
            row += 1
        else:
            column += 1
    return pairs
