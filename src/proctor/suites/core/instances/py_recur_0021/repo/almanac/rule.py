WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


class Rule:
    """How something repeats. Weekdays are numbers, Monday is 0."""

    def __init__(self, unit, interval=1, weekdays=(), until=None, count=None):
        if interval < 1 or count is not None and count < 1:
            raise ValueError("numbers start at 1")
        self.unit = unit  # "day" or "week"
        self.interval = interval
        self.weekdays = tuple(sorted(set(weekdays)))
        self.until = until
        self.count = count

    def __str__(self):
        words = ["every"]
        words += [self.unit] if self.interval == 1 else [str(self.interval), self.unit + "s"]
        if self.weekdays:
            words += ["on", ", ".join(WEEKDAYS[number] for number in self.weekdays)]
        if self.until is not None:
            words += ["until", self.until.isoformat()]
        if self.count is not None:
            words += [str(self.count), "times"]
        return " ".join(words)

    def __repr__(self):
        return f"<Rule {self}>"

    def __eq__(self, other):
        return isinstance(other, Rule) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))
