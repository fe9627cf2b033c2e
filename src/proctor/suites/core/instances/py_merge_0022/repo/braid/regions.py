"""Which parts of the base were changed, and by whom."""


class Region:
    """The lines of the base from `start` up to `end`, and what each side has made of them."""

    def __init__(self, base, start, end, ours, theirs):
        self.base = base[start:end]
        self.start = start
        self.end = end
        self.only_ours = theirs is None
        self.only_theirs = ours is None
        self.ours = self.base if ours is None else _applied(base, start, end, ours)
        self.theirs = self.base if theirs is None else _applied(base, start, end, theirs)


def regions(base, ours, theirs):
    """The changes of both sides as regions, in order; those that overlap are put together."""
    found = []
    ours, theirs = list(ours), list(theirs)
    while ours and theirs:
        one, other = ours[0], theirs[0]
        if one.start < other.end and other.start < one.end:
            found.append(Region(base, min(one.start, other.start), max(one.end, other.end), one, other))
            del ours[0], theirs[0]
        elif one.start <= other.start:
            found.append(Region(base, one.start, one.end, one, None))
            del ours[0]
        else:
            found.append(Region(base, other.start, other.end, None, other))
            del theirs[0]
    found += [Region(base, change.start, change.end, change, None) for change in ours]
    found += [Region(base, change.start, change.end, None, change) for change in theirs]
    return found


def _applied(base, start, end, change):
    return base[start : change.start] + change.lines + base[change.end : end]
