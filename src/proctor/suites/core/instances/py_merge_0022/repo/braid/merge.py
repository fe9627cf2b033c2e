from .diff import changes
from .regions import regions


class Result:
    def __init__(self, text, conflicts):
        self.text = text
        self.conflicts = conflicts


def merge(base, ours, theirs, labels=("ours", "theirs"), show_base=False):
    """Merges two texts that come from the same base."""
    base, ours, theirs = base.splitlines(True), ours.splitlines(True), theirs.splitlines(True)
    writer = _Writer(labels, show_base)
    position = 0
    for region in regions(base, changes(base, ours), changes(base, theirs)):
        writer.lines(base[position : region.start])
        if region.only_ours or region.ours == region.theirs:
            writer.lines(region.ours)
        elif region.only_theirs:
            writer.lines(region.theirs)
        else:
            writer.conflict(region)
        position = region.end
    writer.lines(base[position:])
    return Result(writer.text(), writer.conflicts)


class _Writer:
    def __init__(self, labels, show_base):
        self._out = []
        self._labels = labels
        self._show_base = show_base
        self.conflicts = 0

    def text(self):
        return "".join(self._out)

    def lines(self, lines):
        self._out += lines

    def conflict(self, region):
        self.conflicts += 1
        self._marker("<<<<<<< " + self._labels[0])
        self.lines(region.ours)
        if self._show_base:
            self._marker("||||||| base")
            self.lines(region.base)
        self._marker("=======")
        self.lines(region.theirs)
        self._marker(">>>>>>> " + self._labels[1])

    def _marker(self, text):
        self._out.append(text + "\n")
