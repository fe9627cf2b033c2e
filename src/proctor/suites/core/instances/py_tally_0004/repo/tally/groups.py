"""Many streams, told apart by a label."""

from .accumulator import Tally


class Groups:
    def __init__(self):
        self._tallies = {}

    def push(self, label, value):
        self._tallies.setdefault(label, Tally()).push(value)

    def merge(self, other):
        for label, tally in other._tallies.items():
            self._tallies.setdefault(label, Tally()).merge(tally)

    def total(self):
        """All labels taken together."""
        total = Tally()
        for tally in self._tallies.values():
            total.merge(tally)
        return total

    def __getitem__(self, label):
        return self._tallies[label]

    def __len__(self):
        return len(self._tallies)

    def labels(self):
        return sorted(self._tallies)

    def dump(self):
        return {label: tally.dump() for label, tally in self._tallies.items()}

    @classmethod
    def load(cls, data):
        groups = cls()
        groups._tallies = {label: Tally.load(entry) for label, entry in data.items()}
        return groups
