"""The days on which a rule applies."""

from datetime import date


def occurrences(rule, start):
    """All days of the rule from `start` on, in order."""
    found = 0
    for day in _days(rule, start):
        if day < start:
            continue
        if rule.until is not None and day > rule.until:
            return
        yield day
        found += 1
        if found == rule.count:
            return


def _days(rule, start):
    """All days, beginning with the week of the start."""
    step = rule.interval if rule.unit == "day" else 7 * rule.interval
    offsets = [0]
    first = start.toordinal()
    if rule.unit == "week":
        first -= start.weekday()
        offsets = rule.weekdays or [start.weekday()]
    for base in range(first, date.max.toordinal() + 1, step):
        for offset in offsets:
            if base + offset <= date.max.toordinal():
                yield date.fromordinal(base + offset)
