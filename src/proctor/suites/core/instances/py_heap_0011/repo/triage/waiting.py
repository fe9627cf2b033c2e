"""A queue by priority, first come first served among equals."""


class _Entry:
    __slots__ = ("name", "priority", "ticket")

    def __init__(self, name, priority, ticket):
        self.name = name
        self.priority = priority
        self.ticket = ticket

    def goes_before(self, other):
        if self.priority < other.priority:
            return True
        if other.priority < self.priority:
            return False
        return self.ticket < other.ticket


class WaitingList:
    def __init__(self):
        self._line = []  # who goes first stands last
        self._tickets = 0

    def __len__(self):
        return len(self._line)

    def __contains__(self, name):
        return any(entry.name == name for entry in self._line)

    def add(self, name, priority):
        if name in self:
            raise ValueError(f"{name!r} is waiting already")
        entry = _Entry(name, priority, self._tickets)
        self._tickets += 1
        self._put(entry)

    def change(self, name, priority):
        entry = self._find(name)
        self._line.remove(entry)
        entry.priority = priority
        self._put(entry)

    def priority(self, name):
        return self._find(name).priority

    def leave(self, name):
        """Takes somebody out of the list, wherever they are."""
        self._line.remove(self._find(name))

    def peek(self):
        """The name that `next` would give."""
        if not self._line:
            raise LookupError("nobody is waiting")
        return self._line[-1].name

    def next(self):
        name = self.peek()
        self._line.pop()
        return name

    def names(self):
        """Everybody in the order in which they would be called."""
        return [entry.name for entry in reversed(self._line)]

    def _find(self, name):
        for entry in self._line:
            if entry.name == name:
                return entry
        raise KeyError(name)

    def _put(self, entry):
        place = len(self._line)
        while place and self._line[place - 1].goes_before(entry):
            place -= 1
        self._line.insert(place, entry)
