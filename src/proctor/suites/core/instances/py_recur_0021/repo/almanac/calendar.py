from .expand import occurrences


class Event:
    def __init__(self, title, start, rule, skip=()):
        self.title = title
        self.start = start
        self.rule = rule
        self.skip = frozenset(skip)

    def days(self, first, last):
        """The days from `first` to `last` on which it takes place."""
        for day in occurrences(self.rule, self.start):
            if day > last:
                return
            if day >= first and day not in self.skip:
                yield day


class Calendar:
    def __init__(self):
        self._events = []

    def add(self, event):
        self._events.append(event)

    def agenda(self, first, last):
        """Pairs of day and title, in order; on the same day in the order in which the events were added."""
        found = []
        for number, event in enumerate(self._events):
            found.extend((day, number, event.title) for day in event.days(first, last))
        return [(day, title) for day, _, title in sorted(found)]
